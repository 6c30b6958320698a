"""How long to wait after a failed attempt: retry policies as values.

A new policy is a class here and an entry of `KINDS`; its fields have one of the types that the others have.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, Protocol, assert_never, cast, get_args

from scheduled_actions.core.errors import InvalidArgument, RequestError
from scheduled_actions.core.json_text import decode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


Jitter = Literal["none", "full", "equal"]

#: No wait is longer than this, whatever a policy computes.
LONGEST_WAIT_SECONDS = 365 * 86400.0


class RetryPolicy(Protocol):
    """How long to wait after a failed attempt."""

    def delay(self, attempt: int, *, draw: float) -> timedelta:
        """Return the wait after failed attempt number `attempt` (from 1); `draw` is uniform in [0, 1)."""

    def as_json(self) -> dict[str, Any]:
        """Return the policy as it is stored with an action."""


@dataclass(frozen=True, slots=True)
class Exponential:
    """Wait `base_seconds`, then twice as long after each further failure, at most `cap_seconds`.

    Jitter `none` waits exactly so, `full` anything up to it, `equal` between half of it and all of it
    (the names are those of the AWS Architecture Blog, "Exponential Backoff And Jitter").
    """

    base_seconds: float = 60
    cap_seconds: float = 3600
    jitter: Jitter = "none"

    def __post_init__(self) -> None:
        _check_seconds("base_seconds", self.base_seconds)
        _check_seconds("cap_seconds", self.cap_seconds)
        _check_jitter(self.jitter)

    def delay(self, attempt: int, *, draw: float) -> timedelta:
        """Return the wait after failed attempt number `attempt` (from 1); `draw` is uniform in [0, 1)."""
        doublings = min(attempt - 1, 60)
        return _spread(min(self.base_seconds * 2**doublings, self.cap_seconds), self.jitter, draw)

    def as_json(self) -> dict[str, Any]:
        """Return the policy as it is stored with an action."""
        return {
            "kind": "exponential",
            "base_seconds": self.base_seconds,
            "cap_seconds": self.cap_seconds,
            "jitter": self.jitter,
        }


@dataclass(frozen=True, slots=True)
class Linear:
    """Wait `base_seconds` longer after each failure: 60, 120, 180, …, at most `cap_seconds`."""

    base_seconds: float = 60
    cap_seconds: float = 3600
    jitter: Jitter = "none"

    def __post_init__(self) -> None:
        _check_seconds("base_seconds", self.base_seconds)
        _check_seconds("cap_seconds", self.cap_seconds)
        _check_jitter(self.jitter)

    def delay(self, attempt: int, *, draw: float) -> timedelta:
        """Return the wait after failed attempt number `attempt` (from 1); `draw` is uniform in [0, 1)."""
        return _spread(min(self.base_seconds * attempt, self.cap_seconds), self.jitter, draw)

    def as_json(self) -> dict[str, Any]:
        """Return the policy as it is stored with an action."""
        return {
            "kind": "linear",
            "base_seconds": self.base_seconds,
            "cap_seconds": self.cap_seconds,
            "jitter": self.jitter,
        }


@dataclass(frozen=True, slots=True)
class Delays:
    """Wait as the list says; after its end, the last delay again and again."""

    seconds: tuple[float, ...]
    jitter: Jitter = "none"

    def __post_init__(self) -> None:
        object.__setattr__(self, "seconds", tuple(self.seconds))
        if not 1 <= len(self.seconds) <= 100:  # noqa: PLR2004 - said in the message
            raise InvalidArgument("retry.seconds", self.seconds, "a list of 1 to 100 delays in seconds")
        for wait in self.seconds:
            _check_seconds("seconds", wait)
        _check_jitter(self.jitter)

    def delay(self, attempt: int, *, draw: float) -> timedelta:
        """Return the wait after failed attempt number `attempt` (from 1); `draw` is uniform in [0, 1)."""
        return _spread(self.seconds[min(attempt, len(self.seconds)) - 1], self.jitter, draw)

    def as_json(self) -> dict[str, Any]:
        """Return the policy as it is stored with an action."""
        return {"kind": "delays", "seconds": list(self.seconds), "jitter": self.jitter}


#: By the `kind` of their JSON form.
KINDS: dict[str, Any] = {"exponential": Exponential, "linear": Linear, "delays": Delays}
_POLICIES = tuple(KINDS.values())
#: For messages: how each is written in Python.
POLICIES_TEXT = ", ".join(f"{policy.__name__}(…)" for policy in _POLICIES)


def shown_policy(policy: RetryPolicy) -> dict[str, Any]:
    """Return a handler's policy for people; of a project's own only its name, because its code may do anything."""
    if isinstance(policy, _POLICIES):
        return cast("RetryPolicy", policy).as_json()
    return {"kind": "custom", "name": type(policy).__name__}


def parse(value: RetryPolicy | Mapping[str, Any] | Sequence[float]) -> RetryPolicy:
    """Return the policy that `value` stands for.

    Args:
        value: A policy; its JSON form (`{"kind": …}`, one of `KINDS`); or a list of seconds.

    Raises:
        InvalidArgument: It is none of these, or a number in it is out of range.
    """
    if isinstance(value, _POLICIES):
        return cast("RetryPolicy", value)
    if isinstance(value, list | tuple):
        return Delays(tuple(value))
    if not isinstance(value, dict):
        raise InvalidArgument("retry", value, 'a policy, a list of seconds, or {"kind": …}')
    fields = dict(value)
    kind = fields.pop("kind", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidArgument("retry.kind", kind, f"one of {', '.join(KINDS)}")
    policy = KINDS[kind]
    unknown = sorted(map(str, set(fields) - set(policy.__dataclass_fields__)))
    if unknown:
        raise InvalidArgument("retry", unknown[0], f"a field of {kind}: {', '.join(policy.__dataclass_fields__)}")
    if kind == "delays" and not isinstance(fields.get("seconds"), list | tuple):
        raise InvalidArgument("retry.seconds", fields.get("seconds"), "a list of 1 to 100 delays in seconds")
    return cast("RetryPolicy", policy(**fields))


@dataclass(frozen=True, slots=True)
class Decided:
    """The wait that a policy of the project has chosen for one attempt, whatever it is asked."""

    wait: timedelta

    def delay(self, attempt: int, *, draw: float) -> timedelta:  # noqa: ARG002 - the protocol's
        """Return that wait."""
        return self.wait

    def as_json(self) -> dict[str, Any]:
        """Return the policy as it would be stored with an action."""
        return Delays((self.wait.total_seconds(),)).as_json()


def is_ours(policy: RetryPolicy | None) -> bool:
    """Whether a policy is none of the project's own classes, whose code may do anything."""
    return policy is None or type(policy) in {*_POLICIES, Decided}


def wait_or_problem(answer: object) -> timedelta | str:
    """Return the wait that a policy of the project has answered, or what is wrong with the answer."""
    if isinstance(answer, timedelta) and timedelta(0) <= answer <= timedelta(seconds=LONGEST_WAIT_SECONDS):
        return answer
    shown = str(answer) if isinstance(answer, timedelta) else repr(answer)
    return f"it returned {shown[:80]}, not a timedelta between zero and a year"


def policy_of(text: str | None, handlers: RetryPolicy | None, usual: RetryPolicy) -> RetryPolicy:
    """Return the action's own policy, else its handler's, else the project's.

    Args:
        text: The action's own, as JSON; SQL may have put anything there: what is no policy counts as none.
        handlers: What the handler declares.
        usual: The project's.
    """
    if text is not None:
        try:
            return parse(decode(text))  # type: ignore[arg-type]  # parse judges it
        except (RequestError, TypeError):
            return handlers or usual
    return handlers or usual


def _spread(seconds: float, jitter: Jitter, draw: float) -> timedelta:
    match jitter:
        case "none":
            spread = seconds
        case "full":
            spread = seconds * draw
        case "equal":
            spread = seconds / 2 + seconds / 2 * draw
        case _:
            assert_never(jitter)
    return timedelta(seconds=spread)


def _check_seconds(name: str, seconds: object) -> None:
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not (is_number and 0 <= cast("float", seconds) <= LONGEST_WAIT_SECONDS):
        raise InvalidArgument(f"retry.{name}", seconds, "a number of seconds between 0 and a year")


def _check_jitter(jitter: object) -> None:
    if jitter not in get_args(Jitter):
        raise InvalidArgument("retry.jitter", jitter, f"one of {', '.join(get_args(Jitter))}")
