"""`deadlines`: set them, look at them, see them through."""

from __future__ import annotations

import click

from scheduled_actions.cli.group import LazyGroup

_READING = "scheduled_actions.cli.deadlines.reading"
_CHANGING = "scheduled_actions.cli.deadlines.changing"

COMMANDS = {
    "set": (f"{_CHANGING}:set_", "Set a deadline, or bring the one of the same name up to date."),
    "list": (f"{_READING}:list_", "List deadlines, the newest first."),
    "show": (f"{_READING}:show", "Show one deadline: what was sent of it, and what will be."),
    "complete": (f"{_CHANGING}:complete", "Complete it: nothing of it is sent any more."),
    "edit": (f"{_CHANGING}:edit", "Change its reminders, escalation, actions, people, rule."),
    "move": (f"{_CHANGING}:move", "Give it another due instant."),
    "cancel": (f"{_CHANGING}:cancel", "Cancel it, or its series."),
    "pause": (f"{_CHANGING}:pause", "Let its clock stand still."),
    "resume": (f"{_CHANGING}:resume", "Let its clock go on."),
    "acknowledge": (f"{_CHANGING}:acknowledge", "Silence its nagging, not its escalation."),
    "reassign": (f"{_CHANGING}:reassign", "Make other people responsible."),
}


@click.group(cls=LazyGroup, later=COMMANDS)
def deadlines() -> None:
    """Set deadlines, look at them, see them through.

    REF is a deadline's name or its id. A name is one of a team: say --team where it has one.
    """
