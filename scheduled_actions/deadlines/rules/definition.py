"""Validate the arguments of a deadline, and build its stages."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import partial
from typing import Any, get_args

from scheduled_actions.actions.model import check_max_attempts, check_priority
from scheduled_actions.conditions.rules.parsing import parse_condition
from scheduled_actions.conditions.rules.plan import CONDITION_LIMIT
from scheduled_actions.core import checks as arguments, json_text
from scheduled_actions.core.action import RESULT_LIMIT
from scheduled_actions.core.errors import InvalidArgument, TooLarge
from scheduled_actions.core.messages import did_you_mean
from scheduled_actions.core.requester import AddressReach
from scheduled_actions.deadlines.model import Deadline, Stage, StageKind
from scheduled_actions.deadlines.rules.calendar import Direction, parse_calendar, parse_offset
from scheduled_actions.deadlines.rules.common import CommonArguments
from scheduled_actions.notifications.rules.reminder import SEVERITIES
from scheduled_actions.schedules.rules import new_schedule

#: The arguments of `set_deadline`.
ARGUMENTS = frozenset({
    "target", "due_at", "reminders", "escalation", "auto_actions", "recipients", "recurrence", "timezone", "calendar",
    "team_id", "name", "metadata", "created_by",
})  # fmt: skip
#: The argument that defines the stages of each kind, in the order of the stages.
ARGUMENT_OF: dict[StageKind, str] = {"reminder": "reminders", "escalation": "escalation", "action": "auto_actions"}
#: Maximum numbers of stages in a deadline (with `due` and `renewal`), of recipients in a stage, and of repeats of an
#: escalation.
STAGES_MOST, RECIPIENTS_MOST, REPEAT_MOST = 100, 100, 100
HOW_TO_BEGIN = "cannot be added to a single deadline: use cancel_deadline, then set_deadline with a recurrence"
HOW_TO_END = "cannot be removed from a series: use cancel_deadline with series=True to end the series"
#: The first and the last year of due instants: with offsets of up to a century, all stages are in the years 1 to 9999.
_FIRST_YEAR, _LAST_YEAR = 1900, 9800
#: Maximum size of a definition in bytes of JSON.
_DEFINITION_LIMIT = 16 * RESULT_LIMIT
#: Stages that no argument defines: every deadline has the first; every deadline of a series also has the second.
_DUE = Stage(key="due", kind="due", offset="when due", action_type="deadline:miss")
_RENEWAL = Stage(key="renewal", kind="renewal", offset="when due", action_type="deadline:renew")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDeadline:
    """The validated arguments of a deadline."""

    target_type: str
    target_id: str
    #: None: `delay` from now; without `delay`, the first occurrence of the rule after now.
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
    #: Which addresses the deadline may use if they were given with a token; None: any, for application code.
    reach: AddressReach | None = None

    @property
    def definition(self) -> dict[str, Any]:
        """The arguments except `name`, `team_id` and `created_by`, as a JSON object.

        Raises:
            InvalidArgument: An argument contains a value that cannot be stored as JSON.
            TooLarge: The object exceeds 1 MiB of JSON.
        """
        asked = self.asked_stages_text()
        return {**_decoded(self.definition_text(asked)), **_decoded(asked)}

    def asked_stages_text(self) -> str:
        """Return the object of `stages` in the definition, as JSON text."""
        stages = {"stages": [stage.as_json() for stage in self.stages]}
        return json_text.encode("deadline", stages, limit=_DEFINITION_LIMIT)

    def definition_text(self, asked: str) -> str:
        """Return the other arguments in the definition as JSON text.

        Args:
            asked: The result of `asked_stages_text`, which counts towards the size limit.
        """
        own = {
            "target": {"type": self.target_type, "id": self.target_id},
            "due_at": None if self.due_at is None else self.due_at.isoformat(),
            "delay": None if self.delay is None else self.delay.total_seconds(),
            "timezone": self.timezone,
            "calendar": self.calendar,
            "recipients": list(self.recipients),
            "recurrence": self.recurrence,
            "metadata": self.metadata,
            **({} if self.reach is None else {"reach": self.reach}),
        }
        text = json_text.encode("deadline", own, limit=_DEFINITION_LIMIT)
        if (size := len(text.encode()) + len(asked.encode()) - 1) > _DEFINITION_LIMIT:
            raise TooLarge("deadline", size, _DEFINITION_LIMIT)
        return text


def _decoded(text: str) -> dict[str, Any]:
    return json_text.decode(text)  # type: ignore[return-value] # an object


def changed_deadline(before: Deadline, asked_before: Sequence[Stage] | None, changes: Mapping[str, Any]) -> NewDeadline:
    """Return the validated arguments of a deadline after a change.

    Args:
        before: The stored deadline.
        asked_before: The stages of the stored definition; None: they are invalid.
        changes: The changed arguments of `set_deadline`; None restores the default of an argument.

    Raises:
        InvalidArgument: An argument is invalid, or the stored stages are invalid and not all of them are replaced.
        RecurrenceInvalid: The calendar's holidays are unknown.
    """
    if "recurrence" in changes and (before.series_id is None or changes["recurrence"] is None):
        raise InvalidArgument(
            "recurrence", changes["recurrence"], problem=HOW_TO_BEGIN if before.series_id is None else HOW_TO_END
        )
    if asked_before is None and not changes.keys() >= set(ARGUMENT_OF.values()):
        raise InvalidArgument(
            "definition",
            problem="of the stored deadline has invalid stages: replace all of them (reminders, escalation and "
            "auto_actions), or correct the row in SQL",
        )
    kept = [one for one in asked_before or () if one.kind in ARGUMENT_OF and ARGUMENT_OF[one.kind] not in changes]
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
    return new_deadline({**asked, **changes}, kept=kept)


def new_deadline(
    given: Mapping[str, Any], *, kept: Sequence[Stage] = (), common: CommonArguments | None = None
) -> NewDeadline:
    """Return the validated arguments of a deadline; the payloads of auto-actions are not validated yet.

    Args:
        given: The arguments of `set_deadline`.
        kept: Existing stages that the deadline keeps; none with `common`.
        common: The stages of earlier deadlines in the same call.

    Raises:
        InvalidArgument: An argument is unknown, missing or invalid.
        RecurrenceInvalid: The calendar's holidays are unknown.
    """
    if not isinstance(given, Mapping):
        raise InvalidArgument("deadline", given, "an object with the arguments of set_deadline")
    for argument in given:
        if argument not in ARGUMENTS:
            hint = did_you_mean(str(argument), ARGUMENTS, otherwise=f"use {', '.join(sorted(ARGUMENTS))}")
            raise InvalidArgument("argument", argument, f"an argument of set_deadline; {hint}")
    target = given.get("target")
    if arguments.target_text(target) is None or target is None:
        raise InvalidArgument("target", target, 'an object such as {"type": "license", "id": "42"}, with strings')
    timezone = given.get("timezone") or None
    recurrence = arguments.check_recurrence("recurrence", given.get("recurrence"))
    if given.get("due_at") is None and recurrence is None:
        raise InvalidArgument("due_at", problem="is required for a deadline without a recurrence")
    due_at, delay = _due(given.get("due_at"), timezone)
    is_series = recurrence is not None
    parse = partial(_stages, given, kept, is_series=is_series)
    listed = [is_series, *(given.get(argument) for argument in ARGUMENT_OF.values())]
    stages = parse() if common is None else common.stages(listed, parse)
    recipients = parse_recipients("recipients", given.get("recipients")) or ()
    if not recipients and any(stage.kind == "reminder" and not stage.to for stage in stages):
        raise InvalidArgument("recipients", problem="is required, because a reminder has no `to`")
    metadata = arguments.document_text("metadata", given.get("metadata"))
    name = new_schedule.check_reference_name("name", given.get("name"))
    return NewDeadline(
        target_type=arguments.check_name("target.type", target["type"], longest=255),
        target_id=arguments.check_name("target.id", target["id"], longest=255),
        due_at=due_at,
        delay=delay,
        timezone=timezone or "UTC",
        calendar=parse_calendar(given.get("calendar")).as_json(),
        recipients=recipients,
        stages=stages,
        recurrence=recurrence,
        name=name,
        team_id=arguments.check_text("team_id", given.get("team_id"), longest=255),
        metadata=None if metadata is None else json_text.decode(metadata),  # type: ignore[arg-type] # an object
        created_by=arguments.check_text("created_by", given.get("created_by")),
    )


def _stages(given: Mapping[str, Any], kept: Sequence[Stage], *, is_series: bool) -> tuple[Stage, ...]:
    asked = [
        *_reminders(given.get("reminders")),
        *_escalation(given.get("escalation")),
        *_auto_actions(given.get("auto_actions")),
        *kept,
    ]
    kinds = list(ARGUMENT_OF)
    stages = (*sorted(asked, key=lambda stage: kinds.index(stage.kind)), _DUE, *([_RENEWAL] if is_series else []))
    if len(stages) > STAGES_MOST:
        raise InvalidArgument(
            "reminders, escalation and auto_actions",
            problem=f"have {len(asked)} stages together; the maximum is {STAGES_MOST}, including `due` and, in a "
            "series, `renewal`",
        )
    key, count = Counter(stage.key for stage in stages).most_common(1)[0]
    if count > 1:
        raise InvalidArgument(
            "stage", key, problem=f'"{key}" is defined {count} times: change an offset, or add a `name`'
        )
    return stages


def due_instant(
    moment: datetime | date | str | timedelta | None, timezone: str, *, now: datetime, name: str = "due_at"
) -> datetime:
    """Return the due instant in UTC; a day alone means its last second, and a timedelta counts from `now`.

    Args:
        moment: Required; an instant with an offset or in `timezone`, a day, or a timedelta.
        timezone: IANA name.
        now: Aware.
        name: The name of the argument in errors.

    Raises:
        InvalidArgument: The instant is missing, invalid, or outside the years 1900 to 9800.
    """
    if moment is None:
        raise InvalidArgument(name, problem="is required")
    at, delay = _due(moment, timezone, name)
    return at or now + (delay or timedelta(0))


def _due(
    moment: datetime | date | str | timedelta | None, timezone: str | None, name: str = "due_at"
) -> tuple[datetime | None, timedelta | None]:
    at, delay = arguments.check_scheduled_at(moment, timezone=timezone, name=name, time_of_day=arguments.LAST_SECOND)
    if at is not None and not _FIRST_YEAR <= at.year <= _LAST_YEAR:
        raise InvalidArgument(name, moment, f"an instant between the years {_FIRST_YEAR} and {_LAST_YEAR}")
    return at, delay


def _reminders(given: Any) -> Iterator[Stage]:  # noqa: ANN401 - any JSON
    """Yield the stages of reminders.

    Args:
        given: A list of offsets and objects: `{"offset": "7 days before", "repeat": "daily"}`, optionally with `to`,
            `times`, `severity`, `message`, `name`. The default direction is "before".
    """
    keys = ("repeat", "times", "to", "severity", "message")
    for path, offset, name, fields in _items("reminders", given, keys, "before"):
        if "times" in fields and "repeat" not in fields:
            raise InvalidArgument(f"{path}.times", problem='needs `repeat`, such as "daily"')
        yield Stage(
            key=f"reminder:{name or offset}", kind="reminder", offset=offset, action_type="reminder:send", **fields
        )


def _escalation(given: Any) -> Iterator[Stage]:  # noqa: ANN401 - any JSON
    """Yield the stages of an escalation.

    Args:
        given: A list of levels, `{"offset": "2 days after", "to": ["cfo@example.org"]}`, optionally with `assign`,
            `stop_when` (`resolved` or `acknowledged`), `condition`, `severity`, `message`, `name`; or an object of
            `levels`, `repeat` (how many times each level runs) and `interval` (a rule; default: daily). The default
            direction is "after".
    """
    is_object = isinstance(given, dict)
    said = _object("escalation", given, ("levels", "repeat", "interval")) if is_object else {"levels": given}
    repeat = arguments.check_integer("escalation.repeat", said.get("repeat"), least=1, most=REPEAT_MOST) or 1
    interval = arguments.check_text("escalation.interval", said.get("interval"), longest=200)
    if interval is not None and repeat == 1:
        raise InvalidArgument("escalation.interval", problem="needs `repeat` of 2 or more")
    if repeat > 1 and not said.get("levels"):
        # An object without levels would remove the existing escalation.
        raise InvalidArgument("escalation.levels", problem="must not be empty when `repeat` is 2 or more")
    repetition: dict[str, Any] = {"repeat": interval or "daily", "times": repeat} if repeat > 1 else {}
    levels = _items(
        "escalation.levels" if is_object else "escalation",
        said.get("levels"),
        ("to", "assign", "stop_when", "condition", "severity", "message"),
        "after",
    )
    for number, (path, offset, name, fields) in enumerate(levels, start=1):
        fields["to"] = fields.get("to") or fields.get("assign")
        if not fields["to"]:
            raise InvalidArgument(f"{path}.to", problem="is required for a level without `assign`")
        yield Stage(
            key=f"escalation:{name or number}",
            kind="escalation",
            offset=offset,
            action_type="escalation:send",
            **fields,
            **repetition,
        )


def _auto_actions(given: Any) -> Iterator[Stage]:  # noqa: ANN401 - any JSON
    """Yield the stages of auto-actions; their payloads are not validated yet.

    Args:
        given: A list of `{"offset": "30 days before", "action_type": "approval:start", "payload": {…}}`, optionally
            with `condition`, `priority`, `max_attempts`, `lock_group`, `name`. The offset must state its direction, or
            be a number of days after the due instant, negative before it.
    """
    keys = ("action_type", "payload", "condition", "priority", "max_attempts", "lock_group")
    for _, offset, name, fields in _items("auto_actions", given, keys, None):
        action_type = fields.pop("action_type")
        yield Stage(
            key=f"action:{name or f'{action_type} {offset}'}",
            kind="action",
            offset=offset,
            action_type=action_type,
            payload=fields.pop("payload", {}),
            condition=fields.pop("condition", None),
            options=fields or None,
        )


def _items(
    name: str,
    given: Any,  # noqa: ANN401 - any JSON
    keys: Sequence[str],
    default: Direction | None,
) -> Iterator[tuple[str, str, str | None, dict[str, Any]]]:
    """Yield the path, the offset, the name and the validated values of each item of a list."""
    if not isinstance(given, list | tuple | None):
        raise InvalidArgument(name, given, "a list")
    for number, one in enumerate(given or ()):
        path = f"{name}[{number}]"
        is_offset = isinstance(one, str | int | float | timedelta)
        said = _object(path, {"offset": one} if is_offset else one, ("offset", "name", *keys))
        if said.get("offset") is None:
            raise InvalidArgument(
                f"{path}.offset", problem='is missing: give one such as "7 days before", "2 days after" or "when due"'
            )
        offset = parse_offset(said["offset"], name=f"{path}.offset", default=default).text
        values = {key: _CHECKS[key](f"{path}.{key}", said.get(key)) for key in ("name", *keys)}
        yield path, offset, values.pop("name"), {key: value for key, value in values.items() if value is not None}


def _object(path: str, given: Any, keys: Sequence[str]) -> Mapping[str, Any]:  # noqa: ANN401 - any JSON
    if not isinstance(given, dict):
        raise InvalidArgument(path, given, f"an offset, or an object with some of the keys {', '.join(sorted(keys))}")
    for key in given:
        if key not in keys:
            hint = did_you_mean(str(key), keys, otherwise=f"use {', '.join(sorted(keys))}")
            raise InvalidArgument(path, key, f"a key of this object; {hint}")
    return given


def parse_recipients(name: str, given: Any) -> tuple[Any, ...] | None:  # noqa: ANN401 - any JSON
    """Check recipients: addresses, names of roles (`resolver:name`), or people as objects.

    Args:
        name: The name of the argument in errors.
        given: A recipient, or a list of at most `RECIPIENTS_MOST`.

    Returns:
        The recipients, not parsed; None if `given` is None.

    Raises:
        InvalidArgument: A recipient is empty, too long or of another type, or there are too many.
    """
    if given is None:
        return None
    listed = list(given) if isinstance(given, list | tuple) else [given]
    if len(listed) > RECIPIENTS_MOST:
        raise InvalidArgument(name, len(listed), problem=f"has {len(listed)} entries; the maximum is {RECIPIENTS_MOST}")
    for one in listed:
        if isinstance(one, dict) and one:
            arguments.document_text(name, one)
        elif not isinstance(one, str) or not 1 <= len(one.strip()) <= 320 or not arguments.check_text(name, one):  # noqa: PLR2004 - in the message
            # The value is not shown: it may contain a secret.
            raise InvalidArgument(
                name, problem="must be an address or a role of 1 to 320 characters, an object, or a list of these"
            )
    return tuple(listed)


def _check_choice(name: str, given: Any, *, choices: Sequence[str]) -> Any:  # noqa: ANN401 - one of the choices
    return None if given is None else arguments.check_choice(name, given, choices)


def _check_condition(name: str, given: Any) -> Any:  # noqa: ANN401 - any JSON
    if given is None:
        return None
    condition = json_text.decode(json_text.encode(name, given, limit=CONDITION_LIMIT), name=name)
    if isinstance(condition, dict) and "wait" in condition:
        raise InvalidArgument(
            f"{name}.wait",
            problem="is not allowed: the condition is evaluated before each attempt, without waiting; write the "
            'condition itself, without "wait"',
        )
    parse_condition(condition, name=name)
    return condition


#: The check of each key of a stage; only required keys reject None.
_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "name": partial(arguments.check_text, longest=200),
    "repeat": arguments.check_recurrence,
    "times": partial(arguments.check_integer, least=1, most=10_000),
    "to": parse_recipients,
    "assign": parse_recipients,
    "stop_when": partial(_check_choice, choices=get_args(Stage.__annotations__["stop_when"])),
    "severity": partial(_check_choice, choices=SEVERITIES),
    "message": partial(arguments.check_text, longest=4000),
    "action_type": partial(arguments.check_name, longest=200),
    "payload": lambda _, value: value,
    "condition": _check_condition,
    "priority": lambda _, value: check_priority(value),
    "max_attempts": lambda _, value: check_max_attempts(value),
    "lock_group": partial(arguments.check_text, longest=255),
}
