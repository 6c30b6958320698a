"""Check the recurrences that handlers declare, when the registry is built."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from scheduled_actions.core.errors import FollowUpInvalid, InvalidArgument, ScheduledActionsError
from scheduled_actions.registry.declarations import Declaration, Declarations, SourceProblem
from scheduled_actions.registry.options import normalize_recurrence

if TYPE_CHECKING:
    from scheduled_actions.recurrence.custom import Functions


#: The start of the rules during the check; fixed, so that the result does not depend on the day of the build.
_ANCHOR = datetime(2020, 1, 1, tzinfo=UTC)


def problems(found: Declarations) -> Iterator[SourceProblem]:
    """Yield the problems of well-formed recurrence declarations, each with its line."""
    declared = [
        (handler, normalize_recurrence(given))
        for handler in found.handlers
        if (given := handler.options.get("recurrence")) is not None
    ]
    if not declared:
        return
    from scheduled_actions.recurrence.custom import Functions  # noqa: PLC0415 - most projects declare no recurrence

    # Placeholders for the declared functions: the build runs no project code.
    functions = Functions(
        next={one.name: lambda at: at + timedelta(days=1) for one in found.functions if one.decorator.kind == "next"},
        skip={one.name: lambda _: False for one in found.functions if one.decorator.kind == "skip"},
    )
    for handler, given in declared:
        yield from _invalid(handler, given, functions)
    yield from _duplicates(declared)


def _invalid(handler: Declaration, given: dict[str, Any], functions: Functions) -> Iterator[SourceProblem]:
    """Validate a declaration like the arguments of a schedule; yield the first problem."""
    from scheduled_actions.actions import dependencies  # noqa: PLC0415 - most projects declare no recurrence
    from scheduled_actions.recurrence.compiling import compile_recurrence  # noqa: PLC0415 - as above
    from scheduled_actions.recurrence.skips.model import Skips  # noqa: PLC0415 - as above
    from scheduled_actions.schedules.rules import new_schedule  # noqa: PLC0415 - most projects declare no recurrence

    lines, key = handler.recurrence_lines, "skip"
    try:
        extras = {name: given[name] for name in new_schedule.DEPENDENCIES & given.keys()}
        definition = new_schedule.definition_of(
            {
                "recurrence": given["rule"],
                **{name: value for name, value in given.items() if name not in {"rule", "payload", *extras}},
            }
        )
        new_schedule.check_expiry(definition)
        # Handlers and external checks are validated when the schedule is created.
        dependencies.dependency_columns(extras, _check_arguments)
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
        yield SourceProblem(
            handler.file, lines.get(named, lines["rule"]), f"recurrence.{error}" if named in lines else str(error)
        )
    except ScheduledActionsError as error:
        yield SourceProblem(handler.file, lines[key], str(error))


def _check_arguments(new: Mapping[str, Any], _: int) -> dict[str, Any]:
    """Check the argument names of a follow-up; return no columns."""
    from scheduled_actions.actions.model import arguments_of  # noqa: PLC0415 - as above

    arguments_of(new)
    return {}


def _duplicates(declared: list[tuple[Declaration, dict[str, Any]]]) -> Iterator[SourceProblem]:
    named: dict[tuple[str, str | None], Declaration] = {}
    for handler, given in sorted(declared, key=lambda one: (one[0].file, one[0].line)):
        name = given.get("name", handler.name)
        first = named.setdefault((name, given.get("team_id")), handler)
        # Two handlers of one type are reported elsewhere.
        if first.name != handler.name:
            lines = handler.recurrence_lines
            yield SourceProblem(
                handler.file,
                lines.get("name", lines["rule"]),
                f'recurrence: "{name}" is already the name of the schedule declared at {first.file}:{first.line}',
            )
