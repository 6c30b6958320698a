"""`migrate`, `process`, `listen`, `doctor` and `registry`: keep an installation running."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import click

from scheduled_actions.cli.group import Failure
from scheduled_actions.cli.output import answer, one_line, printed_as_json, stopping_early, wants_json
from scheduled_actions.cli.parameters import json_option
from scheduled_actions.cli.project import Project, caller, handlers_aside, pass_project
from scheduled_actions.core.errors import ConfigInvalid, NotConfigured
from scheduled_actions.core.messages import counted, listed
from scheduled_actions.operations.doctor.rules import Level, project as project_rules, worst

if TYPE_CHECKING:
    from scheduled_actions.executors.model import ExecutorChange
    from scheduled_actions.ticks.report import TickReport

# Imports are inside functions, so that help needs no database driver.
# ruff: noqa: PLC0415

_COLOURS = {Level.OK: "green", Level.WARNING: "yellow", Level.FAULT: "red"}
#: Maximum number of types that `migrate` shows of one executor.
_MAX_TYPES = 6
#: Each tick of a listener lingers this long; then maintenance runs, as with a ping.
_LINGER_SECONDS = 60.0


@click.command()
@click.option(
    "--grant-scheduler",
    "schedulers",
    metavar="ROLE",
    multiple=True,
    help="Let a database role schedule actions, emit events and report facts.",
)
@click.option(
    "--grant-reader",
    "readers",
    metavar="ROLE",
    multiple=True,
    help="Let a database role read actions, schedules, deadlines, facts and deliveries.",
)
@click.option("--team", "team_id", metavar="TEAM", help="Restrict these roles to this team.")
@json_option
@pass_project
def migrate(project: Project, *, schedulers: tuple[str, ...], readers: tuple[str, ...], team_id: str | None) -> None:
    """Create or update the database's tables, and store the settings that the SQL functions read.

    Repeating the command changes nothing. The code of the previous release works with the new tables.
    """
    from scheduled_actions.database import grants, migrate as migrations
    from scheduled_actions.database.bounded import UNLIMITED
    from scheduled_actions.executors.store import write_executors

    if team_id is not None and not (schedulers or readers):
        raise click.UsageError("--team requires --grant-scheduler or --grant-reader")
    with project.open_without_handlers().database.connection(UNLIMITED) as connection:
        applied = migrations.migrate(connection, report=lambda name: click.echo(f"applying {name}", err=wants_json()))
        runtime = project.open()
        changes = write_executors(connection, runtime.config.settings.executors, replace=True)
        runtime.maintenance.first_tick(connection)
        granted = [
            grants.grant(connection, kind, role, team_id=team_id)
            for kind, roles in ((grants.RoleKind.SCHEDULER, schedulers), (grants.RoleKind.READER, readers))
            for role in roles
        ]
    lines = [f"{_counted_kinds(applied)} applied"] if applied else []
    lines += [one_line(_change_line(one)) for one in changes]
    lines += [
        one_line(
            f"role {one.role}: {one.kind}{'' if one.team_id is None else f' of team {one.team_id}'} through schema "
            f"{one.schema}"
        )
        for one in granted
    ]
    document: dict[str, object] = {"applied": applied}
    if changes:
        document["executors"] = [one._asdict() for one in changes]
    if granted:
        document["granted"] = [asdict(one) for one in granted]
    answer(document, "\n".join(lines or ["nothing to do"]))


def _change_line(change: ExecutorChange) -> str:
    before, after = (listed(one, most=_MAX_TYPES) for one in (change.before, change.after))
    if not before:
        return f"executor {change.name} added ({after})"
    if not after:
        return f"executor {change.name} removed ({before})"
    return f"executor {change.name} changed ({before} → {after})"


def _counted_kinds(applied: list[str]) -> str:
    """Return the numbers of migrations, functions and indexes."""
    indexes = sum(name.startswith("index ") for name in applied)
    functions = sum(name.startswith("function ") for name in applied)
    counts = {"migration": len(applied) - functions - indexes, "function": functions, "index change": indexes}
    return " and ".join(counted(count, kind) for kind, count in counts.items() if count)


@click.command()
@click.option("--linger", is_flag=True, help="Wait for more work for linger_seconds, as a ping does.")
@json_option
@pass_project
def process(project: Project, *, linger: bool) -> None:
    """Run one tick in this process: claim due actions, run their handlers, store the outcomes.

    The exit code is 0 if the tick ran, even if actions failed. The output of handlers goes to standard error. Ctrl-C or
    SIGTERM ends the tick after the running handlers; a second signal ends the process immediately.
    """
    processor = project.open().processor
    with stopping_early(processor.stop), handlers_aside():
        report = processor.tick(caller=caller(), lingers=linger)
    click.echo(report.as_text() if wants_json() else summary(report))


def summary(report: TickReport) -> str:
    """Return the counts of a report as text."""
    if not report.enabled:
        return "nothing was processed: the setting enabled is false"
    left = f"{counted(report.remaining, 'due action')} left" if report.more else "no due actions left"
    return "\n".join([f"{processed(report)} in {report.duration_ms} ms; {left}", *_error_lines(report)])


def processed(report: TickReport) -> str:
    """Return how many actions a report counts, and their outcomes."""
    parts = [
        f"{getattr(report, name)} {name}"
        for name in ("succeeded", "failed", "retried", "snoozed", "skipped", "rescued", "pruned")
        if getattr(report, name)
    ]
    return f"processed {counted(report.processed, 'action')}" + (f" ({', '.join(parts)})" if parts else "")


def _error_lines(report: TickReport) -> list[str]:
    return [
        one_line(f"  {one['action_id'] or ''} {one['action_type'] or 'tick'}: {one['error']}") for one in report.errors
    ]


@click.command()
@click.option("--ping", is_flag=True, help="Run no actions here; ping the setting `url` when an action becomes due.")
@pass_project
def listen(project: Project, *, ping: bool) -> None:
    """Run each action as soon as it is due, until stopped; LISTEN and NOTIFY announce new actions.

    Use the listener on a server that can run a long-lived process. It replaces the external cron, or runs in addition
    to it; a second listener is a standby. Behind a transaction-mode pooler, the listener polls every second. On Ctrl-C
    or SIGTERM, the listener lets running handlers finish.
    """
    from scheduled_actions.ticks.wake import Listener

    runtime = project.open_without_handlers() if ping else project.open()
    listener = Listener(runtime.database, report=lambda line: click.echo(one_line(line)))
    if ping:
        if not runtime.wake.is_on:
            raise NotConfigured(
                "url or CRON_SECRET",
                "listen --ping needs a URL, and a secret of at least 16 characters",
                problem="is missing or too short",
            )
        with stopping_early(listener.stop):
            listener.ping(runtime.wake)
        return
    settings = runtime.config.settings
    longest = max(settings.default_timeout_seconds, settings.max_duration_seconds)
    runtime.config = replace(
        runtime.config,
        settings=replace(settings, linger_seconds=_LINGER_SECONDS, max_duration_seconds=_LINGER_SECONDS + longest),
    )
    processor = runtime.processor

    def stop() -> None:
        listener.stop()
        processor.stop()

    with stopping_early(stop):
        listener.process(processor, on_report=print_report)


def print_report(report: TickReport) -> None:
    """Print the counts of a report, if anything was processed, and its errors."""
    if report.processed:
        click.echo(f"{report.processed} processed, {report.succeeded} succeeded")
    for line in _error_lines(report):
        click.echo(line)


@click.command()
@json_option
@click.pass_context
@pass_project
def doctor(project: Project, context: click.Context) -> None:
    """Check settings, secrets, endpoints, registry, handlers, database, clocks and ticks, and suggest fixes.

    The exit code is 1 if there is a fault; otherwise 0, even with warnings.
    """
    from scheduled_actions.operations.doctor import service

    with handlers_aside():
        try:
            checks = service.diagnose(project.open_unbuilt())
        except ConfigInvalid as error:
            checks = [project_rules.settings(str(error)), service.registry(project.directory)]
    level = worst(checks)
    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        severity = click.style(f"{check.level.value:<7}", fg=_COLOURS[check.level])
        lines.append(f"{severity}  {check.name.ljust(width)}  {one_line(check.detail)}")
        if check.remedy:
            lines.append(f"{' ' * (width + 11)}{one_line(check.remedy)}")
    faults, warnings = (sum(check.level is one for check in checks) for one in (Level.FAULT, Level.WARNING))
    lines.append(f"\n{counted(faults, 'fault')}, {counted(warnings, 'warning')}")
    answer({"status": level.value, "checks": [check.as_json() for check in checks]}, "\n".join(lines))
    context.exit(int(level is Level.FAULT))


@click.group()
def registry() -> None:
    """Build or check handlers/_registry.py, which is generated from the handlers' source; no handler code runs."""


@registry.command(short_help="Write the registry if its content changes.")
@pass_project
def build(project: Project) -> None:
    """Write handlers/_registry.py if its content changes; run this after changing a declaration such as @action."""
    from scheduled_actions.operations import registry_build

    click.echo(registry_build.write(project.directory).summary)


@registry.command(short_help="Check that the registry is up to date.")
@json_option
@pass_project
def check(project: Project) -> None:
    """Check the registry without writing it; the exit code is 1 if it is missing or stale, or a handler is invalid.

    A handler is also invalid if one of its limit keys matches no pattern of the settings.
    """
    from scheduled_actions.operations import registry_build
    from scheduled_actions.registry import limit_keys

    found = registry_build.build(project.directory)
    is_json = printed_as_json({"is_fresh": found.is_fresh, "action_types": sorted(found.handlers)})
    if not found.is_fresh:
        state = "is stale" if found.path.exists() else "is missing"
        raise Failure(f"{found.path.relative_to(project.directory)} {state}: run `scheduled-actions registry build`")
    if any("limit" in given for given in found.options.values()):
        for action_type, limit in limit_keys.unmatched(found.options, project.config.settings.limits).items():
            raise Failure(
                f'{found.handlers[action_type]}: the limit "{limit}" of "{action_type}" matches no pattern of '
                "[limits]: add one to scheduled_actions.toml, or correct the limit"
            )
    if not is_json:
        click.echo(f"up to date: {counted(len(found.handlers), 'action type')}")
