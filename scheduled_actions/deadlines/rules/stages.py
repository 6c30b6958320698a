"""From what a caller says of reminders, escalation and auto-actions to the stages of a deadline."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from scheduled_actions.actions.model import check_max_attempts, check_priority
from scheduled_actions.core import checks as arguments
from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.deadlines.model import Stage
from scheduled_actions.deadlines.rules.offsets import parse_offset
from scheduled_actions.notifications.rules.severity import SEVERITIES
from scheduled_actions.recurrence.phrases import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduled_actions.deadlines.rules.offsets import Direction, Offset
    from scheduled_actions.notifications.rules.severity import Severity

#: The types of the actions that the package itself plans.
REMINDER, ESCALATION, DUE, RENEWAL = "reminder:send", "escalation:send", "deadline:miss", "deadline:renew"
#: What tells when a deadline is due, and makes the next of a series.
DUE_KEY, RENEWAL_KEY = "due", "renewal"
#: The most stages of one deadline, recipients of one stage, and rounds of one ladder.
STAGES_MOST, RECIPIENTS_MOST, ROUNDS_MOST = 100, 100, 100

_REMINDER_KEYS = frozenset({"offset", "repeat", "times", "to", "severity", "message", "name"})
_LEVEL_KEYS = frozenset({"offset", "to", "assign", "while", "severity", "message", "name"})
_LADDER_KEYS = frozenset({"levels", "rounds", "every"})
_ACTION_KEYS = frozenset({"offset", "action_type", "payload", "name", "priority", "max_attempts", "lock_group"})


def reminders_of(given: Any) -> list[Stage]:  # noqa: ANN401 - any JSON
    """Return the stages of reminders.

    Args:
        given: A list of distances, or of objects: `{"offset": "7 days before", "repeat": "daily"}`, with perhaps `to`,
            `times`, `severity`, `message`, `name`. Without a direction they come before.
    """
    stages = []
    for number, one in enumerate(_list("reminders", given)):
        path = f"reminders[{number}]"
        said = _object(path, one, _REMINDER_KEYS)
        offset = _offset(path, said, "before")
        stages.append(
            Stage(
                key=f"reminder:{_name(path, said) or offset.text}",
                kind="reminder",
                offset=offset.text,
                action_type=REMINDER,
                repeat=arguments.check_text(f"{path}.repeat", said.get("repeat"), longest=2000),
                times=_times(path, said),
                to=recipients_of(f"{path}.to", said.get("to")),
                severity=_severity(path, said),
                message=arguments.check_text(f"{path}.message", said.get("message"), longest=4000),
            )
        )
    return stages


def escalation_of(given: Any) -> list[Stage]:  # noqa: ANN401 - any JSON
    """Return the stages of a ladder.

    Args:
        given: A list of levels, `{"offset": "2 days after", "to": ["cfo@example.org"]}`, with perhaps `assign`,
            `while` (`unresolved`, or `unacknowledged`), `severity`, `message`, `name`; or an object of `levels`,
            `rounds` (how often the ladder is climbed) and `every` (from one round to the next; a day unless said).
            Without a direction they come after.
    """
    is_ladder = isinstance(given, dict)
    ladder = _object("escalation", given, _LADDER_KEYS) if is_ladder else {"levels": given}
    rounds = arguments.check_integer("escalation.rounds", ladder.get("rounds"), least=1, most=ROUNDS_MOST) or 1
    every = arguments.check_text("escalation.every", ladder.get("every"), longest=200)
    if every is not None and rounds == 1:
        raise InvalidArgument(
            "escalation.every", every, "beside `rounds` of 2 or more: a ladder climbed once has no next round"
        )
    levels = _list("escalation.levels" if is_ladder else "escalation", ladder.get("levels"))
    if rounds > 1 and not levels:
        # Taken for no ladder, it would take away the one that is there.
        raise InvalidArgument("escalation.levels", levels, "some levels: `rounds` is said of the ladder given with it")
    stages = []
    for number, one in enumerate(levels):
        path = f"escalation{'.levels' if is_ladder else ''}[{number}]"
        said = _object(path, one, _LEVEL_KEYS)
        to = recipients_of(f"{path}.to", said.get("to"))
        assign = recipients_of(f"{path}.assign", said.get("assign"))
        if not to and not assign:
            raise InvalidArgument(f"{path}.to", said.get("to"), "there: a level says whom it tells, or who takes over")
        stages.append(
            Stage(
                key=f"escalation:{_name(path, said) or number + 1}",
                kind="escalation",
                offset=_offset(path, said, "after").text,
                action_type=ESCALATION,
                repeat=(every or "daily") if rounds > 1 else None,
                times=rounds if rounds > 1 else None,
                to=to or assign,
                assign=assign,
                holds_while=_while(path, said),
                severity=_severity(path, said),
                message=arguments.check_text(f"{path}.message", said.get("message"), longest=4000),
            )
        )
    return stages


def auto_actions_of(given: Any) -> list[Stage]:  # noqa: ANN401 - any JSON
    """Return the stages of auto-actions; their payloads are still to be validated.

    Args:
        given: A list of `{"offset": "30 days before", "action_type": "approval:start", "payload": {…}}`, with perhaps
            `priority`, `max_attempts`, `lock_group`, `name`. A distance names its direction.
    """
    stages = []
    for number, one in enumerate(_list("auto_actions", given)):
        path = f"auto_actions[{number}]"
        said = _object(path, one, _ACTION_KEYS)
        action_type = arguments.check_text(f"{path}.action_type", said.get("action_type"), longest=200)
        if action_type is None:
            raise InvalidArgument(f"{path}.action_type", None, "there: an auto-action has a type and a payload")
        offset = _offset(path, said, None)
        options = {
            "priority": check_priority(said.get("priority")),
            "max_attempts": check_max_attempts(said.get("max_attempts")),
            "lock_group": arguments.check_text(f"{path}.lock_group", said.get("lock_group"), longest=255),
        }
        stages.append(
            Stage(
                key=f"action:{_name(path, said) or f'{action_type} {offset.text}'}",
                kind="action",
                offset=offset.text,
                action_type=action_type,
                payload=said.get("payload", {}),
                options={name: value for name, value in options.items() if value is not None} or None,
            )
        )
    return stages


def own_stages(*, is_recurring: bool) -> list[Stage]:
    """Return the stages that a deadline has by itself: it becomes missed, and a series goes on."""
    due = Stage(key=DUE_KEY, kind="due", offset="when due", action_type=DUE)
    renewal = Stage(key=RENEWAL_KEY, kind="renewal", offset="when due", action_type=RENEWAL)
    return [due, renewal] if is_recurring else [due]


def checked(stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """Return the stages, each with a name of its own, and not too many of them."""
    if len(stages) > STAGES_MOST:
        raise InvalidArgument("reminders, escalation and auto_actions", len(stages), f"at most {STAGES_MOST} together")
    seen: set[str] = set()
    for stage in stages:
        if stage.key in seen:
            expected = "the only one of its name: give one of the two another offset, or a `name` of its own"
            raise InvalidArgument("stage", stage.key, expected)
        seen.add(stage.key)
    return tuple(stages)


def recipients_of(name: str, given: Any) -> tuple[Any, ...] | None:  # noqa: ANN401 - any JSON
    """Return who is told: a list of addresses, names of roles, or objects that the project's resolver reads.

    A text alone is a list of one; None where nothing is given.
    """
    if given is None:
        return None
    listed = list(given) if isinstance(given, list | tuple) else [given]
    if len(listed) > RECIPIENTS_MOST:
        raise InvalidArgument(name, len(listed), f"at most {RECIPIENTS_MOST} recipients")
    for one in listed:
        if isinstance(one, dict) and one:
            arguments.document_text(name, one)
        elif not isinstance(one, str) or arguments.check_text(name, one.strip(), longest=320) is None:
            raise InvalidArgument(name, one, "an address, the name of a role, or an object: a list of these")
    return tuple(listed)


def _list(name: str, given: Any) -> list[Any]:  # noqa: ANN401 - any JSON
    if given is None:
        return []
    if not isinstance(given, list | tuple):
        raise InvalidArgument(name, given, "a list")
    return list(given)


def _object(path: str, given: Any, keys: frozenset[str]) -> Mapping[str, Any]:  # noqa: ANN401 - any JSON
    if isinstance(given, str | timedelta):
        given = {"offset": given}
    if not isinstance(given, dict):
        raise InvalidArgument(path, given, f"a distance in words, or an object with the keys {', '.join(sorted(keys))}")
    for key in given:
        if key not in keys:
            near = nearest(str(key), keys)
            raise InvalidArgument(path, key, f'a key; did you mean "{near}"?' if near else f"one of {sorted(keys)}")
    return given


def _offset(path: str, said: Mapping[str, Any], default: Direction | None) -> Offset:
    if said.get("offset") is None:
        raise InvalidArgument(f"{path}.offset", None, 'there: "7 days before", "2 days after", "when due"')
    return parse_offset(said["offset"], name=f"{path}.offset", default=default)


def _name(path: str, said: Mapping[str, Any]) -> str | None:
    return arguments.check_text(f"{path}.name", said.get("name"), longest=200)


def _times(path: str, said: Mapping[str, Any]) -> int | None:
    times = arguments.check_integer(f"{path}.times", said.get("times"), least=1, most=10_000)
    if times is not None and said.get("repeat") is None:
        raise InvalidArgument(f"{path}.times", times, 'beside a `repeat`, such as "daily"')
    return times


def _severity(path: str, said: Mapping[str, Any]) -> Severity | None:
    severity: Severity | None = said.get("severity")
    if severity is not None and severity not in SEVERITIES:
        raise InvalidArgument(f"{path}.severity", severity, f"one of {', '.join(SEVERITIES)}")
    return severity


def _while(path: str, said: Mapping[str, Any]) -> Any:  # noqa: ANN401 - one of two texts
    given = said.get("while", "unresolved")
    if given not in {"unresolved", "unacknowledged"}:
        raise InvalidArgument(f"{path}.while", given, "one of unresolved, unacknowledged")
    return given
