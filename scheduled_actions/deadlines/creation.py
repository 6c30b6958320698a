"""Create deadlines, and the next deadlines of series, and schedule their stages."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from operator import attrgetter
from typing import Any
from uuid import UUID

from scheduled_actions.core.errors import InvalidArgument, RecurrenceInvalid, ScheduledActionsError
from scheduled_actions.database.connection import Connection
from scheduled_actions.deadlines import store
from scheduled_actions.deadlines.model import Deadline, Stage
from scheduled_actions.deadlines.rules import planning
from scheduled_actions.deadlines.rules.calendar import WorkingCalendar
from scheduled_actions.deadlines.rules.definition import NewDeadline
from scheduled_actions.deadlines.rules.planning import DeadlineClock

#: Columns that a new deadline copies from its arguments, and the next deadline of a series from the one before it.
_NEW_COLUMNS = ("name", "team_id", "target_type", "target_id", "calendar", "metadata", "created_by")
_new_values = attrgetter(*_NEW_COLUMNS)


def create(connection: Connection, checked: Sequence[NewDeadline]) -> list[UUID]:
    """Insert deadlines and schedule their stages; return the inserted ids.

    Deadlines whose name is taken are left out.

    Raises:
        InvalidArgument: A stage has no instant, or a rule is too frequent.
        RecurrenceInvalid: A rule is invalid, or has no occurrence after now.
        BudgetExceeded: Planning the stages takes too many steps.
    """
    ids, now = store.new_ids(connection, len(checked))
    common = _CommonPlans(now)
    return _insert(connection, [_row(new_id, new, common) for new_id, new in zip(ids, checked, strict=True)])


def create_as(connection: Connection, new_id: UUID, new: NewDeadline, now: datetime) -> None:
    """Insert a deadline with a given id, and schedule its stages.

    Raises:
        InvalidArgument, RecurrenceInvalid, BudgetExceeded: As for `create`.
    """
    _insert(connection, [_row(new_id, new, _CommonPlans(now))])


def _insert(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> list[UUID]:
    created = store.create(connection, rows)
    stages = {row["id"]: row["stages"] for row in rows if row["id"] in created}
    store.insert_actions(connection, stages)
    return list(stages)


class _CommonPlans:
    """The stages of the deadlines that one call creates, so that those of equal deadlines are planned once."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self._plans: dict[object, tuple[WorkingCalendar, tuple[Stage, ...]]] = {}
        self._asked: dict[int, str] = {}

    def asked(self, new: NewDeadline) -> str:
        """Return the requested stages of a deadline as JSON; `new` must exist as long as this object."""
        if id(new.stages) not in self._asked:
            self._asked[id(new.stages)] = new.asked_stages_text()
        return self._asked[id(new.stages)]

    def plan(self, new: NewDeadline, clock: DeadlineClock, due_at: datetime) -> tuple[Stage, ...]:
        """Return the planned stages of a single deadline; `new` must exist as long as this object."""
        key = (id(new.stages), id(clock.calendar), new.timezone, due_at)
        if key not in self._plans:
            self._plans[key] = clock.calendar, planning.plan(new.stages, due_at=due_at, clock=clock, now=self.now)
        return self._plans[key][1]


def _row(new_id: UUID, new: NewDeadline, common: _CommonPlans) -> dict[str, Any]:
    clock = DeadlineClock.of(new)
    due_at = first_due_at(new, clock, common.now)
    if new.recurrence is None:
        values = _columns(new_id, new, common.plan(new, clock, due_at), due_at=due_at, now=common.now)
    else:
        values = _series_columns(new_id, new, new.stages, clock=clock, due_at=due_at, anchor_at=due_at, now=common.now)
        refuse_overlap(new.recurrence, values["stages"], clock, due_at)
    asked = common.asked(new)
    return values | {"recipients": new.recipients, "definition": new.definition_text(asked), "asked": asked}


def first_due_at(new: NewDeadline, clock: DeadlineClock, now: datetime) -> datetime:
    """Return the due instant of a new deadline: as given, or the first occurrence of its rule after now.

    Raises:
        RecurrenceInvalid: The rule is invalid, or has no occurrence after now.
        BudgetExceeded: Finding the first occurrence takes too many steps.
    """
    if new.due_at is not None or new.delay is not None or new.recurrence is None:
        return new.due_at or now + (new.delay or timedelta(0))
    due_at = planning.next_of_series(new.recurrence, clock, anchor=now, after=now)
    if due_at is None:
        raise RecurrenceInvalid(new.recurrence, "has no occurrence after now; give a `due_at`, or change the rule")
    return due_at


def _series_columns(
    new_id: UUID,
    definition: NewDeadline | Deadline,
    stages: Sequence[Stage],
    *,
    clock: DeadlineClock,
    due_at: datetime,
    anchor_at: datetime,
    now: datetime,
) -> dict[str, Any]:
    """Return the columns of a new deadline with a recurrence, with its stages planned; it starts a new series."""
    assert definition.recurrence is not None  # noqa: S101 - called for series only
    next_due_at = planning.next_of_series(definition.recurrence, clock, anchor=anchor_at, after=due_at)
    planned = planning.plan(stages, due_at=due_at, clock=clock, now=now, next_due_at=next_due_at)
    return _columns(new_id, definition, planned, due_at=due_at, now=now) | {
        "recurrence": definition.recurrence,
        "series_id": new_id,
        "occurrence_at": due_at,
        "anchor_at": anchor_at,
    }


def _columns(
    new_id: UUID, definition: NewDeadline | Deadline, stages: Sequence[Stage], *, due_at: datetime, now: datetime
) -> dict[str, Any]:
    """Return the columns of a new deadline with planned stages."""
    copied = zip(_NEW_COLUMNS, _new_values(definition), strict=True)
    return {name: value for name, value in copied if value is not None} | {
        "id": new_id,
        "due_at": due_at,
        "timezone": definition.timezone,
        "stages": stages,
        "history": [{"what": "set", "at": now, "due_at": due_at}],
    }


def refuse_overlap(recurrence: str, stages: Sequence[Stage], clock: DeadlineClock, due_at: datetime) -> None:
    """Check that a series never has a hundred deadlines open at the same time.

    Raises:
        InvalidArgument: The rule is too frequent for the first stage.
    """
    lead = due_at - planning.lead(stages, due_at=due_at, clock=clock)
    at: datetime | None = due_at
    for _ in range(planning.AHEAD_MOST):
        if at is None or at - due_at > lead:
            return
        at = planning.next_of_series(recurrence, clock, anchor=due_at, after=at)
    raise InvalidArgument(
        "recurrence",
        problem=f"is too frequent: {planning.AHEAD_MOST} deadlines of the series would be open at the same time; use a "
        "longer interval, or stages closer to the due instant",
    )


def create_next(connection: Connection, deadline: Deadline, now: datetime) -> UUID | None:
    """Create the next deadline of a series unless `next_id` is set; return `next_id`, or None if the series has ended.

    The deadline must be locked. The renewal stage, the due instant and the completion or cancellation of a deadline
    all call this; the first call creates the next deadline. If the rule cannot be evaluated, the result is None, and
    the history of the deadline contains the reason.
    """
    if deadline.recurrence is None or deadline.next_id is not None or deadline.series_id is None:
        return deadline.next_id
    try:
        due_at = planning.following_due_at(deadline)
    except ScheduledActionsError as error:
        # The series ends; the history contains the reason.
        store.write(connection, {deadline.id: {"entry": store.history_entry("series_stopped", now, reason=str(error))}})
        return None
    if due_at is None:
        return None
    find = partial(store.find_occurrence, connection, deadline.series_id, due_at)
    # If another session creates the same deadline first, nothing is inserted, and the second search finds it.
    next_id = find() or _insert_next(connection, deadline, deadline.series_id, due_at) or find()
    store.write(connection, {deadline.id: {"next_id": next_id}})
    return next_id


def _insert_next(connection: Connection, before: Deadline, series_id: UUID, due_at: datetime) -> UUID | None:
    (new_id,), now = store.new_ids(connection, 1)
    stages = [
        replace(stage, state="planned", at=None, occurrence=1, begun=0, last_at=None, replaces=None)
        for stage in before.stages
    ]
    clock, anchor_at = DeadlineClock.of(before), before.anchor_at or due_at
    row = _series_columns(new_id, before, stages, clock=clock, due_at=due_at, anchor_at=anchor_at, now=now) | {
        "series_id": series_id,
        "definition": store.as_text(before.definition),
        # A reassignment applies to one deadline only; the next one has the recipients of the definition.
        "recipients": before.definition.get("recipients", list(before.recipients)),
    }
    return next(iter(_insert(connection, [row])), None)
