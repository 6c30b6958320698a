"""`executors`: run and list the workers of executors."""

from __future__ import annotations

import time
from dataclasses import asdict

import click

from scheduled_actions.cli.group import Failure
from scheduled_actions.cli.operating import print_report, summary
from scheduled_actions.cli.output import local, one_line, print_page, stopping_early
from scheduled_actions.cli.parameters import WholeNumber, json_option
from scheduled_actions.cli.project import Project, handlers_aside, pass_project
from scheduled_actions.core.messages import listed

# Imports are inside functions, so that help needs no database driver.
# ruff: noqa: PLC0415

#: Maximum number of types that the list shows of one executor.
_MAX_TYPES = 6


@click.group()
def executors() -> None:
    """Run and list workers of executors, which run some action types on other machines."""


@executors.command(short_help="Run the actions of an executor, until stopped.")
@click.argument("name")
@click.option(
    "--concurrency",
    type=WholeNumber(1, 256),
    metavar="N",
    help="Number of actions to run at the same time. [default: the setting concurrency]",
)
@click.option(
    "--grace",
    type=WholeNumber(0, 86400),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="How long running handlers may go on after a signal.",
)
@click.option("--once", is_flag=True, help="End when no action is due.")
@pass_project
def work(project: Project, *, name: str, concurrency: int | None, grace: int, once: bool) -> None:
    """Run the actions of the executor NAME in this process, until stopped.

    Any number of workers can run on any machines with the project and DATABASE_URL. On Ctrl-C or SIGTERM, the worker
    starts nothing more, lets running handlers finish within the grace period, and releases the rest; a second signal
    ends the process immediately.
    """
    from scheduled_actions.executors.worker import WorkerOptions
    from scheduled_actions.ticks.wake import Listener

    runtime = project.open()
    workers = runtime.executors
    workers.check_name(name)
    if not runtime.config.settings.enabled:
        raise Failure("the setting enabled is false, so that no action runs")
    if once:
        started = time.monotonic()
        with stopping_early(workers.stop), handlers_aside():
            report = workers.work(name, WorkerOptions(until_idle=True, grace_seconds=grace), concurrency=concurrency)
            report.remaining = sum(one.due for one in workers.find(name))
            report.more = report.remaining > 0
        report.duration_ms = round((time.monotonic() - started) * 1000)
        click.echo(summary(report))
        return
    listener = Listener(runtime.database, report=lambda line: click.echo(one_line(line)))

    def stop() -> None:
        listener.stop()
        workers.stop()

    options = WorkerOptions(
        grace_seconds=grace, on_outage=lambda line: click.echo(one_line(line)), on_report=print_report
    )
    with stopping_early(stop):
        listener.receive(lambda: workers.notify(name))
        workers.work(name, options, concurrency=concurrency)


@executors.command("list", short_help="List the executors and their workers.")
@json_option
@pass_project
def list_executors(project: Project) -> None:
    """List the executors in the database: their types, due and running actions, and the workers seen lately."""
    found = project.open_without_handlers().executors.find()
    print_page(
        {"executors": [asdict(one) for one in found]},
        found,
        {
            "NAME": lambda one: one.name,
            "TYPES": lambda one: one_line(listed(one.types, most=_MAX_TYPES), longest=60),
            "DUE": lambda one: f"{one.due:,}",
            "QUEUED": lambda one: f"{one.queued:,}",
            "RUNNING": lambda one: f"{one.running:,}",
            "WORKERS": lambda one: f"{one.workers:,}",
            "LAST TAKEN": lambda one: local(one.last_taken_at) or "never",
        },
        empty="no executors: add [executors.NAME] with types to scheduled_actions.toml, then run "
        "`scheduled-actions migrate`",
    )
