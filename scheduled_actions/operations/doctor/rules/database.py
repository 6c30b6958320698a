"""Checks of the project's database."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from scheduled_actions.core.errors import SchemaShadowed, SchemaUnreleased
from scheduled_actions.core.messages import counted, listed
from scheduled_actions.operations.doctor.rules import FAULT, WARNING, Check, first_problem, in_words

#: Supported major versions of PostgreSQL.
OLDEST_SERVER, NEWEST_SERVER = 14, 18
#: A clock difference above `CLOCK_WARNING` causes a warning. One above `CLOCK_FAULT` causes a fault, because webhook
#: signatures then count as expired.
CLOCK_WARNING, CLOCK_FAULT = timedelta(seconds=2), timedelta(minutes=5)
#: An older transaction keeps vacuum from removing dead rows.
OLD_TRANSACTION = timedelta(minutes=5)
#: Maximum number of listed databases of deleted projects.
_STRAYS_MOST = 5
_MIGRATE = "run `scheduled-actions migrate`"


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationState:
    """The migrations of a database compared with those of this code."""

    #: The number of the newest applied migration; 0: none.
    found: int
    #: The number of the newest migration of this code.
    wanted: int
    #: Why `migrate` cannot update the tables; None if it can.
    unusable: SchemaShadowed | SchemaUnreleased | None = None
    #: SQL functions whose version differs from this code's.
    stale_functions: tuple[str, ...] = ()


def database(problem: str | None) -> Check:
    """Return a fault if the database does not answer or rejects a query.

    Args:
        problem: What went wrong, without an address, user or password; None: the database answers.
    """
    return first_problem(
        "database",
        (problem, FAULT, str(problem), "check DATABASE_URL, and that the server accepts connections"),
        ok="answers",
    )


def server(*, major: int, encoding: str) -> Check:
    """Return a fault for an old server or an encoding other than UTF-8, a warning for a server newer than this code."""
    found, supported = f"PostgreSQL {major}, {encoding}", f"PostgreSQL {OLDEST_SERVER} to {NEWEST_SERVER}"
    return first_problem(
        "server",
        (major < OLDEST_SERVER, FAULT, found, f"use {supported}"),
        (encoding != "UTF8", FAULT, found, "move to a database with encoding 'UTF8'"),
        (major > NEWEST_SERVER, WARNING, found, f"{supported} are supported; newer versions probably work"),
        ok=found,
    )


def defaults(settings: Mapping[str, str]) -> Check:
    """Return a fault if sessions are read-only by default; a passed check lists other unusual defaults.

    Args:
        settings: The default settings of sessions by name.
    """
    date_style, isolation = settings["DateStyle"], settings["default_transaction_isolation"]
    unusual = [f"datestyle = {date_style}"] if not date_style.startswith("ISO") else []
    unusual += [f"default_transaction_isolation = {isolation}"] if isolation != "read committed" else []
    return first_problem(
        "defaults",
        (
            settings["default_transaction_read_only"] == "on",
            FAULT,
            "default_transaction_read_only is on: nothing can be written",
            "find the cause (some hosts set it when a disk is full), then reset it with `alter database … reset`",
        ),
        ok=f"{', '.join(unusual)}: our own connections use ISO and read committed"
        if unusual
        else "date style and isolation level have their usual values",
    )


def migrations(state: MigrationState) -> Check:
    """Return a fault if migrations are missing or `migrate` cannot run.

    Newer migrations, and SQL functions of another version, cause a warning.
    """
    if state.unusable is not None:
        return Check("migrations", FAULT, state.unusable.problem, state.unusable.remedy)
    return first_problem(
        "migrations",
        (not state.found, FAULT, "the tables do not exist", _MIGRATE),
        (state.found < state.wanted, FAULT, f"at migration {state.found}; this code needs {state.wanted}", _MIGRATE),
        (
            state.found > state.wanted,
            WARNING,
            f"at migration {state.found}, newer than this code ({state.wanted})",
            "deploy the newer release here as well",
        ),
        (
            state.stale_functions,
            WARNING,
            f"SQL functions of another version: {', '.join(state.stale_functions)}",
            _MIGRATE,
        ),
        ok=f"at migration {state.found}",
    )


def indexes(unfinished: Sequence[str]) -> Check:
    """Return a warning if an interrupted `migrate` left indexes unfinished: statements are slow without them."""
    return first_problem(
        "indexes",
        (unfinished, WARNING, f"missing or invalid: {', '.join(unfinished)}", f"{_MIGRATE} to continue"),
        ok="all are built",
    )


def functions_in_use(users: Mapping[str, Sequence[str]]) -> Check:
    """Return a warning if objects still depend on SQL functions of an earlier release.

    Args:
        users: Descriptions of the dependent objects, by the signature of the function.
    """
    named = "; ".join(f"{signature}, used by {', '.join(names)}" for signature, names in users.items())
    return first_problem(
        "functions",
        (
            users,
            WARNING,
            f"SQL functions of an earlier release: {named}",
            (
                "drop these objects, or make them call the current version (the name without `_outdated`); then run "
                "`scheduled-actions migrate`, which drops the functions"
            ),
        ),
        ok="no function of an earlier release is in use",
    )


def schema(name: str, creators: Sequence[str | None]) -> Check:
    """Return a warning if roles other than the owner of the tables may create objects in the schema of the tables.

    Args:
        name: The schema of the tables.
        creators: These roles; None stands for every role. PostgreSQL could call their functions in place of ours, if
            the types of the arguments match better.
    """
    return first_problem(
        "schema",
        (
            creators,
            WARNING,
            f"other roles may create objects in schema {name}: {', '.join(role or 'every role' for role in creators)}",
            (
                "their functions could run with the rights of the actions' owner: "
                f"`revoke create on schema {name} from {', '.join(role or 'public' for role in creators)}`"
            ),
        ),
        ok=f"no other role may create objects in schema {name}",
    )


def clocks(machine_ahead: timedelta) -> Check:
    """Return a warning if the clocks differ by more than two seconds, a fault beyond five minutes."""
    apart, direction = abs(machine_ahead), "ahead of" if machine_ahead > timedelta(0) else "behind"
    return first_problem(
        "clocks",
        (
            apart > CLOCK_WARNING,
            FAULT if apart > CLOCK_FAULT else WARNING,
            f"this machine is {in_words(apart)} {direction} the database, whose clock determines which actions are due",
            "synchronize both clocks (NTP): beyond a difference of five minutes, webhook signatures are rejected",
        ),
        ok="this machine and the database agree",
    )


def pooler(*, is_shared: bool, is_relayed: bool, is_declared_direct: bool) -> Check:
    """Return a fault or a warning if `database_direct` is set behind a pooler or a proxy.

    A transaction-mode pooler causes a fault, any other pooler and a proxy cause a warning.

    Args:
        is_shared: Whether two clients got the same session: a transaction-mode pooler.
        is_relayed: Whether something other than the server answered the login: a pooler or a proxy.
        is_declared_direct: The setting `database_direct`.
    """
    shared, relayed = "connected through a transaction-mode pooler", "connected through a pooler or a proxy"
    remedy, but = "set database_direct = false, or connect to the server itself", "but database_direct is true"
    return first_problem(
        "pooler",
        (is_shared and is_declared_direct, FAULT, f"{shared}, {but}", remedy),
        (
            is_relayed and is_declared_direct and not is_shared,
            WARNING,
            f"{relayed}, {but}",
            f"{remedy}; ignore this if each client keeps its own session",
        ),
        ok=f"{shared}, which is supported"
        if is_shared
        else relayed
        if is_relayed
        else "connected to the server itself",
    )


def transactions(old: Sequence[tuple[int, timedelta]], *, sees_all: bool) -> Check:
    """Return a warning if transactions are older than `OLD_TRANSACTION`.

    Args:
        old: The server's process id and the age of each of these transactions.
        sees_all: Whether this role can see the sessions of other roles.
    """
    return first_problem(
        "transactions",
        (
            old,
            WARNING,
            f"open too long: {', '.join(f'process {pid} for {in_words(age)}' for pid, age in old)}",
            "dead rows accumulate: end the transaction, or run `select pg_terminate_backend(process)`",
        ),
        ok="no transaction has been open for long"
        if sees_all
        else "no transaction of this role has been open for long; `grant pg_monitor` to it to include other roles",
    )


def stored_secrets(endpoints: int, *, problem: str | None) -> Check:
    """Return a fault if a secret of the stored webhook endpoints cannot be decrypted.

    Args:
        endpoints: Number of stored endpoints.
        problem: Why a secret cannot be decrypted; None if all that were checked can.
    """
    count = f"{counted(endpoints, 'webhook endpoint')} in the database"
    return first_problem(
        "stored_secrets",
        (
            problem,
            FAULT,
            f"{count}: {problem}",
            (
                "nothing is sent to an endpoint with such a secret: if SCHEDULED_ACTIONS_ENCRYPTION_KEY was changed, "
                "append the old key to it, after a comma"
            ),
        ),
        ok=f"{count}, secrets can be decrypted",
    )


def stray_databases(found: Sequence[tuple[str, str]]) -> Check:
    """Return a warning for embedded databases of deleted projects.

    Args:
        found: The directory of each one, and that of its project; at least one.
    """
    shown = listed([f"{home} (of {project})" for home, project in found], most=_STRAYS_MOST)
    return Check(
        "stray_databases",
        WARNING,
        f"{counted(len(found), 'embedded database')} of deleted projects: {shown}",
        "delete the data with `scheduled-actions dev --purge --strays`",
    )
