"""Retry policies: how long to wait after a failed attempt.

To add a policy, define its class in this module and add it to `KINDS`; its fields must have one of the existing types.
The SQL function `scheduled_actions_retry_problem` accepts the same policies.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Literal, Protocol, cast, get_args

from scheduled_actions.core.errors import InvalidArgument, RequestError
from scheduled_actions.core.json_text import decode
from scheduled_actions.core.messages import nearest

Jitter = Literal["none", "full", "equal"]

#: The part of a wait that is not drawn at random.
_FIXED_PART: dict[Jitter, float] = {"none": 1, "full": 0, "equal": 0.5}

#: Maximum wait of a policy: 365 days.
LONGEST_WAIT_SECONDS = 365 * 86400.0


class RetryPolicy(Protocol):
    """Determines how long an action waits after a failed attempt: from zero to 365 days."""

    def delay(self, attempt: int, *, draw: float) -> timedelta:
        """Return the wait after failed attempt number `attempt` (from 1); `draw` is uniform in [0, 1)."""

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form of the policy, which is stored with an action."""


@dataclass(frozen=True, slots=True)
class _Backoff:
    base_seconds: float = 60
    cap_seconds: float = 3600
    jitter: Jitter = "none"

    def __post_init__(self) -> None:
        _check_seconds("base_seconds", self.base_seconds)
        _check_seconds("cap_seconds", self.cap_seconds)
        _check_jitter(self.jitter)

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form of the policy, which is stored with an action."""
        return {"kind": type(self).__name__.lower(), **asdict(self)}


@dataclass(frozen=True, slots=True)
class Exponential(_Backoff):
    """Waits `base_seconds`, doubled after each further failure, at most `cap_seconds`.

    The jitter `none` keeps this wait. `full` draws a wait between zero and this one, and `equal` draws a wait between
    half of this one and all of it.

    Source: AWS Architecture Blog, "Exponential Backoff And Jitter", for the kinds of jitter.
    """

    def delay(self, attempt: int, *, draw: float) -> timedelta:
        """Return the wait after failed attempt number `attempt` (from 1); `draw` is uniform in [0, 1)."""
        return _spread(min(self.base_seconds * 2 ** min(attempt - 1, 60), self.cap_seconds), self.jitter, draw)


@dataclass(frozen=True, slots=True)
class Linear(_Backoff):
    """Waits `base_seconds` longer after each failure: 60, 120, 180, …, at most `cap_seconds`.

    The jitter has the same meaning as in `Exponential`.
    """

    def delay(self, attempt: int, *, draw: float) -> timedelta:
        """Return the wait after failed attempt number `attempt` (from 1); `draw` is uniform in [0, 1)."""
        return _spread(min(self.base_seconds * attempt, self.cap_seconds), self.jitter, draw)


@dataclass(frozen=True, slots=True)
class Delays:
    """Waits for the listed delays (1 to 100) in order, and for the last of them after each further failure.

    The jitter has the same meaning as in `Exponential`.
    """

    seconds: tuple[float, ...]
    jitter: Jitter = "none"

    def __post_init__(self) -> None:
        object.__setattr__(self, "seconds", tuple(self.seconds))
        if not 1 <= len(self.seconds) <= 100:  # noqa: PLR2004 - named in the message
            raise InvalidArgument("retry.seconds", self.seconds, "a list of 1 to 100 delays in seconds")
        for wait in self.seconds:
            _check_seconds("seconds", wait)
        _check_jitter(self.jitter)

    def delay(self, attempt: int, *, draw: float) -> timedelta:
        """Return the wait after failed attempt number `attempt` (from 1); `draw` is uniform in [0, 1)."""
        return _spread(self.seconds[min(attempt, len(self.seconds)) - 1], self.jitter, draw)

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form of the policy, which is stored with an action."""
        return {"kind": "delays", "seconds": list(self.seconds), "jitter": self.jitter}


#: Policies by the `kind` in their JSON form.
KINDS: dict[str, Any] = {"exponential": Exponential, "linear": Linear, "delays": Delays}
_POLICIES = tuple(KINDS.values())
#: The constructors, for messages.
POLICIES_TEXT = ", ".join(f"{policy.__name__}(…)" for policy in _POLICIES)


def shown_policy(policy: RetryPolicy) -> dict[str, Any]:
    """Return a policy for display: its JSON form; for a project's own class, only its name.

    The code of a project's own class is not called.
    """
    return policy.as_json() if is_builtin(policy) else {"kind": "custom", "name": type(policy).__name__}


def parse(value: RetryPolicy | Mapping[str, Any] | Sequence[float]) -> RetryPolicy:
    """Return the policy that a value describes.

    Args:
        value: A policy of this module; its JSON form (`{"kind": …}`, one of `KINDS`); or a list of seconds.

    Raises:
        InvalidArgument: The value is malformed, or a number in it is out of range.
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
    known = policy.__dataclass_fields__
    unknown = sorted(map(str, set(fields) - set(known)))
    if unknown:
        near = nearest(unknown[0], known)
        hint = f'; did you mean "{near}"?' if near else f" ({', '.join(known)})"
        raise InvalidArgument("retry", unknown[0], f"a field of {kind}{hint}")
    if kind == "delays" and not isinstance(fields.get("seconds"), list | tuple):
        raise InvalidArgument("retry.seconds", fields.get("seconds"), "a list of 1 to 100 delays in seconds")
    return cast("RetryPolicy", policy(**fields))


def is_builtin(policy: RetryPolicy | None) -> bool:
    """Return whether a policy is None or defined in this module, not by a project's own class."""
    return policy is None or type(policy) in _POLICIES


def check_chosen_delay(answer: object) -> timedelta | str:
    """Return the wait that a project's own policy returned; for an invalid one, a description of the problem."""
    if isinstance(answer, timedelta) and timedelta(0) <= answer <= timedelta(seconds=LONGEST_WAIT_SECONDS):
        return answer
    shown = str(answer) if isinstance(answer, timedelta) else repr(answer)
    return f"it returned {shown[:80]}, not a timedelta between zero and a year"


def effective_policy(text: str | None, handlers: RetryPolicy | None, usual: RetryPolicy) -> RetryPolicy:
    """Return the policy of an action, else its handler's, else the project's.

    Args:
        text: The action's policy as JSON; an invalid policy, written by SQL, is ignored. None: the action has none.
        handlers: The handler's policy; None: the handler has none.
        usual: The project's policy.
    """
    if text is not None:
        with suppress(RequestError, TypeError):
            return parse(decode(text))  # type: ignore[arg-type]  # parse validates it
    return handlers or usual


def _spread(seconds: float, jitter: Jitter, draw: float) -> timedelta:
    fixed = seconds * _FIXED_PART[jitter]
    return timedelta(seconds=fixed + (seconds - fixed) * draw)


def _check_seconds(name: str, seconds: object) -> None:
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not (is_number and 0 <= cast("float", seconds) <= LONGEST_WAIT_SECONDS):
        raise InvalidArgument(f"retry.{name}", seconds, "a number of seconds between 0 and a year")


def _check_jitter(jitter: object) -> None:
    if jitter not in get_args(Jitter):
        raise InvalidArgument("retry.jitter", jitter, f"one of {', '.join(get_args(Jitter))}")
