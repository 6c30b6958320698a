"""Whether the recurrences that handlers declare mean something: asked at build, long before the first occurrence."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from scheduled_actions.core.errors import FollowUpInvalid, InvalidArgument, ScheduledActionsError
from scheduled_actions.registry import recurrence_option
from scheduled_actions.registry.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from scheduled_actions.recurrence.custom import Functions
    from scheduled_actions.registry.declarations import Declaration, Declarations

#: From when on a rule is tried. Not from now: the same text should build on any day, also when what it declares has
#: ended since.
_ANCHOR = datetime(2020, 1, 1, tzinfo=UTC)
_KINDS = ("next", "skip")


def problems(found: Declarations) -> Iterator[Problem]:
    """Yield every mistake in recurrences whose shape is right, each with the line of the key that it is in."""
    declared = [
        (handler, recurrence_option.normalised(given))
        for handler in found.handlers
        if (given := handler.options.get("recurrence")) is not None
    ]
    if not declared:
        return
    functions = _stand_ins(found)
    for handler, given in declared:
        yield from _mistake(handler, given, functions)
    yield from _doubles(declared)


def _stand_ins(found: Declarations) -> Functions:
    """Return functions of the declared names that answer something right: no code of the project runs at build."""
    from scheduled_actions.recurrence.custom import Functions  # noqa: PLC0415 - most projects declare no recurrence

    names = {kind: [one.function.name for one in found.functions if one.function.kind == kind] for kind in _KINDS}
    return Functions(
        next=dict.fromkeys(names["next"], lambda moment: moment + timedelta(days=1)),
        skip=dict.fromkeys(names["skip"], lambda _: False),
    )


def _mistake(handler: Declaration, given: dict[str, Any], functions: Functions) -> Iterator[Problem]:
    """Take a declaration as far as a schedule could be made of it; yield what stands in the way."""
    from scheduled_actions.actions import dependencies as follow_ups  # noqa: PLC0415 - most projects declare no recurrence
    from scheduled_actions.recurrence import compile_recurrence  # noqa: PLC0415 - as above
    from scheduled_actions.recurrence.skips.model import Skips  # noqa: PLC0415 - as above
    from scheduled_actions.schedules.rules import new_schedule  # noqa: PLC0415 - most projects declare no recurrence

    lines, key = handler.recurrence_lines, "skip"
    try:
        extras = {name: given[name] for name in new_schedule.EXTRAS & given.keys()}
        arguments = {name: value for name, value in given.items() if name not in {"rule", "payload", *extras}}
        new_schedule.definition_of({"recurrence": given["rule"], **arguments})
        # Their handlers, and what they may ask, are looked at when the schedule is made.
        follow_ups.extras_of(extras, _row)
        key = "rule"
        compile_recurrence(
            given["rule"],
            timezone=given.get("timezone", "UTC"),
            anchor=_ANCHOR,
            skips=Skips.parse(given["skip"]) if "skip" in given else None,
            functions=functions,
        )
    except (InvalidArgument, FollowUpInvalid) as error:
        named = (error.where if isinstance(error, FollowUpInvalid) else error.name).partition(".")[0]
        text = f"recurrence.{error}" if named in lines else str(error)
        yield Problem(handler.file, lines.get(named, lines["rule"]), text)
    except ScheduledActionsError as error:
        yield Problem(handler.file, lines[key], str(error))


def _row(new: Mapping[str, Any], _: int) -> dict[str, Any]:
    """Return nothing of a follow-up whose arguments are such."""
    from scheduled_actions.actions.model import arguments_of  # noqa: PLC0415 - as above

    arguments_of(new)
    return {}


def _doubles(declared: list[tuple[Declaration, dict[str, Any]]]) -> Iterator[Problem]:
    named: dict[tuple[str, str | None], Declaration] = {}
    for handler, given in sorted(declared, key=lambda one: (one[0].file, one[0].line)):
        name = given.get("name", handler.action_type)
        first = named.setdefault((name, given.get("team_id")), handler)
        # (Two handlers of one type are a mistake of their own.)
        if first.action_type != handler.action_type:
            lines = handler.recurrence_lines
            text = f'recurrence: "{name}" is the name of the schedule of {first.file}:{first.line} already'
            yield Problem(handler.file, lines.get("name", lines["rule"]), text)
