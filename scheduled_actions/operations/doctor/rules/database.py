"""What the facts found about a project's database mean, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from scheduled_actions.operations.doctor.rules import Check, Level

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduled_actions.core.errors import SchemaHidden, SchemaUnreleased

#: Servers that this version was made for.
OLDEST_SERVER, NEWEST_SERVER = 14, 18
#: Clocks this far apart are worth a word; beyond the second, signatures are refused for their age.
CLOCK_WARNING, CLOCK_FAULT = timedelta(seconds=2), timedelta(minutes=5)
#: A transaction older than this keeps vacuum from cleaning up.
OLD_TRANSACTION = timedelta(minutes=5)
#: A cron that pings every minute has missed several.
TICKS_MISSED = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class DatabaseFound:
    """The way to the database."""

    #: Why it does not answer, in words without addresses, names or passwords; None when it does.
    problem: str | None

    def judged(self) -> Check:
        """Return a fault where it does not answer."""
        if self.problem is not None:
            return Check(
                "database", Level.FAULT, self.problem, "check DATABASE_URL, and that the server takes connections"
            )
        return Check("database", Level.OK, "answers")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFound:
    """What answers there."""

    #: PostgreSQL's major version.
    major: int
    encoding: str

    def judged(self) -> Check:
        """Return a fault for a server that cannot carry the tables, a warning for one newer than this code."""
        found = f"PostgreSQL {self.major}, {self.encoding}"
        if self.major < OLDEST_SERVER:
            return Check("server", Level.FAULT, found, f"use PostgreSQL {OLDEST_SERVER} to {NEWEST_SERVER}")
        if self.encoding != "UTF8":
            return Check("server", Level.FAULT, found, "create the database with encoding 'UTF8' and move there")
        if self.major > NEWEST_SERVER:
            remedy = f"it will probably do; this version was made for PostgreSQL {OLDEST_SERVER} to {NEWEST_SERVER}"
            return Check("server", Level.WARNING, found, remedy)
        return Check("server", Level.OK, found)


@dataclass(frozen=True, slots=True)
class DefaultsFound:
    """What sessions begin with, by the database's and the role's defaults."""

    date_style: str
    isolation: str
    is_read_only: bool = False

    def judged(self) -> Check:
        """Return a fault where nothing can be written; name what our connections set otherwise."""
        if self.is_read_only:
            remedy = "find out who set it: some hosts do so when a disk is full; `alter database … reset` takes it back"
            return Check("defaults", Level.FAULT, "default_transaction_read_only is on: nothing can be written", remedy)
        other = [f"datestyle = {self.date_style}"] if not self.date_style.startswith("ISO") else []
        other += [f"default_transaction_isolation = {self.isolation}"] if self.isolation != "read committed" else []
        if other:
            return Check("defaults", Level.OK, f"{', '.join(other)}: our own connections use ISO and read committed")
        return Check("defaults", Level.OK, "date style and isolation level are the usual ones")


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationsFound:
    """The newest migration of the database, and the newest this code has."""

    found: int
    wanted: int
    #: Why no `migrate` can bring the tables up to date; None: it can.
    unusable: SchemaHidden | SchemaUnreleased | None = None
    #: The SQL functions of which the database has another version.
    stale_functions: tuple[str, ...] = ()

    def judged(self) -> Check:
        """Return a fault where some are missing; a database ahead of its code works, as migrations only expand."""
        migrate = "run `scheduled-actions migrate`"
        if self.unusable is not None:
            return Check("migrations", Level.FAULT, self.unusable.problem, self.unusable.remedy)
        if not self.found:
            return Check("migrations", Level.FAULT, "the tables are not there", migrate)
        if self.found < self.wanted:
            return Check("migrations", Level.FAULT, f"at {self.found}, this code needs {self.wanted}", migrate)
        if self.found > self.wanted:
            detail = f"at {self.found}, this code knows {self.wanted}"
            return Check("migrations", Level.WARNING, detail, "deploy the newer release here, too")
        if self.stale_functions:
            detail = f"SQL functions of another version: {', '.join(self.stale_functions)}"
            return Check("migrations", Level.WARNING, detail, migrate)
        return Check("migrations", Level.OK, f"at {self.found}")


@dataclass(frozen=True, slots=True)
class IndexesFound:
    """Indexes that `migrate` builds without blocking writers, and that an interruption left unfinished."""

    unfinished: tuple[str, ...]

    def judged(self) -> Check:
        """Return a warning that names them: statements work without them, slowly."""
        if self.unfinished:
            detail = f"missing or invalid: {', '.join(self.unfinished)}"
            return Check("indexes", Level.WARNING, detail, "run `scheduled-actions migrate`: it resumes there")
        return Check("indexes", Level.OK, "all are built")


@dataclass(frozen=True, slots=True)
class FunctionsInUseFound:
    """SQL functions of earlier releases that `migrate` keeps, because something depends on them."""

    #: What uses each, as the server describes it, by the function's signature.
    users: Mapping[str, tuple[str, ...]]

    def judged(self) -> Check:
        """Return a warning that names them and their users: they go on with what an earlier release did."""
        if self.users:
            named = "; ".join(f"{signature}, used by {', '.join(users)}" for signature, users in self.users.items())
            remedy = (
                "drop what uses them, or let it use the present version, which has the name without `_outdated`; "
                "then run `scheduled-actions migrate`, which drops the functions"
            )
            return Check("functions", Level.WARNING, f"SQL functions of an earlier release: {named}", remedy)
        return Check("functions", Level.OK, "none of an earlier release is in use")


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaFound:
    """The schema of the tables, and the roles that may create in it although they have no rights on the tables."""

    name: str
    #: Their names; None for every role.
    creators: tuple[str | None, ...]

    def judged(self) -> Check:
        """Return a warning where there are any: functions are chosen by their arguments, whichever role made them."""
        if not self.creators:
            return Check("schema", Level.OK, f"no other role may create in schema {self.name}")
        named = ", ".join(role or "every role" for role in self.creators)
        revoked = ", ".join(role or "public" for role in self.creators)
        remedy = (
            "functions that they put there can run with the rights of the actions' owner: "
            f"`revoke create on schema {self.name} from {revoked}`"
        )
        return Check("schema", Level.WARNING, f"others may create in schema {self.name}: {named}", remedy)


@dataclass(frozen=True, slots=True)
class ClocksFound:
    """The clock of this machine against the database's."""

    #: How far the machine is ahead; negative when it is behind.
    machine_ahead: timedelta

    def judged(self) -> Check:
        """Return a warning from two seconds on, a fault beyond what signatures bear."""
        apart = abs(self.machine_ahead)
        if apart <= CLOCK_WARNING:
            return Check("clocks", Level.OK, "this machine and the database agree")
        direction = "ahead of" if self.machine_ahead > timedelta(0) else "behind"
        detail = f"this machine is {in_words(apart)} {direction} the database, whose clock decides what is due"
        level = Level.FAULT if apart > CLOCK_FAULT else Level.WARNING
        return Check("clocks", level, detail, "keep both in step (NTP): signatures are refused beyond five minutes")


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFound:
    """What stands between this process and the server."""

    #: Two clients shared one session of the server: a transaction-mode pooler.
    is_shared: bool
    #: Somebody else than the server answered the login: a pooler or a proxy.
    is_relayed: bool
    #: The setting `database_direct`.
    is_declared_direct: bool

    def judged(self) -> Check:
        """Return a fault where named prepared statements would meet a session that does not know them."""
        remedy = "set database_direct = false, or connect to the server itself"
        if self.is_shared:
            detail = "a transaction-mode pooler stands between"
            if self.is_declared_direct:
                return Check("pooler", Level.FAULT, f"{detail}, but database_direct is true", remedy)
            return Check("pooler", Level.OK, f"{detail}; nothing here depends on a session")
        if self.is_relayed:
            detail = "a pooler or a proxy stands between"
            if self.is_declared_direct:
                return Check(
                    "pooler",
                    Level.WARNING,
                    f"{detail}, but database_direct is true",
                    f"unless it keeps sessions: {remedy}",
                )
            return Check("pooler", Level.OK, detail)
        return Check("pooler", Level.OK, "none stands between")


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsFound:
    """Transactions older than `OLD_TRANSACTION`, the oldest first."""

    #: The server's process id, and how long ago the transaction began.
    old: tuple[tuple[int, timedelta], ...]
    #: Whether this role sees the sessions of others.
    sees_all: bool

    def judged(self) -> Check:
        """Return a warning that names them: claims slow down while dead rows cannot be cleaned up."""
        if self.old:
            named = ", ".join(f"process {pid} for {in_words(age)}" for pid, age in self.old)
            remedy = "dead rows pile up behind it: end it there, or with `select pg_terminate_backend(process)`"
            return Check("transactions", Level.WARNING, f"open too long: {named}", remedy)
        if not self.sees_all:
            return Check(
                "transactions", Level.OK, "this role has none open for long; others' need `grant pg_monitor` to be seen"
            )
        return Check("transactions", Level.OK, "none is open for long")


def in_words(span: timedelta) -> str:
    """Return a length of time in its largest unit that says enough: `12 seconds`, `3 hours`."""
    seconds = max(0, round(span.total_seconds()))
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}s"
    return f"{seconds} second{'' if seconds == 1 else 's'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSecretsFound:
    """The secrets of the webhook endpoints that the database holds."""

    endpoints: int
    #: Why they cannot be read, without a secret; None when they can.
    problem: str | None

    def judged(self) -> Check:
        """Return a fault where nothing could be signed."""
        count = f"{self.endpoints} webhook endpoint{'' if self.endpoints == 1 else 's'} in the database"
        if self.problem is not None:
            remedy = "nothing is sent to them until then; after a change of keys, keep the old one after a comma"
            return Check("stored_secrets", Level.FAULT, f"{count}: {self.problem}", remedy)
        return Check("stored_secrets", Level.OK, f"{count}, secrets can be read")
