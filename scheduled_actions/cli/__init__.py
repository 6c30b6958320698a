"""CLI: `scheduled-actions`, and the same commands as `flask scheduled-actions`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from scheduled_actions.cli.group import LazyGroup
from scheduled_actions.cli.project import Project
from scheduled_actions.core.version import VERSION

__all__ = ["flask_group", "main"]

#: Names the project directory where no option does.
PROJECT = "SCHEDULED_ACTIONS_PROJECT"

#: Every command: where it is, and its line in the list. A module is imported when one of its commands is used.
COMMANDS = {
    "init": ("scheduled_actions.cli.local.init:init", "Write a new project."),
    "dev": ("scheduled_actions.cli.local.dev:dev", "Serve the project on this machine, with a minute cron."),
    "demo": ("scheduled_actions.cli.local.demo:demo", "Show the whole story on real input, then end."),
    "migrate": (
        "scheduled_actions.cli.operations.operating:migrate",
        "Bring the database's tables up to this version.",
    ),
    "psql": ("scheduled_actions.cli.local.psql:psql", "Open the project's database in psql."),
    "process": ("scheduled_actions.cli.operations.operating:process", "Run one tick in this process."),
    "schedule": ("scheduled_actions.cli.actions.changing:schedule", "Schedule an action."),
    "list": ("scheduled_actions.cli.actions.reading:list_", "List actions, the newest first."),
    "show": ("scheduled_actions.cli.actions.reading:show", "Show one action with its history."),
    "explain": ("scheduled_actions.cli.actions.reading:explain", "Say why an action has not run, or how it ended."),
    "update": ("scheduled_actions.cli.actions.changing:update", "Change a pending action."),
    "cancel": ("scheduled_actions.cli.actions.changing:cancel", "Cancel a waiting action."),
    "retry": (
        "scheduled_actions.cli.actions.changing:retry",
        "Make a failed, cancelled or skipped action pending again.",
    ),
    "run-now": ("scheduled_actions.cli.actions.changing:run_now", "Make a pending action due."),
    "bulk": ("scheduled_actions.cli.actions.bulk:bulk", "Retry or cancel all actions that match."),
    "counts": ("scheduled_actions.cli.actions.reading:counts", "Count actions by status, and those that are due."),
    "schedule-local": (
        "scheduled_actions.cli.people:schedule_local",
        "Schedule at a time of day on each user's clock.",
    ),
    "notify": ("scheduled_actions.cli.people:notify", "Tell people something."),
    "calendar": ("scheduled_actions.cli.calendar:calendar", "Show what is to come, in one order."),
    "schedules": ("scheduled_actions.cli.schedules:schedules", "Look at recurring actions, make and operate them."),
    "facts": ("scheduled_actions.cli.facts:facts", "Say what is so of a thing, for conditions, and look at it."),
    "deadlines": ("scheduled_actions.cli.deadlines:deadlines", "Set deadlines, look at them, see them through."),
    "events": ("scheduled_actions.cli.events:events", "Emit events, and let a table's own triggers emit them."),
    "webhooks": ("scheduled_actions.cli.webhooks:webhooks", "See to endpoints and deliveries, and try a receiver."),
    "listen": ("scheduled_actions.cli.operations.listen:listen", "Stay, and run each action at its instant."),
    "registry": ("scheduled_actions.cli.registry:registry", "Build or check the registry of handlers."),
    "preview": ("scheduled_actions.cli.schedules.preview:preview", "Show the next occurrences of a rule."),
    "simulate": ("scheduled_actions.cli.schedules.simulate:simulate", "Show what will run, hour by hour."),
    "cron-setup": (
        "scheduled_actions.cli.operations.cron_setup:cron_setup",
        "Print what to paste, so that something pings once a minute.",
    ),
    "completion": ("scheduled_actions.cli.local.completion:completion", "Print what completes commands in your shell."),
    "feeds": ("scheduled_actions.cli.feeds:feeds", "Make, list and revoke calendar feeds."),
    "token": ("scheduled_actions.cli.tokens:tokens", "Make, list and revoke tokens of the management API."),
    "doctor": ("scheduled_actions.cli.operations.doctor:doctor", "Check the installation and say what to do."),
}


@click.group(
    "scheduled-actions",
    cls=LazyGroup,
    later=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--project",
    type=click.Path(path_type=Path),
    metavar="DIR",
    envvar=PROJECT,
    help="The project directory. [default: $SCHEDULED_ACTIONS_PROJECT, or the working directory]",
)
@click.version_option(VERSION, prog_name="scheduled-actions", message="%(prog)s %(version)s")
@click.pass_context
def main(context: click.Context, project: Path | None) -> None:
    """Run code at a time, durably: schedule actions, process them, see what became of them.

    Settings come from the project's scheduled_actions.toml, secrets from the environment or from its .env.
    """
    context.obj = Project(project)
    if os.environ.get("NO_COLOR"):
        context.color = False
    if project is not None:
        # The process's own from here on: for the programs it starts, too.
        before = os.environ.get(PROJECT)
        os.environ[PROJECT] = str(project.absolute())
        context.call_on_close(
            lambda: os.environ.pop(PROJECT) if before is None else os.environ.update({PROJECT: before})
        )


#: What `flask scheduled-actions` finds.
flask_group = main
