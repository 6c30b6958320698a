"""`pauses`: pause and resume action types, teams, lock groups and limit keys."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from scheduled_actions.cli.output import answer, local, one_line, print_page, progress
from scheduled_actions.cli.parameters import (
    duration_option,
    json_option,
    last_local_instant_option,
    one_of,
    with_options,
)
from scheduled_actions.cli.project import Project, caller, pass_project
from scheduled_actions.core.messages import counted

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from scheduled_actions.limits.model import Pause

# Imports are inside functions, so that help needs no database driver.
# ruff: noqa: PLC0415

subject_options = with_options(
    click.option("--action-type", metavar="TYPE", help="The actions of this type."),
    click.option("--lock-group", metavar="GROUP", help="The members of this lock group."),
    click.option("--limit", metavar="KEY", help="The actions with this limit key."),
    click.option(
        "--team", "team_id", metavar="TEAM", help="Only actions of this team; alone, all actions of the team."
    ),
)


_SUBJECTS = "--action-type, --team, --lock-group or --limit"


@click.group()
def pauses() -> None:
    """Pause and resume action types, teams, lock groups and limit keys."""


@pauses.command("list")
@json_option
@pass_project
def list_pauses(project: Project) -> None:
    """List the pauses, the oldest first. A pause that has ended is listed until its actions have returned."""
    found = project.open_without_handlers().pauses.find()
    print_page(
        {"pauses": [asdict(pause) for pause in found]},
        found,
        {
            "ID": lambda pause: str(pause.id),
            "PAUSED": lambda pause: f"{pause.kind} {one_line(pause.name, longest=60)}",
            "TEAM": lambda pause: pause.team_id or "",
            "SINCE": lambda pause: local(pause.paused_at),
            "UNTIL": lambda pause: local(pause.ends_at) or "you resume it",
            "HELD BACK": _held_back,
            "BY": lambda pause: pause.paused_by or "",
            "NOTE": lambda pause: one_line(pause.note or "", longest=60),
        },
        empty="nothing is paused: `scheduled-actions pauses create --action-type TYPE` pauses a type",
    )


@pauses.command("create", short_help="Pause actions.")
@subject_options
@click.option("--note", metavar="TEXT", help="Why they are paused.")
@last_local_instant_option(
    "--until", help="End of the pause; without an offset, local time. [default: until you resume it]"
)
@duration_option("--for", "delay", help="Pause for this long: PT2H, 90m, 3d.")
@json_option
@pass_project
def create_pause(
    project: Project,
    /,
    *,
    action_type: str | None,
    lock_group: str | None,
    limit: str | None,
    team_id: str | None,
    note: str | None,
    until: datetime | None,
    delay: timedelta | None,
) -> None:
    """Pause the actions of a type, a team, a lock group or a limit key: no tick starts them until the pause ends.

    Actions that a tick has already claimed still run. Pausing the same actions again changes the note and the end.
    """
    from scheduled_actions.limits.pauses import Subject

    given = {"action_type": action_type, "team_id": team_id, "lock_group": lock_group, "limit": limit}
    _check_one_subject(given, f"give {_SUBJECTS}")
    subject = Subject.of(**given)
    service = project.open().pauses
    pause = service.pause(subject, note=note, by=caller(), until=one_of(until, delay, "--until and --for"))
    with progress(None) as advance:
        for parked in service.park():
            advance(parked)
    pause = service.get(pause.id)
    actions = "action" if pause.parked == 1 else "actions"
    end = "" if pause.ends_at is None else f" until {local(pause.ends_at)}"
    answer(asdict(pause), f"paused {subject}{end}; {_held_back(pause)} due {actions} held back")


@pauses.command("resume", short_help="Resume paused actions.")
@click.argument("pause_id", metavar="[ID]", required=False)
@subject_options
@json_option
@pass_project
def resume_pause(
    project: Project,
    /,
    pause_id: str | None,
    *,
    action_type: str | None,
    lock_group: str | None,
    limit: str | None,
    team_id: str | None,
) -> None:
    """End the pause with this ID, or the one of a type, a team, a lock group or a limit key.

    The actions run in order of priority and time.
    """
    from scheduled_actions.limits.pauses import Subject

    given = {"action_type": action_type, "team_id": team_id, "lock_group": lock_group, "limit": limit}
    if pause_id is None:
        _check_one_subject(given, f"give the ID of a pause, or {_SUBJECTS}")
    service = project.open_without_handlers().pauses
    if pause_id is None:
        resumed = service.resume(Subject.of(**given), by=caller())
    elif any(value is not None for value in given.values()):
        raise click.UsageError("give either the ID of a pause, or what is paused")
    else:
        resumed = service.resume_by_id(pause_id, by=caller())
    with progress(None) as advance:
        for returned in service.unpark():
            advance(returned)
    subject = Subject(resumed.kind, resumed.name, resumed.team_id)
    answer(asdict(resumed), f"resumed {subject}; {counted(resumed.parked, 'due action')} returned")


def _check_one_subject(given: dict[str, str | None], missing: str) -> None:
    """Raise a usage error unless the options name one subject; a team may restrict it."""
    named = [name for name, value in given.items() if value is not None]
    if not named:
        raise click.UsageError(missing)
    subjects = [f"--{name.replace('_', '-')}" for name in named if name != "team_id"]
    if len(subjects) > 1:
        raise click.UsageError(f"{' and '.join(subjects)} are mutually exclusive: run the command once for each")


def _held_back(pause: Pause) -> str:
    from scheduled_actions.limits.pauses import MAX_COUNTED

    return f"{pause.parked:,}{' or more' if pause.parked == MAX_COUNTED else ''}"
