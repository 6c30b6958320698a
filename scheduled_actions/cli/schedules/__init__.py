"""`schedules`: look at recurring actions, make them, change them, operate them."""

from __future__ import annotations

import click

from scheduled_actions.cli.group import LazyGroup

_READING = "scheduled_actions.cli.schedules.reading"
_CHANGING = "scheduled_actions.cli.schedules.changing"
_OPERATING = "scheduled_actions.cli.schedules.operating"

COMMANDS = {
    "list": (f"{_READING}:list_", "List schedules with their next instants, the newest first."),
    "show": (f"{_READING}:show", "Show one schedule, what comes next and what came of it last."),
    "create": (f"{_CHANGING}:create", "Make a schedule, or bring the one of the same name up to date."),
    "edit": (f"{_CHANGING}:edit", "Change a schedule; its waiting occurrence with it."),
    "pause": (f"{_OPERATING}:pause", "Plan no more until it is resumed."),
    "resume": (f"{_OPERATING}:resume", "Go on with the first occurrence after now."),
    "run": (f"{_OPERATING}:run", "Run it once more, now, beside its occurrences."),
    "backfill": (f"{_OPERATING}:backfill", "Create the past occurrences of a range that were never created."),
    "skip": (f"{_OPERATING}:skip", "Leave the planned occurrence out and plan the one after it."),
    "delete": (f"{_OPERATING}:delete", "Remove a schedule and its planned occurrence."),
    "sync": (f"{_OPERATING}:sync", "Bring the schedules that the code declares up to date."),
}


@click.group(cls=LazyGroup, later=COMMANDS)
def schedules() -> None:
    """Look at recurring actions, make them, change them, operate them.

    REF is a schedule's name or its id. A name is one of a team: say --team where it has one.
    """
