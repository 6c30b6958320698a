"""What the commands of `schedules` have in common: how a schedule is named, and how it is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar
from zoneinfo import ZoneInfo

import click

from scheduled_actions.cli.output import as_document, print_json
from scheduled_actions.cli.project import handlers_aside
from scheduled_actions.core.checks import check_timezone
from scheduled_actions.core.errors import RegistryInvalid

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from datetime import datetime

    from scheduled_actions.cli.project import Project
    from scheduled_actions.runtime import Runtime
    from scheduled_actions.schedules.model import Schedule

Command = TypeVar("Command", bound="Callable[..., Any]")


def of_a_schedule(command: Command) -> Command:
    """Give a command the argument REF and the option `--team`, as `reference` and `team_id`."""
    team = click.option("--team", "team_id", metavar="TEAM", help="The team it belongs to; a name is one of a team.")
    return click.argument("reference", metavar="REF")(team(command))


def open_to_read(project: Project) -> Runtime:
    """Return the project's parts; where no registry was built, rules that call the project's functions stay unread."""
    try:
        return project.open()
    except RegistryInvalid:
        return project.open_without_handlers()


def label(schedule: Schedule) -> str:
    """Return what people call a schedule."""
    return str(schedule.id) if schedule.name is None else schedule.name


def words(runtime: Runtime, schedule: Schedule) -> str:
    """Return the rule of a schedule in words; as it was typed where it cannot be followed any more."""
    (found,) = all_words(runtime, [schedule])
    return found


def all_words(runtime: Runtime, schedules: Collection[Schedule]) -> list[str]:
    """Return the rules of schedules in words, as `ScheduleRules.all_in_words` does."""
    with handlers_aside():
        return runtime.schedule_rules.all_in_words(schedules)


def on_its_clock(moment: datetime | None, schedule: Schedule) -> str:
    """Return an instant on the schedule's own wall clock, with its offset; in UTC where its zone is unknown here."""
    if moment is None:
        return ""
    try:
        return moment.astimezone(ZoneInfo(schedule.timezone)).isoformat(" ", "seconds")
    except (ValueError, OSError, LookupError):
        return moment.isoformat(" ", "seconds")


def in_its_zone(moment: datetime, timezone: str) -> datetime:
    """Return an instant aware: without an offset it is a time on the schedule's own wall clock."""
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=check_timezone(timezone))


def document_of(runtime: Runtime, schedule: Schedule) -> dict[str, Any]:
    """Return a schedule for programs: its columns, and the rule in words."""
    return as_document(schedule) | {"description": words(runtime, schedule)}


def tell(runtime: Runtime, schedule: Schedule, what: str, *, as_json: bool) -> None:
    """Say what became of a schedule, and what it does next."""
    if as_json:
        print_json(document_of(runtime, schedule))
        return
    click.echo(f"{label(schedule)} {what}; {_next(schedule)}")


def warn_of_the_code(schedule: Schedule) -> None:
    """Say that a change by hand does not last where the code declares the schedule."""
    if schedule.is_declared:
        lasts = "until the next `scheduled-actions schedules sync`, or the next deployment that changes a declaration"
        click.echo(f"warning: the code declares {label(schedule)}: this lasts {lasts}", err=True)


def _next(schedule: Schedule) -> str:
    if schedule.status != "active":
        return f"it is {schedule.status}{f': {schedule.status_note}' if schedule.status_note else ''}"
    if schedule.next_occurrence_at is None:
        return "its next occurrence is planned when the one at work has ended"
    return f"next at {on_its_clock(schedule.next_occurrence_at, schedule)}"
