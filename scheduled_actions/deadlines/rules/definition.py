"""What a caller asks of a deadline: every argument checked, and kept as it was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from scheduled_actions.core import checks as arguments
from scheduled_actions.core import json_text
from scheduled_actions.core.action import RESULT_LIMIT
from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.core.json_text import Unquoted
from scheduled_actions.deadlines.rules import stages as stage_rules
from scheduled_actions.deadlines.rules.working_calendar import parse_calendar
from scheduled_actions.recurrence.phrases import nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduled_actions.core.requester import AddressReach
    from scheduled_actions.deadlines.model import Deadline, Stage, StageKind

#: The arguments of `set_deadline`.
ARGUMENTS = frozenset({
    "target", "due_at", "reminders", "escalation", "auto_actions", "recipients", "recurrence", "timezone", "calendar",
    "team_id", "name", "metadata", "created_by",
})  # fmt: skip


#: Which argument names the stages of a kind; in their order.
ARGUMENT_OF: dict[StageKind, str] = {"reminder": "reminders", "escalation": "escalation", "action": "auto_actions"}
_ORDER = tuple(ARGUMENT_OF)
#: What becomes or ceases to be a series, in words for whoever asks for it.
HOW_TO_BEGIN = "left out: it is no series; cancel_deadline it, and set_deadline one with a recurrence"
HOW_TO_END = "a rule: cancel_deadline with series=True ends the series"
_CHANGED_ELSEWHERE = {
    "due_at": "left out: move_deadline gives it another due instant",
    "name": "left out: it keeps its name",
    "team_id": "left out: it stays where it is",
    "created_by": "left out: it was set by whom it was",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDeadline:
    """A deadline to set, every argument checked."""

    target_type: str
    target_id: str
    #: None: the first occurrence of the rule, or `delay` from now.
    due_at: datetime | None
    delay: timedelta | None
    timezone: str
    calendar: dict[str, Any] | None
    recipients: tuple[Any, ...]
    stages: tuple[Stage, ...]
    recurrence: str | None
    name: str | None
    team_id: str | None
    metadata: Mapping[str, Any] | None
    created_by: str | None
    #: How far the addresses in it reach where a token gave them; None: application code.
    reach: AddressReach | None = None

    @property
    def definition(self) -> dict[str, Any]:
        """What was asked for as a JSON object: two that are equal ask for the same."""
        asked = {
            "target": {"type": self.target_type, "id": self.target_id},
            "due_at": None if self.due_at is None else self.due_at.isoformat(),
            "delay": None if self.delay is None else self.delay.total_seconds(),
            "timezone": self.timezone,
            "calendar": self.calendar,
            "recipients": list(self.recipients),
            "stages": [stage.as_json() for stage in self.stages],
            "recurrence": self.recurrence,
            "metadata": self.metadata,
            **({} if self.reach is None else {"reach": self.reach}),
        }
        return json_text.decode(json_text.encode("deadline", asked, limit=16 * RESULT_LIMIT))  # type: ignore[return-value] # an object


def changed_deadline(before: Deadline, asked_before: Sequence[Stage] | None, changes: Mapping[str, Any]) -> NewDeadline:
    """Return what a deadline is to be with some of its arguments changed, checked as `new_deadline` does.

    Args:
        before: As it is.
        asked_before: The stages of its definition; None: they cannot be read.
        changes: The arguments of `set_deadline` that change; None takes one back to its default.

    Raises:
        InvalidArgument: An argument cannot be changed here or is invalid, or the stored stages cannot be read.
        RecurrenceInvalid: The calendar's holidays are not known.
    """
    for name, value in changes.items():
        if name in _CHANGED_ELSEWHERE:
            raise InvalidArgument(name, value, _CHANGED_ELSEWHERE[name])
    if "recurrence" in changes and (before.series_id is None or changes["recurrence"] is None):
        raise InvalidArgument(
            "recurrence", changes["recurrence"], HOW_TO_BEGIN if before.series_id is None else HOW_TO_END
        )
    if asked_before is None and not changes.keys() >= set(ARGUMENT_OF.values()):
        expected = "one that can be read: give reminders, escalation and auto_actions, or correct the row"
        raise InvalidArgument("definition", Unquoted("the stored one"), expected)
    kept = [stage for stage in asked_before or () if stage.kind in ARGUMENT_OF]
    asked = {
        "target": {"type": before.target_type, "id": before.target_id},
        "due_at": before.due_at,
        "timezone": before.timezone,
        "calendar": before.calendar,
        "recipients": before.definition.get("recipients", list(before.recipients)),
        "recurrence": before.recurrence,
        "metadata": before.metadata,
        "team_id": before.team_id,
        "name": before.name,
    }
    return new_deadline({**asked, **changes}, kept=[stage for stage in kept if ARGUMENT_OF[stage.kind] not in changes])


def new_deadline(given: Mapping[str, Any], *, kept: Sequence[Stage] = ()) -> NewDeadline:
    """Return what was asked for, checked; the payloads of auto-actions are still to be validated.

    Args:
        given: The arguments of `set_deadline`.
        kept: Stages beside those that the arguments name.

    Raises:
        InvalidArgument: An argument is unknown, missing, or cannot be what it is.
        RecurrenceInvalid: The calendar's holidays are not known.
    """
    if not isinstance(given, Mapping):
        raise InvalidArgument("deadline", given, "an object of set_deadline's arguments")
    for name in given:
        if name not in ARGUMENTS:
            near = nearest(str(name), ARGUMENTS)
            raise InvalidArgument("argument", name, f"one of set_deadline's{f'; did you mean {near}?' if near else ''}")
    target = given.get("target")
    text = arguments.target_text(target)
    if text is None or target is None:
        raise InvalidArgument("target", target, 'the thing it is about: {"type": "licence", "id": "42"}')
    timezone = given.get("timezone") or "UTC"
    arguments.check_timezone(timezone)
    recurrence = arguments.check_text("recurrence", given.get("recurrence"), longest=2000)
    at, delay = _when(given.get("due_at"), timezone, is_needed=recurrence is None)
    planned = [
        *stage_rules.reminders_of(given.get("reminders")),
        *stage_rules.escalation_of(given.get("escalation")),
        *stage_rules.auto_actions_of(given.get("auto_actions")),
        *kept,
    ]
    planned.sort(key=lambda stage: _ORDER.index(stage.kind))
    planned += stage_rules.own_stages(is_recurring=recurrence is not None)
    metadata = arguments.document_text("metadata", given.get("metadata"))
    recipients = stage_rules.recipients_of("recipients", given.get("recipients")) or ()
    if not recipients and any(stage.kind == "reminder" and not stage.to for stage in planned):
        raise InvalidArgument("recipients", given.get("recipients"), "somebody: reminders are for those who are named")
    return NewDeadline(
        target_type=arguments.check_text("target.type", target["type"], longest=255) or "",
        target_id=arguments.check_text("target.id", target["id"], longest=255) or "",
        due_at=at,
        delay=delay,
        timezone=timezone,
        calendar=parse_calendar(given.get("calendar")).as_json(),
        recipients=recipients,
        stages=stage_rules.checked(planned),
        recurrence=recurrence,
        name=_name(given.get("name")),
        team_id=arguments.check_text("team_id", given.get("team_id"), longest=255),
        metadata=None if metadata is None else json_text.decode(metadata),  # type: ignore[arg-type] # an object
        created_by=arguments.check_text("created_by", given.get("created_by")),
    )


def due_instant(moment: datetime | timedelta | None, timezone: str, *, now: datetime) -> datetime:
    """Return a due instant in UTC, for a call that needs one."""
    if moment is None:
        raise InvalidArgument("due_at", Unquoted("nothing"), "an instant: say when")
    at, delay = _when(moment, timezone, is_needed=True)
    return at if at is not None else now + (delay or timedelta(0))


def _when(
    moment: datetime | timedelta | None, timezone: str, *, is_needed: bool
) -> tuple[datetime | None, timedelta | None]:
    if moment is None and is_needed:
        raise InvalidArgument("due_at", Unquoted("nothing"), "an instant: say when, or by which recurrence")
    try:
        at, delay = arguments.check_when(moment, timezone)
    except InvalidArgument as error:
        raise InvalidArgument("due_at", moment, error.expected) from None
    if at is not None and not _FIRST_YEAR <= at.year <= _LAST_YEAR:
        raise InvalidArgument("due_at", moment, f"an instant between the years {_FIRST_YEAR} and {_LAST_YEAR}")
    return at, delay


#: The calendar's first and last centuries are left for distances to reach into.
_FIRST_YEAR, _LAST_YEAR = 1900, 9800


def _name(value: Any) -> str | None:  # noqa: ANN401 - any JSON
    name = arguments.check_text("name", value, longest=200)
    try:
        UUID(name or "-")
    except ValueError:
        return name
    raise InvalidArgument("name", value, "a name: what reads as a UUID is taken for an id")
