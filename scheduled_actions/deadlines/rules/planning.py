"""When the stages of a deadline come: what is planned, what is too late, what comes next, what still holds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, TypeAlias
from zoneinfo import ZoneInfo

from scheduled_actions.core.errors import InvalidArgument, NeverOccurs, RecurrenceInvalid
from scheduled_actions.core.evaluation_budget import EvaluationBudget
from scheduled_actions.deadlines.rules.offsets import parse_offset
from scheduled_actions.deadlines.rules.working_calendar import BUDGETED, Calendar, parse_calendar
from scheduled_actions.notifications.rules.people import as_json, parse_person
from scheduled_actions.recurrence.compiling import compile_recurrence
from scheduled_actions.recurrence.model import OF_BUSINESS_DAYS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduled_actions.deadlines.model import Deadline, Stage

_ONE_MICROSECOND = timedelta(microseconds=1)
#: A stage that is claimed while its deadline stands still is looked at again so much later, unless it is resumed.
WHILE_PAUSED = timedelta(days=1)
#: Deadlines of one series that may be open beside one another.
AHEAD_MOST = 100


@dataclass(frozen=True, slots=True)
class Clock:
    """On which clock the distances of a deadline are counted."""

    zone: ZoneInfo
    calendar: Calendar
    #: For all that is counted on it.
    budget: EvaluationBudget = field(default_factory=partial(EvaluationBudget, BUDGETED), compare=False)

    @classmethod
    def of(cls, deadline: Deadline, budget: EvaluationBudget | None = None) -> Clock:
        """Return the clock of a deadline; without a budget of several it has one of its own."""
        zone, calendar = ZoneInfo(deadline.timezone), parse_calendar(deadline.calendar)
        return cls(zone, calendar) if budget is None else cls(zone, calendar, budget)

    def instant(self, stage: Stage, due_at: datetime) -> datetime:
        """Return when a stage comes first.

        Raises:
            InvalidArgument: That is beyond the calendar.
            BudgetExceeded: It takes more steps than are left.
        """
        try:
            offset = parse_offset(stage.offset, name=stage.key)
            return offset.instant(due_at, zone=self.zone, calendar=self.calendar, budget=self.budget)
        except (OverflowError, ValueError):
            raise InvalidArgument(stage.key, stage.offset, "an instant that the calendar has") from None

    def following(self, stage: Stage, base: datetime, after: datetime) -> datetime | None:
        """Return the first instant after `after` of a stage that comes again, counted from its first.

        Raises:
            RecurrenceInvalid: Its rule is none; the stage is named.
        """
        assert stage.repeat is not None  # noqa: S101 - asked of those alone
        try:
            rule = compile_recurrence(stage.repeat, timezone=self.zone.key, anchor=base, budget=self.budget)
        except RecurrenceInvalid as error:
            error.name = "reminders" if stage.kind == "reminder" else "escalation.every"
            raise
        try:
            found = rule.next_after(max(after, base - _ONE_MICROSECOND))
        except NeverOccurs:
            return None
        return None if found is None else found.at


def plan(stages: Sequence[Stage], *, due_at: datetime, clock: Clock, now: datetime) -> tuple[Stage, ...]:
    """Return the stages with the instants of all that is still to come.

    What has begun stays as it is. Of reminders whose instants have passed the most urgent comes at once, and of the
    levels of a ladder the highest; the others are left out. Work that is late is done at once, all of it.

    Args:
        stages: Of one deadline.
        due_at: Its due instant.
        clock: On which distances are counted.
        now: What is not after it has passed.
    """
    counted = [_counted(stage, due_at=due_at, clock=clock, now=now) for stage in stages]
    reached = [
        replace(stage, at=clock.instant(stage, due_at))
        for stage in counted
        if stage.begun and (stage.state == "begun" or stage.repeat is not None)
    ]
    latest = {kind: _at_once(counted, reached, kind, now) for kind in ("reminder", "escalation")}
    return tuple(_judged(stage, latest.get(stage.kind), now) for stage in counted)


def _counted(stage: Stage, *, due_at: datetime, clock: Clock, now: datetime) -> Stage:
    """Return a stage with the instant of its next occurrence, be that past or to come."""
    if stage.state == "begun":
        return stage
    base = clock.instant(stage, due_at)
    if stage.repeat is None:
        return replace(stage, at=base, state="planned")
    first = clock.following(stage, base, base - _ONE_MICROSECOND)
    if first is None:
        return replace(stage, at=None, state="begun")
    if (stage.kind == "reminder" and first <= now) or stage.begun:
        first = clock.following(stage, base, now)
    return replace(stage, at=first, state="begun" if first is None else "planned")


def _at_once(stages: Sequence[Stage], begun: Sequence[Stage], kind: str, now: datetime) -> str | None:
    """Return the key of the stage, of those that have passed, that comes at once; None where none does.

    What is less urgent than another that has begun already does not come after it.
    """
    late = [
        (stage.at, stage.key)
        for stage in stages
        if stage.kind == kind and stage.state == "planned" and stage.at is not None and stage.at <= now
    ]
    reached = max((stage.at for stage in begun if stage.kind == kind and stage.at is not None), default=None)
    at, key = max(late, default=(now, None))
    return None if reached is not None and at <= reached else key


def _judged(stage: Stage, at_once: str | None, now: datetime) -> Stage:
    if stage.state != "planned" or stage.at is None or stage.at > now or stage.kind not in {"reminder", "escalation"}:
        return stage
    return stage if stage.key == at_once else replace(stage, state="left_out")


@dataclass(frozen=True, slots=True)
class Go:
    """The stage begins; `stage` is what it is from now on."""

    stage: Stage


@dataclass(frozen=True, slots=True)
class Later:
    """Not yet: it was moved, or its clock stands still; `stage` is what it is from now on, where that changes."""

    delay: timedelta
    stage: Stage | None = None


@dataclass(frozen=True, slots=True)
class Gone:
    """It no longer holds; `stage` is what it is from now on, where that is known."""

    reason: str
    stage: Stage | None = None


Verdict: TypeAlias = Go | Later | Gone


def judge(  # noqa: PLR0911 - a return per verdict
    deadline: Deadline, key: str, occurrence: int, *, now: datetime, is_first: bool = True
) -> Verdict:
    """Decide whether an occurrence of a stage begins, at the moment it would.

    Args:
        deadline: As it is now.
        key: Of the stage.
        occurrence: Which of its occurrences is about to begin.
        now: The database's.
        is_first: Whether its action has not been attempted yet.
    """
    stage = deadline.stage(key)
    if stage is not None and stage.kind == "renewal":
        # A series goes on whatever becomes of one of its deadlines.
        return Go(stage)
    if (refused := not_holding(deadline)) is not None and deadline.paused_at is None:
        return Gone(refused)
    if stage is None:
        return Gone("the deadline has no such stage any more")
    if deadline.paused_at is not None:
        return Later(WHILE_PAUSED)
    if occurrence <= stage.begun:
        return _judged_again(deadline, stage, occurrence, now=now, is_first=is_first)
    if stage.state != "planned" or occurrence != stage.occurrence or stage.at is None:
        return Gone(f"the stage is not planned any more: it was {stage.state.replace('_', ' ')}")
    if stage.at > now:
        return Later(stage.at - now)
    if stage.is_nagging and deadline.is_acknowledged(now):
        until = deadline.acknowledged_until
        reason = (
            f"acknowledged by {deadline.acknowledged_by or 'somebody'}{f' until {until.isoformat()}' if until else ''}"
        )
        return Gone(reason, _after_this(deadline, stage, now=until or now))
    return Go(_after_this(deadline, replace(stage, last_at=now), now=now))


def _judged_again(deadline: Deadline, stage: Stage, occurrence: int, *, now: datetime, is_first: bool) -> Verdict:
    """Decide about another attempt of what has begun; or about the first, where a move came between look and start."""
    is_work = stage.kind == "action" and not is_first
    if stage.revision == deadline.revision or is_work:
        return Go(stage)
    if stage.repeat is not None:
        return Gone("the deadline was moved since; what repeats comes again as it says now")
    at = Clock.of(deadline).instant(stage, deadline.due_at)
    planned = replace(stage, state="planned", occurrence=occurrence, begun=occurrence - 1, at=at)
    if at > now:
        return Later(at - now, planned)
    return Go(_after_this(deadline, replace(planned, last_at=now), now=now))


def not_holding(deadline: Deadline) -> str | None:
    """Return why nothing of a deadline may begin; None where something may."""
    if not deadline.is_unresolved:
        return f"the deadline is {deadline.status}"
    return "the deadline's clock stands still" if deadline.paused_at is not None else None


def holds(deadline: Deadline, key: str, revision: int | None, *, now: datetime) -> bool:
    """Whether a notice of a stage may still begin to be sent.

    Args:
        deadline: As it is now.
        key: Of the stage that the notice is of.
        revision: Of the deadline when the notice was made; None: of any.
        now: The database's.
    """
    if not_holding(deadline) is not None or (revision is not None and revision != deadline.revision):
        return False
    stage = deadline.stage(key)
    return stage is None or not (stage.is_nagging and deadline.is_acknowledged(now))


def is_recipient(deadline: Deadline, to: object) -> bool:
    """Whether a notice's `to`, a text or a person as JSON, is among the recipients that a deadline has now."""
    return any(_as_notices_keep_it(one) == to for one in deadline.recipients)


def _as_notices_keep_it(recipient: object) -> object:
    try:
        return recipient if isinstance(recipient, str) else as_json(parse_person(recipient))
    except InvalidArgument:
        return None


def _after_this(deadline: Deadline, stage: Stage, *, now: datetime) -> Stage:
    """Return the stage after its planned occurrence has begun: with the next one, where it comes again."""
    begun = replace(stage, begun=stage.occurrence, revision=deadline.revision)
    if stage.repeat is None or (stage.times is not None and stage.occurrence >= stage.times):
        return replace(begun, state="begun")
    clock = Clock.of(deadline)
    following = clock.following(stage, clock.instant(stage, deadline.due_at), max(now, stage.at or now))
    if following is None:
        return replace(begun, state="begun")
    return replace(begun, occurrence=stage.occurrence + 1, at=following)


def occurrence_name(key: str, occurrence: int) -> str:
    """Return what an action keeps of the occurrence it is for: `reminder:daily#3`."""
    return f"{key}#{occurrence}"


def parse_occurrence(name: str) -> tuple[str, int]:
    """Return the key of a stage and the number of its occurrence."""
    key, _, number = name.rpartition("#")
    return (key, int(number)) if key and number.isdigit() else (name, 1)


def days_late(due_at: datetime, at: datetime) -> int:
    """Return the days begun after the due instant; 0: on time."""
    late = at - due_at
    return 0 if late <= timedelta(0) else -(-late // timedelta(days=1))


def resumed_due(deadline: Deadline, now: datetime) -> datetime:
    """Return the due instant after a pause: as much working time lies ahead as there was when it began."""
    if deadline.paused_at is None:
        return deadline.due_at
    clock = Clock.of(deadline)
    left = clock.calendar.worked(deadline.paused_at, deadline.due_at, zone=clock.zone, budget=clock.budget)
    if not clock.calendar.is_given:
        return deadline.due_at + (now - deadline.paused_at)
    try:
        return max(deadline.due_at, clock.calendar.after_working(now, left, zone=clock.zone, budget=clock.budget))
    except OverflowError:
        return deadline.due_at + (now - deadline.paused_at)


def next_of_series(
    rule_text: str,
    *,
    timezone: str,
    anchor: datetime,
    calendar: Calendar,
    after: datetime,
    budget: EvaluationBudget | None = None,
) -> datetime | None:
    """Return the due instant that follows in a series; None where it has ended.

    The calendar says which days are business days; it moves what falls on others only where it says `then`.
    """
    budget = budget or EvaluationBudget("the recurrence")
    rule = compile_recurrence(rule_text, timezone=timezone, anchor=anchor, budget=budget)
    if rule.kind in OF_BUSINESS_DAYS or calendar.skips.then != "drop":
        rule = compile_recurrence(rule_text, timezone=timezone, anchor=anchor, skips=calendar.skips, budget=budget)
    try:
        found = rule.next_after(after)
    except NeverOccurs:
        return None
    return None if found is None else found.at


def lead(stages: Sequence[Stage], *, due_at: datetime, clock: Clock) -> datetime:
    """Return the first instant that a deadline's stages ask for: at the latest its due instant."""
    return min([due_at, *(clock.instant(stage, due_at) for stage in stages if stage.kind != "renewal")])
