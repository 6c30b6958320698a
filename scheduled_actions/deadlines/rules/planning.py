"""Plan the stages of a deadline: compute their instants, and decide which occurrences may start."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeAlias
from zoneinfo import ZoneInfo

from scheduled_actions.actions.rules.settlement import Skipped, Snoozed
from scheduled_actions.core.errors import DeadlineUnusable, InvalidArgument, NeverOccurs, RecurrenceInvalid
from scheduled_actions.core.evaluation_budget import EvaluationBudget
from scheduled_actions.deadlines.model import Deadline, Stage
from scheduled_actions.deadlines.rules.calendar import BUDGETED, WorkingCalendar, parse_calendar, parse_offset
from scheduled_actions.deadlines.rules.definition import NewDeadline
from scheduled_actions.notifications.rules.people import as_json, parse_person
from scheduled_actions.recurrence.compiling import Recurrence, compile_recurrence

_ONE_MICROSECOND = timedelta(microseconds=1)
#: A stage that is claimed while its deadline is paused is checked again after this time, or when the
#: deadline is resumed.
WHILE_PAUSED = timedelta(days=1)
#: Maximum number of occurrences that one replaces; SQL can store any number.
_REPLACED_MOST = 1000
#: A series must have fewer deadlines than this open at the same time.
AHEAD_MOST = 100


@dataclass(frozen=True, slots=True)
class DeadlineClock:
    """The time zone and calendar in which the offsets of a deadline are counted."""

    zone: ZoneInfo
    calendar: WorkingCalendar
    budget: EvaluationBudget

    @classmethod
    def of(cls, deadline: Deadline | NewDeadline, budget: EvaluationBudget | None = None) -> "DeadlineClock":
        """Return the clock of a deadline; a `budget` of None gives it a new evaluation budget."""
        return cls(ZoneInfo(deadline.timezone), parse_calendar(deadline.calendar), budget or EvaluationBudget(BUDGETED))

    def instant(self, stage: Stage, due_at: datetime) -> datetime:
        """Return the first instant of a stage, in UTC.

        Raises:
            InvalidArgument: The instant is outside the years 1 to 9999, or the calendar has too few business days.
            BudgetExceeded: Counting the business days takes too many steps.
        """
        try:
            offset = parse_offset(stage.offset, name=stage.key)
            return offset.instant(due_at, zone=self.zone, calendar=self.calendar, budget=self.budget)
        except (OverflowError, ValueError):
            problem = "has no instant: its date is out of range, or the calendar has too few business days"
            raise InvalidArgument(stage.key, stage.offset, problem=problem) from None

    def following(self, stage: Stage, base: datetime, after: datetime) -> datetime | None:
        """Return the first instant of a repeated stage after `after`, at or after `base`; None if its rule has ended.

        Raises:
            RecurrenceInvalid: The rule of the stage is invalid.
            BudgetExceeded: The search takes too many steps.
        """
        assert stage.repeat is not None  # noqa: S101 - called for repeated stages only
        try:
            rule = compile_recurrence(stage.repeat, timezone=self.zone.key, anchor=base, budget=self.budget)
        except RecurrenceInvalid as error:
            error.name = "reminders" if stage.kind == "reminder" else "escalation.interval"
            raise
        return _next_after(rule, max(after, base - _ONE_MICROSECOND))


def plan_deadline(deadline: Deadline, now: datetime, budget: EvaluationBudget | None = None) -> tuple[Stage, ...]:
    """Return a deadline's stages with the instants of their next occurrences, as `plan` does.

    Args:
        deadline: The deadline.
        now: Instants up to this one are in the past.
        budget: The evaluation budget; None: a new one.

    Raises:
        InvalidArgument: A stage has no instant.
        RecurrenceInvalid: The rule of a stage or of the series is invalid.
        BudgetExceeded: Planning takes too many steps.
        DeadlineUnusable: The next deadline of its series does not exist yet, and the stored row is invalid.
    """
    next_due_at = following_due_at(deadline, budget) if deadline.next_id is None else None
    clock = DeadlineClock.of(deadline, budget)
    return plan(deadline.stages, due_at=deadline.due_at, clock=clock, now=now, next_due_at=next_due_at)


def plan(
    stages: Sequence[Stage],
    *,
    due_at: datetime,
    clock: DeadlineClock,
    now: datetime,
    next_due_at: datetime | None = None,
) -> tuple[Stage, ...]:
    """Return the stages with the instants of their next occurrences.

    Stages in the state `begun` do not change. Of the reminders in the past, only the latest runs, immediately, and the
    others are left out. If a reminder at that instant or later has already begun, the latest is left out, too. The same
    applies to escalation levels. All auto-actions in the past run immediately, and all occurrences that replace one.

    Args:
        stages: The stages of one deadline.
        due_at: The due instant of the deadline.
        clock: Counts the offsets.
        now: Instants up to this one are in the past.
        next_due_at: The due instant of the next deadline in the series, which is created in time for its own first
            stage. None: that deadline exists, or there is none.

    Raises:
        InvalidArgument: A stage has no instant.
        RecurrenceInvalid: The rule of a stage is invalid.
        BudgetExceeded: Planning takes too many steps.
    """
    renewed_at = None if next_due_at is None else min(due_at, lead(stages, due_at=next_due_at, clock=clock))
    counted = [
        stage.changed(at=renewed_at, state="begun" if renewed_at is None else "planned")
        if stage.kind == "renewal" and not stage.begun
        else _next_occurrence(stage, due_at=due_at, clock=clock, now=now)
        for stage in stages
    ]
    reached = [
        stage.changed(at=clock.instant(stage, due_at))
        for stage in counted
        if stage.begun and (stage.state == "begun" or stage.repeat is not None)
    ]
    latest = {kind: _latest_late(counted, reached, kind, now) for kind in ("reminder", "escalation")}
    return tuple(
        stage.changed(state="left_out")
        if stage.kind in latest and stage.replaces is None and _is_late(stage, now) and stage.key != latest[stage.kind]
        else stage
        for stage in counted
    )


def _next_occurrence(stage: Stage, *, due_at: datetime, clock: DeadlineClock, now: datetime) -> Stage:
    """Return a stage with the instant of its next occurrence, in the past or the future."""
    if stage.state == "begun":
        return stage
    base = clock.instant(stage, due_at)
    if stage.repeat is None or stage.replaces is not None:
        return stage.changed(at=base, state="planned")
    at = clock.following(stage, base, base - _ONE_MICROSECOND)
    if at is not None and ((stage.kind == "reminder" and at <= now) or stage.begun):
        at = clock.following(stage, base, now)
    return stage.changed(at=at, state="begun" if at is None else "planned")


def _is_late(stage: Stage, now: datetime) -> bool:
    return stage.state == "planned" and stage.at is not None and stage.at <= now


def _latest_late(stages: Sequence[Stage], begun: Sequence[Stage], kind: str, now: datetime) -> str | None:
    """Return the key of the latest planned stage of a kind in the past.

    None if there is none, or if a stage at the same instant or later has begun.
    """
    late = [(stage.at or now, stage.key) for stage in stages if stage.kind == kind and _is_late(stage, now)]
    reached = max((stage.at for stage in begun if stage.kind == kind and stage.at is not None), default=None)
    at, key = max(late, default=(now, None))
    return None if reached is not None and at <= reached else key


#: The outcome of an occurrence that does not start now (None: the occurrence starts), and its stage, possibly changed
#: (None: unchanged).
Decision: TypeAlias = tuple[Snoozed | Skipped | None, Stage | None]


def decide(  # noqa: PLR0911 - a return per decision
    deadline: Deadline, key: str, occurrence: int, *, now: datetime, is_first: bool = True
) -> Decision:
    """Decide whether an occurrence of a stage starts when its action is claimed.

    Args:
        deadline: The current state of the deadline.
        key: The key of the stage.
        occurrence: The number of the occurrence that is about to start.
        now: The database's current time.
        is_first: Whether this is the first attempt of its action.
    """
    stage = deadline.stage(key)
    if stage is not None and stage.kind == "renewal":
        # The state of one deadline does not stop its series.
        return None, stage
    if deadline.paused_at is None and (refused := not_holding(deadline)) is not None:
        return Skipped(refused), None
    if stage is None:
        return Skipped("the deadline no longer has this stage"), None
    if deadline.paused_at is not None:
        return Snoozed(WHILE_PAUSED), None
    if occurrence <= stage.begun:
        return _decide_again(deadline, stage, occurrence, now=now, is_first=is_first)
    if stage.state != "planned" or occurrence != stage.occurrence or stage.at is None:
        return Skipped(
            f"occurrence {occurrence} of the stage is no longer planned; state of the stage: "
            f"{stage.state.replace('_', ' ')}"
        ), None
    if stage.at > now:
        return Snoozed(stage.at - now), None
    if stage.is_acknowledgeable and deadline.is_acknowledged(now):
        return _acknowledged(deadline), _after_this(deadline, stage, now=deadline.acknowledged_until or now)
    return None, _after_this(deadline, replace(stage, last_at=now), now=now)


def _decide_again(deadline: Deadline, stage: Stage, occurrence: int, *, now: datetime, is_first: bool) -> Decision:
    """Decide about an occurrence that has begun: a retry, or a first attempt whose start a change prevented."""
    if stage.revision == deadline.revision or (stage.kind == "action" and not is_first):
        is_stopped = stage.is_acknowledgeable and deadline.is_acknowledged(now)
        return _acknowledged(deadline) if is_stopped else None, stage
    if stage.repeat is not None and not _is_last(stage, occurrence):
        return Skipped("the deadline was changed, and the repeated stage was planned again"), None
    at = DeadlineClock.of(deadline).instant(stage, deadline.due_at)
    planned = replace(stage, state="planned", occurrence=occurrence, begun=occurrence - 1, at=at)
    if at > now:
        return Snoozed(at - now), planned
    return None, _after_this(deadline, replace(planned, last_at=now), now=now)


def _acknowledged(deadline: Deadline) -> Skipped:
    by = f" by {deadline.acknowledged_by}" if deadline.acknowledged_by else ""
    until = f" until {deadline.acknowledged_until.isoformat()}" if deadline.acknowledged_until else ""
    return Skipped(f"acknowledged{by}{until}")


def not_holding(deadline: Deadline) -> str | None:
    """Return the reason why no stage of a deadline may start; None if stages may start."""
    if not deadline.is_unresolved:
        return f"the deadline is {deadline.status}"
    return "the deadline is paused" if deadline.paused_at is not None else None


def holds(deadline: Deadline, name: str, revision: int | None, *, now: datetime) -> bool:
    """Return whether an action of a stage may still run, or a notification of the stage may still be sent.

    Args:
        deadline: The current state of the deadline.
        name: The occurrence of the stage, as `occurrence_name` returns it; empty for an action without a stage.
        revision: The revision of the deadline when the action was checked or the notification was created; None: any.
        now: The database's current time.
    """
    if not_holding(deadline) is not None or (revision is not None and revision != deadline.revision):
        return False
    key, occurrence = parse_occurrence(name)
    stage = deadline.stage(key)
    if stage is None:
        return True
    is_replaced = stage.replaces is not None and stage.replaces <= occurrence < stage.occurrence
    return not is_replaced and not (stage.is_acknowledgeable and deadline.is_acknowledged(now))


def is_replaceable(deadline: Deadline, stage: Stage, occurrence: int, *, now: datetime) -> bool:
    """Return whether another occurrence may replace one whose notification is not sent.

    If a further occurrence of a repeated stage is planned, no replacement is needed.

    Args:
        deadline: The current state of the deadline.
        stage: A stage of the deadline.
        occurrence: The number of the occurrence.
        now: The database's current time.
    """
    is_muted = stage.is_acknowledgeable and deadline.is_acknowledged(now)
    return _is_last(stage, occurrence) and deadline.is_unresolved and not is_muted


def _is_last(stage: Stage, occurrence: int) -> bool:
    """Return whether an occurrence was the last to begin, and no further one is planned."""
    return stage.state == "begun" and occurrence == stage.begun


def replaced_occurrences(stage: Stage) -> list[str]:
    """Return the latest occurrences that the last begun one of a stage replaces, as `occurrence_name` returns them."""
    if stage.replaces is None:
        return []
    first = max(stage.replaces, stage.begun - _REPLACED_MOST)
    return [occurrence_name(stage.key, number) for number in range(first, stage.begun)]


def is_recipient(deadline: Deadline, to: object) -> bool:
    """Return whether `to` of a notification, a string or a person as JSON, is among the deadline's recipients."""
    return any(_normalised(recipient) == to for recipient in deadline.recipients)


def _normalised(recipient: object) -> object:
    try:
        return recipient if isinstance(recipient, str) else as_json(parse_person(recipient))
    except InvalidArgument:
        return None


def _after_this(deadline: Deadline, stage: Stage, *, now: datetime) -> Stage:
    """Return a stage after its planned occurrence has begun or was skipped, with the next one planned if it repeats."""
    begun = replace(stage, begun=stage.occurrence, revision=deadline.revision)
    following = None
    if stage.repeat is not None and (stage.times is None or stage.occurrence < stage.times):
        clock = DeadlineClock.of(deadline)
        following = clock.following(stage, clock.instant(stage, deadline.due_at), max(now, stage.at or now))
    if following is None:
        return replace(begun, state="begun")
    return replace(begun, occurrence=stage.occurrence + 1, at=following, replaces=None)


def occurrence_name(key: str, occurrence: int) -> str:
    """Return the string that an action stores for its occurrence: `reminder:daily#3`."""
    return f"{key}#{occurrence}"


def parse_occurrence(name: str) -> tuple[str, int]:
    """Return the key of a stage and the number of its occurrence; the number is 1 for a name without one."""
    key, _, number = name.rpartition("#")
    return (key, int(number)) if key and number.isdigit() else (name, 1)


def resumed_due(deadline: Deadline, now: datetime) -> datetime:
    """Return the due instant after a pause: as much working time is left as when the pause began.

    If the next ten years have too little working time, the due instant moves by the length of the pause. If the
    deadline is not paused, its due instant is returned.

    Raises:
        BudgetExceeded: Counting the working time takes too many steps.
    """
    if deadline.paused_at is None:
        return deadline.due_at
    clock = DeadlineClock.of(deadline)
    shifted = deadline.due_at + (now - deadline.paused_at)
    if not clock.calendar.is_given:
        return shifted
    left = clock.calendar.worked(deadline.paused_at, deadline.due_at, zone=clock.zone, budget=clock.budget)
    try:
        return max(deadline.due_at, clock.calendar.after_working(now, left, zone=clock.zone, budget=clock.budget))
    except OverflowError:
        return shifted


def following_due_at(deadline: Deadline, budget: EvaluationBudget | None = None) -> datetime | None:
    """Return the due instant of the next deadline in the series; None without a series, or if the series has ended.

    Raises:
        DeadlineUnusable: The stored row contains an invalid value.
        RecurrenceInvalid: The stored rule is invalid.
        BudgetExceeded: The search takes too many steps.
    """
    if deadline.recurrence is None or deadline.occurrence_at is None or deadline.anchor_at is None:
        return None
    if deadline.problem is not None:
        raise DeadlineUnusable(deadline.id, deadline.problem)
    clock = DeadlineClock.of(deadline, budget)
    return next_of_series(deadline.recurrence, clock, anchor=deadline.anchor_at, after=deadline.occurrence_at)


def next_of_series(rule_text: str, clock: DeadlineClock, *, anchor: datetime, after: datetime) -> datetime | None:
    """Return the next due instant of a series; None if it has ended.

    The calendar defines the days of a business-day rule. Occurrences of other rules move to a business day only if the
    calendar has an `adjustment`.

    Raises:
        RecurrenceInvalid: The rule is invalid.
        BudgetExceeded: The search takes too many steps.
    """
    zone, skips = clock.zone.key, clock.calendar.skips
    rule = compile_recurrence(rule_text, timezone=zone, anchor=anchor, budget=clock.budget)
    if rule.kind == "business_day" or skips.adjustment != "drop":
        rule = compile_recurrence(rule_text, timezone=zone, anchor=anchor, skips=skips, budget=clock.budget)
    return _next_after(rule, after)


def _next_after(rule: Recurrence, moment: datetime) -> datetime | None:
    try:
        found = rule.next_after(moment)
    except NeverOccurs:
        return None
    return None if found is None else found.at


def lead(stages: Sequence[Stage], *, due_at: datetime, clock: DeadlineClock) -> datetime:
    """Return the earliest instant of a deadline: its due instant, or that of a stage other than `renewal`."""
    return min([due_at, *(clock.instant(stage, due_at) for stage in stages if stage.kind != "renewal")])
