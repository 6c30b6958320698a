"""What a handler is: the `@action` decorator, its context, and what it may answer."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from scheduled_actions.core.action import MAX_ATTEMPTS_LIMIT
from scheduled_actions.core.errors import InvalidArgument, ScheduledActionsError
from scheduled_actions.registry import recurrence_option

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from uuid import UUID

    import psycopg

    from scheduled_actions.core.action import Action
    from scheduled_actions.core.retry import RetryPolicy

#: Where `@action` leaves its options on the function.
OPTIONS_ATTRIBUTE = "__scheduled_action__"

ACTION_TYPE_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:\-]{0,199}")

#: Types whose actions only the package itself schedules: their payloads name what was checked before.
INTERNAL_TYPES = frozenset({
    "deadline:miss", "deadline:renew", "escalation:send", "maintenance:prune", "notification:send", "reminder:send",
})  # fmt: skip

Function = TypeVar("Function", bound="Callable[..., Any]")


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerOptions:
    """What `@action` declares; None means: the project's setting."""

    action_type: str
    #: An attempt that takes longer has failed.
    timeout_seconds: float | None = None
    #: Attempts allowed, the first included.
    max_attempts: int | None = None
    retry: RetryPolicy | None = None
    #: Seconds in which the same intent is merged; 0 merges nothing.
    dedup_window: float | None = None
    description: str = ""
    #: A schedule kept in step with the code: a rule, or one beside how its occurrences are planned. A dict has no
    #: hash, and options have one without it.
    recurrence: str | Mapping[str, Any] | None = field(default=None, hash=False)
    #: The handler's writes commit together with its settlement.
    transactional: bool = False
    #: Whether tokens that are bound to a team may schedule it over HTTP.
    open_to_teams: bool = False


def action(
    action_type: str,
    *,
    timeout_seconds: float | None = None,
    max_attempts: int | None = None,
    retry: RetryPolicy | None = None,
    dedup_window: float | None = None,
    description: str = "",
    recurrence: str | Mapping[str, Any] | None = None,
    transactional: bool = False,
    open_to_teams: bool = False,
) -> Callable[[Function], Function]:
    """Declare a function the handler of `action_type`.

    The function takes the payload and, if it likes, a `Context`; `def` or `async def`. The payload's annotation
    (pydantic model, dataclass, TypedDict, `dict`) says what is valid. The function itself is returned unchanged.

    Args:
        action_type: Letters, digits, `. _ : -`; by habit `noun:verb`. A literal, because the registry is built from
            the text of `handlers/` without running it.
        timeout_seconds: An attempt that takes longer has failed; None: the setting `default_timeout_seconds`.
        max_attempts: Attempts allowed, the first included; None: the setting `max_attempts`.
        retry: How long to wait between attempts (`Exponential`, `Linear`, `Delays`); None: the settings `retry.*`.
        dedup_window: Seconds in which the same intent is merged; 0 merges nothing; None: the setting.
        description: One line for people; None: the function's docstring.
        recurrence: A schedule kept in step with the code: a rule (`"0 9 * * 1-5"`, `"daily"`, an RRULE), or a dict of
            it and the arguments of `schedule_recurring_action` (`{"rule": "daily", "timezone": "Europe/Berlin"}`).
            Literals only, as the type.
        transactional: `context.connection` commits together with the settlement, or not at all. Not for `async def`.
        open_to_teams: Tokens that are bound to a team may schedule it over HTTP, with payloads of their own. Other
            tokens, application code and SQL may schedule every type for every team.

    Raises:
        InvalidArgument: The type is no action type, a number is out of its range, the recurrence has a key or a
            value that it cannot have, or an internal type is opened. Whether its rule can be read is asked when the
            registry is built.
    """
    if not ACTION_TYPE_PATTERN.fullmatch(action_type):
        raise InvalidArgument(
            "action_type", action_type, "an action type: letters, digits and . _ : - only, at most 200"
        )
    if timeout_seconds is not None and not timeout_seconds > 0:
        raise InvalidArgument("timeout_seconds", timeout_seconds, "a positive number of seconds")
    if max_attempts is not None and not 1 <= max_attempts <= MAX_ATTEMPTS_LIMIT:
        raise InvalidArgument("max_attempts", max_attempts, f"between 1 and {MAX_ATTEMPTS_LIMIT}")
    if dedup_window is not None and not dedup_window >= 0:
        raise InvalidArgument("dedup_window", dedup_window, "a number of seconds, 0 or more")
    if open_to_teams and action_type in INTERNAL_TYPES:
        raise InvalidArgument("open_to_teams", open_to_teams, f"False: {action_type} is an internal type")
    options = HandlerOptions(
        action_type=action_type,
        timeout_seconds=timeout_seconds,
        max_attempts=max_attempts,
        retry=retry,
        dedup_window=dedup_window,
        description=description,
        recurrence=None if recurrence is None else recurrence_option.checked(recurrence),
        transactional=transactional,
        open_to_teams=open_to_teams,
    )

    def declare(function: Function) -> Function:
        setattr(function, OPTIONS_ATTRIBUTE, options)
        return function

    return declare


def _as_timedelta(delay: timedelta | float) -> timedelta:
    wait = delay if isinstance(delay, timedelta) else timedelta(seconds=delay)
    if wait < timedelta(0):
        raise InvalidArgument("delay", delay, "zero or more")
    return wait


class Snooze:
    """Answer of a handler: later, without spending an attempt.

    Args:
        delay: From now; a `timedelta` or seconds.
        state: JSON that the next start finds in `context.state`; None keeps what is there.
    """

    __slots__ = ("delay", "state")

    def __init__(self, delay: timedelta | float, state: Any = None) -> None:  # noqa: ANN401 - any JSON
        self.delay = _as_timedelta(delay)
        self.state = state


@dataclass(frozen=True, slots=True)
class Skip:
    """Answer of a handler: there is nothing to do; ends `skipped` with the reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Cancel:
    """Answer of a handler: this should not be done any more; ends `cancelled` with the reason."""

    reason: str


class HandlerSignal(ScheduledActionsError):
    """What a handler raises to say how it failed."""


class RetryAfter(HandlerSignal):
    """The attempt failed; try again after this delay instead of the policy's.

    Args:
        delay: From now; a `timedelta` or seconds.
        reason: Kept as the attempt's error.
    """

    def __init__(self, delay: timedelta | float, reason: str = "the handler asked to be retried later") -> None:
        self.delay = _as_timedelta(delay)
        self.reason = reason
        super().__init__(reason)


class Fail(HandlerSignal):
    """The failure is final: no attempt is left, a person is needed."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class Prepare(Protocol):
    """Validates a follow-up at the caller's desk and makes it what SQL takes."""

    def __call__(self, action_type: str, payload: Any, /, **options: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
        """Return the follow-up as one element of the SQL function `schedule_actions`."""


@dataclass(slots=True, kw_only=True, eq=False)
class Context:
    """What a handler knows about its attempt."""

    #: The action as it was claimed.
    action: Action
    #: Number of this attempt, from 1; a snoozed start does not count.
    attempt: int
    #: What the last `Snooze` left; None at first.
    state: Any
    #: Adds the action's id, type and attempt to each line.
    log: logging.LoggerAdapter[logging.Logger]
    _monotonic: Callable[[], float]
    _deadline: float
    _prepare: Prepare
    _is_stopped: Callable[[], bool]
    _previous_occurrence_at: datetime | None = None
    _next_occurrence: Callable[[UUID, datetime], datetime | None] | None = None
    _connection: psycopg.Connection[Any] | None = None
    _follow_ups: list[dict[str, Any]] = field(default_factory=list)

    @property
    def seconds_left(self) -> float:
        """Seconds until this attempt times out; never below zero."""
        return max(0.0, self._deadline - self._monotonic())

    @property
    def should_stop(self) -> bool:
        """Whether to end early: the action was cancelled, the time is up, or the process is stopping."""
        return self._is_stopped() or self._monotonic() >= self._deadline

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """The connection whose writes commit together with the settlement.

        Raises:
            InvalidArgument: The handler is not declared with `transactional=True`.
        """
        if self._connection is None:
            raise InvalidArgument("context.connection", None, "there: declare the handler with transactional=True")
        return self._connection

    def schedule(self, action_type: str, payload: Mapping[str, Any] | Any, /, **options: Any) -> None:  # noqa: ANN401 - any model
        """Schedule a follow-up that exists only if this attempt settles as its handler answers.

        Takes the arguments of `schedule_action` except `connection`. An attempt that fails, times out or comes too
        late leaves no follow-up behind.

        Raises:
            RequestError: As `schedule_action` does, at once.
        """
        self._follow_ups.append(self._prepare(action_type, payload, **options))

    @property
    def occurrence_at(self) -> datetime | None:
        """The rule's own instant, in UTC; None outside a series, and for a run that somebody asked for."""
        return self.action.occurrence_at

    @property
    def previous_occurrence_at(self) -> datetime | None:
        """The instant of the occurrence before this one; None outside a series, and for its first."""
        return self._previous_occurrence_at

    @property
    def next_occurrence_at(self) -> datetime | None:
        """The rule's next instant after this one, asked from the schedule as it is now; None when there is none.

        Raises:
            DatabaseUnavailable: The schedule cannot be read.
            RecurrenceInvalid: Its rule cannot be followed any more.
        """
        schedule_id, at = self.action.schedule_id, self.occurrence_at
        if schedule_id is None or at is None or self._next_occurrence is None:
            return None
        return self._next_occurrence(schedule_id, at)

    @property
    def id(self) -> UUID:
        """The action's id."""
        return self.action.id
