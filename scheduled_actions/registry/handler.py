"""Declare handlers: the `@action` decorator, their context, and the outcomes that they return or raise."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from uuid import UUID

from scheduled_actions.core.action import MAX_ATTEMPTS_LIMIT, Action, DedupMode, OnExpiry, ParentAction
from scheduled_actions.core.errors import InvalidArgument, ScheduledActionsError
from scheduled_actions.core.messages import suggests_keywords
from scheduled_actions.core.retry import RetryPolicy
from scheduled_actions.registry.options import validate_limit, validate_recurrence

if TYPE_CHECKING:
    import psycopg


#: The attribute of a function in which `@action` stores its options.
OPTIONS_ATTRIBUTE = "__scheduled_action__"

ACTION_TYPE_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:\-]{0,199}")

#: Types that only the package itself schedules: their payloads refer to rows that are already validated.
INTERNAL_TYPES = frozenset({
    "deadline:apply", "deadline:miss", "deadline:renew", "escalation:send", "maintenance:prune", "notification:send",
    "reminder:send", "schedule:apply",
})  # fmt: skip

Function = TypeVar("Function", bound="Callable[..., Any]")


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerOptions:
    """The options of `@action`; None means the project's setting, and for `recurrence`, no schedule."""

    action_type: str
    #: Seconds after which an attempt fails.
    timeout_seconds: float | None = None
    #: The maximum number of attempts, including the first.
    max_attempts: int | None = None
    retry: RetryPolicy | None = None
    #: Seconds within which duplicates are merged; 0 merges nothing.
    dedup_window: float | None = None
    description: str = ""
    #: A schedule kept in sync with the code: a rule, or a dict of a rule and further arguments. Not part of the hash,
    #: because a dict has none.
    recurrence: str | Mapping[str, Any] | None = field(default=None, hash=False)
    #: Whether the handler's writes commit together with the settlement of its action.
    transactional: bool = False
    #: Whether tokens and database roles bound to a team may schedule this type.
    open_to_teams: bool = False
    #: Limit keys, with fields such as `{payload.customer}`, of the actions that are scheduled without limit keys; None:
    #: no limits. Not part of the hash, because a list has none.
    limit: Sequence[str] | None = field(default=None, hash=False)


@suggests_keywords
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
    limit: str | Sequence[str] | None = None,
) -> Callable[[Function], Function]:
    """Return a decorator that declares a function as the handler of `action_type` and returns it unchanged.

    The function (`def` or `async def`) takes the payload and optionally a `Context`. Payloads are validated
    against the annotation of the payload: a pydantic model, dataclass, TypedDict, `dict`, or a list of one of these.

    Args:
        action_type: Letters, digits, `. _ : -`; by convention `noun:verb`. A literal, because the registry is built
            from the text of `handlers/` without running it.
        timeout_seconds: Seconds after which an attempt fails; None: the setting `default_timeout_seconds`.
        max_attempts: The maximum number of attempts, including the first; None: the setting `max_attempts`.
        retry: The delays between attempts (`Exponential`, `Linear`, `Delays`, or your own object with a method
            `delay`); None: the settings `retry.*`.
        dedup_window: Seconds within which duplicates are merged; 0 merges nothing; None: the setting
            `deduplication.window_seconds`.
        description: One line for people; empty: the first line of the function's docstring.
        recurrence: A schedule kept in sync with the code: a rule (`"0 9 * * 1-5"`, `"daily"`, an RRULE), or a dict of
            the rule and arguments of `schedule_recurring_action` (`{"rule": "daily", "timezone": "Europe/Berlin"}`).
            Literals only.
        transactional: `context.connection` commits together with the settlement, or not at all. Not for `async def`.
        open_to_teams: Tokens and database roles bound to a team may schedule this type, with any valid payload.
            Application code, and tokens and roles not bound to a team, need no such permission.
        limit: A limit key, or a list of one to three, of each action that is scheduled without a limit of its own. The
            fields `{payload.customer}`, `{team_id}` and `{user_id}` are replaced by the values of the action. Literals
            only.

    Raises:
        InvalidArgument: The action type or a number is invalid, the recurrence has an unknown key or a value of the
            wrong type, a limit key is invalid or has an unknown field, or an internal type is open to teams. The rule
            itself is validated when the registry is built.
    """
    if not ACTION_TYPE_PATTERN.fullmatch(action_type):
        raise InvalidArgument(
            "action_type",
            action_type,
            'an action type: 1 to 200 letters, digits, ".", "_", ":" or "-", starting with a letter or digit',
        )
    if timeout_seconds is not None and not timeout_seconds > 0:
        raise InvalidArgument("timeout_seconds", timeout_seconds, "a positive number of seconds")
    if max_attempts is not None and not 1 <= max_attempts <= MAX_ATTEMPTS_LIMIT:
        raise InvalidArgument("max_attempts", max_attempts, f"an integer between 1 and {MAX_ATTEMPTS_LIMIT}")
    if dedup_window is not None and not dedup_window >= 0:
        raise InvalidArgument("dedup_window", dedup_window, "a number of seconds, 0 or more")
    if open_to_teams and action_type in INTERNAL_TYPES:
        raise InvalidArgument("open_to_teams", problem=f"must be False: {action_type} is an internal type")
    options = HandlerOptions(
        action_type=action_type,
        timeout_seconds=timeout_seconds,
        max_attempts=max_attempts,
        retry=retry,
        dedup_window=dedup_window,
        description=description,
        recurrence=None if recurrence is None else validate_recurrence(recurrence),
        transactional=transactional,
        open_to_teams=open_to_teams,
        limit=None if limit is None else validate_limit(limit),
    )

    def declare(function: Function) -> Function:
        setattr(function, OPTIONS_ATTRIBUTE, options)
        return function

    return declare


def _as_timedelta(delay: timedelta | float) -> timedelta:
    wait = delay if isinstance(delay, timedelta) else timedelta(seconds=delay)
    if wait < timedelta(0):
        raise InvalidArgument("delay", delay, "a duration of zero or more")
    return wait


class Snooze:
    """Outcome: run the action later without using an attempt.

    Args:
        delay: From now; a `timedelta` or seconds, 0 or more.
        state: JSON for the next start, which receives it as `context.state`; None keeps the current state.

    Raises:
        InvalidArgument: The delay is negative.
    """

    __slots__ = ("delay", "state")

    def __init__(self, delay: timedelta | float, state: Any = None) -> None:  # noqa: ANN401 - any JSON
        self.delay = _as_timedelta(delay)
        self.state = state


@dataclass(frozen=True, slots=True)
class Skip:
    """Outcome: there is nothing to do; the action ends `skipped` with the reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Cancel:
    """Outcome: the work is no longer wanted; the action ends `cancelled` with the reason."""

    reason: str


class HandlerSignal(ScheduledActionsError):
    """The base class of the errors that a handler raises to choose how its attempt fails."""


class RetryAfter(HandlerSignal):
    """The error that fails the attempt; if another attempt is left, it starts after `delay`, whatever the retry policy.

    Args:
        delay: From now; a `timedelta` or seconds, 0 or more.
        reason: Stored as the attempt's error.

    Raises:
        InvalidArgument: The delay is negative.
    """

    def __init__(self, delay: timedelta | float, reason: str = "the handler requested a later retry") -> None:
        self.delay = _as_timedelta(delay)
        self.reason = reason
        super().__init__(reason)


class Fail(HandlerSignal):
    """The error that fails the action without further attempts; the action then needs attention."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class PrepareFollowUp(Protocol):
    """Validates a follow-up action when the handler schedules it."""

    def __call__(self, action_type: str, payload: Any, /, **options: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
        """Return the follow-up as an element of the array that the SQL function `schedule_actions` takes."""


@dataclass(slots=True, kw_only=True, eq=False)
class Context:
    """The second argument of a handler: its action and attempt, the time left, and the follow-ups to schedule."""

    #: The action as it was claimed; `condition`, `waiting`, `on_success`, `on_failure` and `retry` are not read.
    action: Action
    #: The number of this attempt, from 1; snoozed starts do not count.
    attempt: int
    #: The state of the last `Snooze`; None at first.
    state: Any
    #: Logger that adds the action's id, type and attempt to each line.
    log: logging.LoggerAdapter[logging.Logger]
    _monotonic: Callable[[], float]
    _deadline: float
    _prepare: PrepareFollowUp
    _is_stopped: Callable[[], bool]
    #: The instant of the previous occurrence; None outside a series, and for its first occurrence.
    previous_occurrence_at: datetime | None = None
    _next_occurrence: Callable[[UUID, datetime], datetime | None] | None = None
    _read_parent: Callable[[UUID, str | None], ParentAction | None] | None = None
    _connection: psycopg.Connection[Any] | None = None
    _follow_ups: list[dict[str, Any]] = field(default_factory=list)

    @property
    def seconds_left(self) -> float:
        """Seconds until this attempt times out; never negative."""
        return max(0.0, self._deadline - self._monotonic())

    @property
    def should_stop(self) -> bool:
        """Whether to return early: the action is being cancelled, the attempt timed out, or the process is stopping."""
        return self._is_stopped() or self._monotonic() >= self._deadline

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """The connection whose writes commit together with the settlement.

        Raises:
            InvalidArgument: The handler is not declared with `transactional=True`.
        """
        if self._connection is None:
            raise InvalidArgument("context.connection", problem="needs @action(transactional=True)")
        return self._connection

    @suggests_keywords
    def schedule(
        self,
        action_type: str,
        payload: Any,  # noqa: ANN401 - any model
        *,
        scheduled_at: datetime | date | str | timedelta | None = None,
        timezone: str | None = None,
        team_id: str | None = None,
        priority: int = 0,
        max_attempts: int | None = None,
        retry: RetryPolicy | Mapping[str, Any] | Sequence[float] | None = None,
        lock_group: str | None = None,
        lock_group_blocks: bool = False,
        dedup_key: str | None = None,
        dedup_window: float | None = None,
        dedup_mode: DedupMode = "latest",
        target: Mapping[str, str] | None = None,
        user_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        created_by: str | None = None,
        condition: Mapping[str, Any] | None = None,
        after: UUID | str | Sequence[UUID | str] | None = None,
        on_success: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        on_failure: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        limit: str | Sequence[str] | None = None,
        expires_at: datetime | date | str | None = None,
        expires_in: timedelta | float | None = None,
        on_expiry: OnExpiry = "skip",
    ) -> None:
        """Schedule a follow-up action that is inserted together with this attempt's settlement.

        Takes the arguments of `schedule_action`, which describes them, except `connection`. If the attempt fails,
        times out or loses its claim, no follow-up is inserted. A follow-up that the database rejects is stored as a
        failed action with the reason.

        Raises:
            RequestError: The follow-up is invalid, as for `schedule_action`; raised immediately.
        """
        self._follow_ups.append(
            self._prepare(
                action_type,
                payload,
                scheduled_at=scheduled_at,
                timezone=timezone,
                team_id=team_id,
                priority=priority,
                max_attempts=max_attempts,
                retry=retry,
                lock_group=lock_group,
                lock_group_blocks=lock_group_blocks,
                dedup_key=dedup_key,
                dedup_window=dedup_window,
                dedup_mode=dedup_mode,
                target=target,
                user_id=user_id,
                metadata=metadata,
                created_by=created_by,
                condition=condition,
                after=after,
                on_success=on_success,
                on_failure=on_failure,
                limit=limit,
                expires_at=expires_at,
                expires_in=expires_in,
                on_expiry=on_expiry,
            )
        )

    @property
    def occurrence_at(self) -> datetime | None:
        """The instant that the rule gave for this occurrence, in UTC; None outside a series, and for a manual run."""
        return self.action.occurrence_at

    @property
    def next_occurrence_at(self) -> datetime | None:
        """The instant of the next occurrence, by the current rule of the schedule; None if there is none.

        Raises:
            DatabaseUnavailable: The schedule cannot be read.
            RecurrenceInvalid: This build cannot evaluate the rule of the schedule.
        """
        schedule_id, at = self.action.schedule_id, self.occurrence_at
        if schedule_id is None or at is None or self._next_occurrence is None:
            return None
        return self._next_occurrence(schedule_id, at)

    @property
    def parent(self) -> ParentAction | None:
        """The action that scheduled this one, in its handler or as a follow-up; each access reads its current state.

        None if no action of this team scheduled this one, or if it was pruned.

        Raises:
            DatabaseUnavailable: The action cannot be read.
        """
        scheduled_by = self.action.scheduled_by
        if scheduled_by is None or self._read_parent is None:
            return None
        return self._read_parent(scheduled_by, self.action.team_id)

    @property
    def id(self) -> UUID:
        """The action's id."""
        return self.action.id
