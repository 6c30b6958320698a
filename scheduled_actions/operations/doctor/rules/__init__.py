"""What the facts found about an installation mean, and what to do: the judgement of `doctor` and `/readyz`.

Each fact is a value that knows its own meaning; those of the database are in `doctor.rules.database`. Facts are
gathered elsewhere; nothing here does I/O.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Level(StrEnum):
    """How bad it is, from good to bad."""

    OK = "ok"
    #: It works; somebody should look at it.
    WARNING = "warning"
    #: Something does not work until it is mended.
    FAULT = "fault"


@dataclass(frozen=True, slots=True)
class Check:
    """A fact, judged."""

    name: str
    level: Level
    #: What was found.
    detail: str
    #: What to do; None where nothing has to be done.
    remedy: str | None = None

    def as_json(self) -> dict[str, str | None]:
        """Return the check as programs read it."""
        return {"name": self.name, "status": self.level.value, "detail": self.detail, "remedy": self.remedy}


class Fact(Protocol):
    """Something found about an installation."""

    def judged(self) -> Check:
        """Return what it means."""


def worst(checks: Iterable[Check]) -> Level:
    """Return the worst level among the checks; `ok` where there is none."""
    from_good_to_bad = list(Level)
    return max((check.level for check in checks), key=from_good_to_bad.index, default=Level.OK)


@dataclass(frozen=True, slots=True)
class SettingsFound:
    """The settings of the file and the environment."""

    #: Why they cannot be used; None when they can.
    problem: str | None
    is_enabled: bool = True

    def judged(self) -> Check:
        """Return a fault where they cannot be used, a warning where they switch all work off."""
        if self.problem is not None:
            return Check("settings", Level.FAULT, self.problem, "mend it; what depends on the settings was not checked")
        if not self.is_enabled:
            detail = "enabled is false: ticks answer, and process nothing"
            return Check("settings", Level.WARNING, detail, "set enabled = true when work may go on")
        return Check("settings", Level.OK, "can be used")


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretFound:
    """A secret that opens something."""

    variable: str
    #: What is closed without it.
    opens: str
    is_set: bool
    is_usable: bool
    #: Whether an installation can do without what it opens.
    is_optional: bool

    def judged(self) -> Check:
        """Return a fault where it was meant to open something and does not."""
        name = self.variable.lower()
        if self.is_usable:
            return Check(name, Level.OK, f"{self.variable} is set")
        remedy = f"set {self.variable} to 16 random characters or more"
        if self.is_set:
            return Check(name, Level.FAULT, f"{self.variable} is too short, so {self.opens} is closed", remedy)
        level = Level.WARNING if self.is_optional else Level.FAULT
        return Check(name, level, f"{self.variable} is not set, so {self.opens} is closed", remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointFound:
    """An enabled webhook endpoint."""

    name: str
    #: What is wrong with its URL or its secret, never repeating either; None when nothing is.
    problem: str | None
    is_signed: bool

    def judged(self) -> Check:
        """Return a fault where nothing could be delivered, a warning where deliveries prove nothing."""
        name = f"endpoint:{self.name}"
        if self.problem is not None:
            return Check(name, Level.FAULT, self.problem, "set that variable, or enabled = false for the endpoint")
        if not self.is_signed:
            remedy = "name a variable with secret_env_var, and put a whsec_ secret there"
            return Check(name, Level.WARNING, "deliveries are not signed: a receiver cannot tell who sent them", remedy)
        return Check(name, Level.OK, "has a URL and signs")


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadsFound:
    """The threads that run this process's handlers."""

    stuck: int
    concurrency: int
    #: Whether the process was told to end.
    is_stopping: bool = False

    @property
    def is_exhausted(self) -> bool:
        """Whether handlers that never returned hold every thread: only a new process can work again."""
        return self.stuck >= self.concurrency

    def judged(self) -> Check:
        """Return a fault once nothing can start here any more."""
        if self.is_exhausted:
            return Check("threads", Level.FAULT, "all are stuck in handlers that never returned", "restart the process")
        if self.is_stopping:
            return Check("threads", Level.FAULT, "the process is stopping and starts nothing", "ask the next one")
        if self.stuck:
            detail = f"{self.stuck} of {self.concurrency} handler threads are stuck in handlers that never returned"
            return Check(
                "threads", Level.WARNING, detail, "restart the process, and bound what those handlers wait for"
            )
        return Check("threads", Level.OK, f"{self.concurrency} handler threads")


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryFound:
    """The generated registry."""

    #: How many action types it has.
    types: int = 0
    #: Why it, or the handlers' text, cannot be read; None when they can.
    problem: str | None = None
    #: Whether it is what the handlers' text asks for; None where nobody compared them.
    is_fresh: bool | None = None

    def judged(self) -> Check:
        """Return a fault where it is missing, broken or stale."""
        build = "run `scheduled-actions registry build`"
        if self.problem is not None:
            return Check("registry", Level.FAULT, self.problem, build)
        if self.is_fresh is False:
            return Check("registry", Level.FAULT, "handlers/_registry.py is not what handlers/ asks for", build)
        count = f"{self.types} action type{'' if self.types == 1 else 's'}"
        if not self.types:
            return Check("registry", Level.WARNING, count, f"write a handler in handlers/, then {build}")
        return Check("registry", Level.OK, f"{count}, up to date" if self.is_fresh else count)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlersFound:
    """The handlers and the functions that the package calls by name, each of them imported."""

    count: int
    functions: int = 0
    #: Why one cannot be loaded, a sentence each.
    broken: tuple[str, ...]
    #: Types whose timeout is longer than any tick, in seconds.
    too_long: Mapping[str, float] = field(default_factory=dict)

    def judged(self) -> Check:
        """Return a fault where one cannot be loaded, a warning where one never begins."""
        if self.broken:
            remedy = "mend these modules: until then what needs them fails"
            return Check("handlers", Level.FAULT, "; ".join(self.broken), remedy)
        if self.too_long:
            named = ", ".join(f"{name} ({seconds:g} s)" for name, seconds in self.too_long.items())
            detail = f"these may take longer than a tick has, so that none of them is started: {named}"
            remedy = (
                "raise max_duration_seconds, and the host's limit for a request, or lower their timeout_seconds "
                "(default_timeout_seconds where they have none) to two seconds less than it"
            )
            return Check("handlers", Level.WARNING, detail, remedy)
        found = f"{self.count} handler{'' if self.count == 1 else 's'}"
        if self.functions:
            found += f" and {self.functions} function{'' if self.functions == 1 else 's'}"
        return Check("handlers", Level.OK, f"{found} can be loaded")
