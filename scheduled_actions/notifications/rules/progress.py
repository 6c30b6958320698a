"""How far the channels of a person have been tried, and what comes after a failure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal, TypeAlias

#: How long a channel that does not work for now is left alone before it is tried again; after the last of these the
#: next channel is tried. The last channel of a person is tried for as long as the action has attempts.
DELAYS = (timedelta(minutes=1), timedelta(minutes=5))

#: `again`: this channel, after the delay; `next`: the channel after it, at once; `retry`: this channel, as the action's
#: own policy says; `over`: no channel is left.
Verdict: TypeAlias = Literal["again", "next", "retry", "over"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A channel did not take a message."""

    #: What kind of channel, and its address as it may be shown.
    kind: str
    address: str
    problem: str
    #: When, in ISO 8601.
    at: str
    #: Whether trying again cannot help.
    is_final: bool

    def __str__(self) -> str:
        return f"{self.kind} {self.address} {self.problem}"

    def as_json(self) -> dict[str, str]:
        """Return what is kept of it."""
        return {"channel": self.kind, "address": self.address, "problem": self.problem, "at": self.at}


@dataclass(frozen=True, slots=True)
class Progress:
    """Kept from one start of the handler to the next."""

    #: Which channel is next, from 0.
    channel: int = 0
    #: How often it has failed for now.
    failures: int = 0
    #: Every failure, as JSON.
    tried: tuple[dict[str, Any], ...] = ()

    @classmethod
    def of(cls, state: Any) -> Progress:  # noqa: ANN401 - any JSON
        """Return what was kept; the beginning where nothing was."""
        match state:
            case {"channel": int(channel), "failures": int(failures), "tried": list(tried)}:
                return cls(channel, failures, tuple(tried))
            case _:
                return cls()

    def as_json(self) -> dict[str, Any]:
        """Return it as it is kept."""
        return {"channel": self.channel, "failures": self.failures, "tried": list(self.tried)}

    def after(self, failure: Failure, *, channels: int) -> tuple[Verdict, Progress]:
        """Return what comes after a failure of the present channel.

        Args:
            failure: What happened.
            channels: How many there are.
        """
        tried = (*self.tried, failure.as_json())
        is_last = self.channel + 1 >= channels
        if not failure.is_final and is_last:
            return "retry", replace(self, tried=tried)
        if not failure.is_final and self.failures < len(DELAYS):
            return "again", replace(self, failures=self.failures + 1, tried=tried)
        return "over" if is_last else "next", Progress(self.channel + 1, 0, tried)

    @property
    def delay(self) -> timedelta:
        """How long the present channel is left alone; none while it has not failed."""
        return DELAYS[self.failures - 1] if self.failures else timedelta(0)
