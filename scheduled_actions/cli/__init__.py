"""Command line: `scheduled-actions`, and the same commands as `flask scheduled-actions`."""

import os
from pathlib import Path

import click

from scheduled_actions.cli.group import LazyGroup
from scheduled_actions.core.version import VERSION

__all__ = ["flask_group", "main"]

#: The environment variable with the project directory, used without `--project`.
PROJECT = "SCHEDULED_ACTIONS_PROJECT"

#: The commands by name: the location of each, and its line in the list of commands.
COMMANDS = {
    "init": ("scheduled_actions.cli.local:init", "Create a new project."),
    "dev": ("scheduled_actions.cli.local:dev", "Serve the project on this machine, and ping it every minute."),
    "demo": ("scheduled_actions.cli.local:demo", "Run an end-to-end example, then exit."),
    "migrate": ("scheduled_actions.cli.operating:migrate", "Create or update the database's tables."),
    "process": ("scheduled_actions.cli.operating:process", "Run one tick in this process."),
    "listen": ("scheduled_actions.cli.operating:listen", "Run each action as soon as it is due, until stopped."),
    "schedule": ("scheduled_actions.cli.actions:schedule", "Schedule an action."),
    "explain": ("scheduled_actions.cli.counts:explain", "Explain why an action has not run, or how it ended."),
    "counts": ("scheduled_actions.cli.counts:counts", "Count actions by status."),
    "calendar": ("scheduled_actions.cli.forecasts:calendar", "List upcoming actions, reminders and deadlines."),
    "preview": ("scheduled_actions.cli.forecasts:preview", "Show the next occurrences of a rule."),
    "simulate": ("scheduled_actions.cli.forecasts:simulate", "Forecast the load, hour by hour."),
    "doctor": ("scheduled_actions.cli.operating:doctor", "Check the installation and suggest fixes."),
    "cron-setup": ("scheduled_actions.cli.cron_setup:cron_setup", "Print the configuration of a cron service."),
    "psql": ("scheduled_actions.cli.local:psql", "Open the project's database in psql."),
    "completion": ("scheduled_actions.cli.local:completion", "Print the completion script for a shell."),
    "actions": ("scheduled_actions.cli.actions:actions", "List, change, cancel and retry actions."),
    "schedules": ("scheduled_actions.cli.schedules:schedules", "Manage recurring actions."),
    "pauses": ("scheduled_actions.cli.limits.pauses:pauses", "Pause and resume actions."),
    "deadlines": ("scheduled_actions.cli.deadlines:deadlines", "Manage deadlines."),
    "people": ("scheduled_actions.cli.people:people", "Notify people, or schedule actions at their local time."),
    "mail": ("scheduled_actions.cli.mail:mail", "Preview the templates of mails."),
    "facts": ("scheduled_actions.cli.reports:facts", "Record facts about entities, for conditions to test."),
    "limits": ("scheduled_actions.cli.counts:limits", "List limit keys and their queues."),
    "executors": (
        "scheduled_actions.cli.executors.commands:executors",
        "Run action types on workers instead of in ticks.",
    ),
    "events": ("scheduled_actions.cli.reports:events", "Emit events, once or for every change to a table."),
    "webhooks": ("scheduled_actions.cli.webhooks:webhooks", "Manage webhook endpoints and deliveries."),
    "tokens": ("scheduled_actions.cli.tokens:tokens", "Manage API tokens."),
    "feeds": ("scheduled_actions.cli.tokens:feeds", "Manage calendar feeds."),
    "registry": ("scheduled_actions.cli.operating:registry", "Build or check the registry of handlers."),
}


@click.group(
    "scheduled-actions",
    cls=LazyGroup,
    lazy_commands=COMMANDS,
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
    """Schedule actions, run them, and see their results.

    Settings come from the project's scheduled_actions.toml, secrets from the environment or the
    project's .env.
    """
    context.obj = project
    if os.environ.get("NO_COLOR"):
        context.color = False
    if project is not None:
        # Child processes read the variable, too.
        before = os.environ.get(PROJECT)
        os.environ[PROJECT] = str(project.absolute())
        context.call_on_close(
            lambda: os.environ.pop(PROJECT) if before is None else os.environ.update({PROJECT: before})
        )


#: The entry point of `flask scheduled-actions`.
flask_group = main
