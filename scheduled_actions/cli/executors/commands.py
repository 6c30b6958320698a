"""`executors`: run and list the workers of executors."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial

import click

from scheduled_actions.cli.group import Failure
from scheduled_actions.cli.operating import print_report, processed, summary
from scheduled_actions.cli.output import local, one_line, print_page, print_table, stopping_early, wants_json
from scheduled_actions.cli.parameters import WholeNumber, json_option
from scheduled_actions.cli.project import Project, handlers_aside, pass_project
from scheduled_actions.core.messages import counted, did_you_mean, listed

# Imports are inside functions, so that help needs no database driver.
# ruff: noqa: PLC0415

#: Maximum number of types that is shown of one executor.
_MAX_TYPES = 6


@click.group()
def executors() -> None:
    """Run action types on workers instead of in ticks."""


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
@click.option("--once", is_flag=True, help="Run the due actions, then end.")
@pass_project
def work(project: Project, *, name: str, concurrency: int | None, grace: int, once: bool) -> None:
    """Run the actions of the executor NAME in this process, until stopped.

    Any number of workers can run on any machines with the project and DATABASE_URL; with carrier = "sqs", they also
    need access to the queue. On Ctrl-C or SIGTERM, the worker
    starts nothing more, lets running handlers finish within the grace period, and releases the rest; a second signal
    ends the process immediately.
    """
    from scheduled_actions.executors.takeover import name_of_process
    from scheduled_actions.executors.worker import WorkerOptions
    from scheduled_actions.ticks.wake import Listener

    runtime = project.open()
    workers, settings = runtime.executors, runtime.config.settings
    workers.check_carrier(name, "postgres", "sqs")
    if not settings.enabled:
        raise Failure("the setting enabled is false, so that no action runs")
    # A worker waits for a database that is away, but not for a missing address.
    runtime.find_dsn()
    types = settings.executors[name].types
    _warn_of_missing_handlers(name, types, runtime.registry.types)
    on_stop = partial(_print_stop, grace)
    if once:
        started = time.monotonic()
        with stopping_early(workers.stop), handlers_aside(), _broker_errors():
            options = WorkerOptions(until_idle=True, grace_seconds=grace, on_stop=on_stop)
            report = workers.work(name, options, concurrency=concurrency)
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
        grace_seconds=grace,
        on_outage=lambda line: click.echo(one_line(line)),
        on_report=print_report,
        on_stop=on_stop,
    )
    with stopping_early(stop):
        number = counted(settings.concurrency if concurrency is None else concurrency, "handler")
        subject = f"worker of {name} ({listed(types, most=_MAX_TYPES)})"
        click.echo(one_line(f"{subject}: {number} at once, {name_of_process()}; press Ctrl-C to stop"))
        if not settings.executors[name].has_broker:
            listener.receive(lambda: workers.notify(name))
        report = workers.work(name, options, concurrency=concurrency)
    click.echo(f"stopped: {processed(report)}")


@contextmanager
def _broker_errors() -> Iterator[None]:
    """Convert an error of the broker to a failure of the command.

    Raises:
        Failure: The broker cannot be reached, or is not configured.
    """
    from scheduled_actions.executors.carriers import CarrierUnavailable

    try:
        yield
    except CarrierUnavailable as error:
        raise Failure(str(error)) from error


def _warn_of_missing_handlers(name: str, types: Collection[str], known: Collection[str]) -> None:
    """Print a warning for each type or prefix of an executor that no handler matches."""
    from scheduled_actions.executors.model import is_of_types

    prefixes = {f"{one.partition(':')[0]}:*" for one in known}
    for pattern in types:
        if not any(is_of_types(one, [pattern]) for one in known):
            otherwise = "write one, then run `scheduled-actions registry build`"
            hint = did_you_mean(pattern, sorted(prefixes if pattern.endswith("*") else known), otherwise=otherwise)
            warning = f'warning: no handler of this build matches "{pattern}" of executors.{name}; {hint}'
            click.echo(one_line(warning), err=True)


def _print_stop(grace: int, running: int) -> None:
    if not running:
        click.echo("stopping")
        return
    has = "1 handler has" if running == 1 else f"{running} handlers have"
    click.echo(
        f"stopping: {has} up to {grace} s to end; a second Ctrl-C ends the process at once, and their actions return "
        "when their leases end"
    )


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
            "TYPES": lambda one: one_line(listed(one.types, most=_MAX_TYPES), longest=60) or "removed",
            "DUE": lambda one: f"{one.due:,}",
            "LIMITED": lambda one: f"{one.queued:,}",
            "UNTAKEN": lambda one: f"{one.untaken:,}",
            "RUNNING": lambda one: f"{one.running:,}",
            "WORKERS": lambda one: f"{one.workers:,}",
            "LAST TAKEN": lambda one: local(one.last_taken_at) or "never",
        },
        empty="no executors: add [executors.NAME] with types to scheduled_actions.toml, then run "
        "`scheduled-actions migrate`",
    )
    workers = [
        (one.name, executor.name, local(one.started_at), local(one.seen_at), f"{one.running} of {one.concurrency}")
        for executor in found
        for one in executor.seen_workers
    ]
    if workers and not wants_json():
        click.echo()
        print_table(("WORKER", "EXECUTOR", "STARTED", "LAST SEEN", "RUNNING"), workers)
