"""The commands that look at actions: `list`, `show`, `explain`, `counts`."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from scheduled_actions.cli.output import (
    as_document,
    coloured,
    local,
    one_line,
    print_fields,
    print_json,
    print_table,
    shown,
    table_lines,
)
from scheduled_actions.cli.parameters import WholeNumber, as_json_option, local_instant
from scheduled_actions.cli.project import Project, pass_project
from scheduled_actions.cli.signals import stopping_early
from scheduled_actions.core.action import Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduled_actions.actions.management_store import Lateness
    from scheduled_actions.core.action import Action

_WATCH_SECONDS = 2
#: What `show` tells of each action that the one shown has scheduled.
_OF_FOLLOW_UPS = ("id", "action_type", "status", "scheduled_at")
_NONE_YET = "no actions yet: `scheduled-actions schedule TYPE --payload '{}'` puts one in the table"


@click.command("list")
@click.option("--status", type=click.Choice([status.value for status in Status]), help="Where they stand.")
@click.option("--type", "action_type", metavar="TYPE", help="Exactly this action type.")
@click.option("--team", "team_id", metavar="TEAM", help="Of this team only.")
@click.option("--lock-group", metavar="GROUP", help="Of this lock group only.")
@click.option(
    "--from",
    "scheduled_from",
    type=local_instant,
    metavar="ISO",
    help="Scheduled then or later; local time unless it has an offset.",
)
@click.option("--to", "scheduled_to", type=local_instant, metavar="ISO", help="Scheduled before then.")
@click.option("--q", metavar="TEXT", help="Part of the type, dedup key or lock group, or the beginning of the id.")
@click.option("--limit", type=WholeNumber(1, 100), default=100, show_default=True, help="At most so many.")
@click.option("--cursor", metavar="ID", help="Go on after this one: next_cursor of the page before.")
@as_json_option
@pass_project
def list_(project: Project, /, *, limit: int, cursor: str | None, as_json: bool, **filters: Any) -> None:  # noqa: ANN401 - of list_actions
    """List the newest actions that match every filter given."""
    actions = project.open_without_handlers().scheduler.list_actions(**filters, limit=limit, cursor=cursor)
    next_cursor = actions.next_cursor
    if as_json:
        print_json({"actions": [as_document(action) for action in actions], "next_cursor": next_cursor})
        return
    if not actions and next_cursor:
        click.echo(f"no action matches among the newest; go on among the older ones with --cursor {next_cursor}")
        return
    if not actions:
        is_narrowed = cursor is not None or any(value is not None for value in filters.values())
        click.echo("no action matches" if is_narrowed else _NONE_YET)
        return
    print_table(
        ("ID", "TYPE", "STATUS", "SCHEDULED AT", "ATTEMPTS", "NOTE"),
        [
            (
                str(action.id),
                action.action_type,
                action.status,
                local(action.scheduled_at),
                _attempts(action),
                one_line(action.error_message or "", longest=60),
            )
            for action in actions
        ],
    )
    if next_cursor:
        click.echo(f"\nthere are more: --cursor {next_cursor}")


@click.command()
@click.argument("action_id", metavar="ID")
@as_json_option
@pass_project
def show(project: Project, action_id: str, *, as_json: bool) -> None:
    """Show the action ID: all its columns, what happened to it, and what it scheduled."""
    from scheduled_actions.operations.doctor import store as diagnosis  # noqa: PLC0415 - help needs no database driver

    runtime = project.open_without_handlers()
    action = runtime.scheduler.get_action(action_id)
    with runtime.database.connection() as connection:
        document = as_document(action) | diagnosis.internals(connection, action.id)
    follow_ups = project.open_management().scheduled_by(action.id, team_id=None)
    if as_json:
        told = [{name: getattr(one, name) for name in _OF_FOLLOW_UPS} for one in follow_ups.actions]
        print_json(document | {"scheduled": told, "scheduled_has_more": follow_ups.next_cursor is not None})
        return
    print_fields({name: shown(name, value) for name, value in document.items() if name != "history"})
    if action.history:
        click.echo("\nhistory")
        for entry in action.history:
            click.echo(f"  {one_line(_told(entry))}")
    if follow_ups.actions:
        click.echo("\nscheduled")
        for one in follow_ups.actions:
            click.echo(f"  {one.id}  {one_line(one.action_type)}  {one.status}")
        if follow_ups.next_cursor:
            click.echo("  and more before these")


@click.command()
@click.argument("action_id", metavar="ID")
@as_json_option
@pass_project
def explain(project: Project, action_id: str, *, as_json: bool) -> None:
    """Say why the action ID has not run: the one reason that holds it where it is, or how it ended.

    The settings and the registry of this project say what a tick would do.
    """
    from scheduled_actions.operations.explain import service as explaining  # noqa: PLC0415 - help needs no database driver

    found = explaining.explain(project.open_unbuilt(), action_id)
    if as_json:
        print_json({"id": action_id, **as_document(found)})
        return
    click.echo(f"{found.code}: {one_line(found.sentence)}")
    if found.remedy:
        click.echo(f"  {one_line(found.remedy)}")
    known = {name: shown("", value) for name, value in found.details.items()}
    if any(known.values()):
        click.echo()
        print_fields(known)


@click.command()
@click.option(
    "--watch",
    "every_seconds",
    is_flag=False,
    flag_value=_WATCH_SECONDS,
    type=click.FloatRange(0.1, 86400),
    metavar="[SECONDS]",
    help=f"Count again and again, every {_WATCH_SECONDS} seconds unless said, until Ctrl-C.",
)
@click.option("--exact", is_flag=True, help="Count to the end: reads the whole table.")
@click.option("--lateness", "with_lateness", is_flag=True, help="Say it with --json, too; people are told anyway.")
@as_json_option
@pass_project
def counts(project: Project, *, every_seconds: float | None, exact: bool, with_lateness: bool, as_json: bool) -> None:
    """Count actions by status; `due` are the pending ones whose time has come.

    Each is counted to 10,000, however many there are; what has more is shown as 10,000+, with --json under `capped`.
    Below stands how late the actions of each type started in the last hour, of the latest 5,000. On a terminal, --watch
    shows what has changed since the last look; with --json it prints a line each time.
    """
    management = project.open_management()

    def look() -> _Look:
        found = management.exact_counts() if exact else management.counts()
        return _Look(
            counts={status.value: number for status, number in found.by_status.items()} | {"due": found.due},
            capped=found.capped,
            late=management.lateness() if with_lateness or not as_json else [],
        )

    found = look()
    if every_seconds is None:
        if as_json:
            print_json(found.as_json(with_lateness=with_lateness))
        else:
            click.echo("\n".join(found.lines(None)) if any(found.counts.values()) else _NONE_YET)
        return
    is_over = threading.Event()
    with stopping_early(is_over.set):
        before = None
        while True:
            if as_json:
                print_json(found.as_json(with_lateness=with_lateness))
            else:
                _show_again(found, before)
            if is_over.wait(every_seconds):
                return
            before, found = found, look()


@dataclass(frozen=True, slots=True)
class _Look:
    """What one look at the counts found."""

    counts: Mapping[str, int]
    #: The counts that stopped at the bound.
    capped: Sequence[str]
    late: Sequence[Lateness]

    def as_json(self, *, with_lateness: bool) -> dict[str, Any]:
        told: dict[str, Any] = dict(self.counts)
        if self.capped:
            told["capped"] = self.capped
        if with_lateness:
            told["lateness"] = {one.action_type: {"measured": one.number, **_of_seconds(one)} for one in self.late}
        return told

    def lines(self, before: _Look | None) -> list[str]:
        """Return a line for each count, with how much it is more or less than before, and how late actions started."""
        width = max(map(len, self.counts))
        lines = []
        for name, count in self.counts.items():
            more = count - before.counts[name] if before else 0
            label = coloured(name) if count else name
            shown_count = f"{count:,}{'+' if name in self.capped else ''}"
            lines.append(f"{label}{' ' * (width - len(name))}  {shown_count:>10}{f'  {more:+,}' if more else ''}")
        if self.late:
            lines += ["", "seconds from due to start, in the last hour"]
            lines += table_lines(
                ("TYPE", "ACTIONS", "MEDIAN", "95 %", "LATEST"),
                [
                    (one.action_type, f"{one.number:,}", *(f"{value:.2f}" for value in _of_seconds(one).values()))
                    for one in self.late
                ],
            )
        return lines


def _of_seconds(one: Lateness) -> dict[str, float]:
    return {"p50_seconds": one.p50_seconds, "p95_seconds": one.p95_seconds, "max_seconds": one.max_seconds}


def _show_again(found: _Look, before: _Look | None) -> None:
    """Print the counts once more: in the place of the last ones, where that is a terminal."""
    if sys.stdout.isatty():
        click.clear()
    click.echo("\n".join([local(datetime.now(UTC)), *found.lines(before), ""]))


def _attempts(action: Action) -> str:
    return str(action.attempts) if action.max_attempts is None else f"{action.attempts} of {action.max_attempts}"


def _told(entry: Mapping[str, Any]) -> str:
    """Return an entry of the history in one line; one written by other hands may lack anything."""
    began = entry.get("started_at") or entry.get("at") or entry.get("ended_at")
    what = str(entry.get("outcome", "?"))
    if "attempt" in entry:
        what = f"attempt {entry['attempt']} {what}"
    if "count" in entry:
        what = f"{what} {entry['count']} times until {_local_text(entry.get('ended_at'))}"
    if "changes" in entry:
        what = f"{what} {', '.join(map(str, entry['changes']))}"
    if entry.get("by"):
        what = f"{what} by {entry['by']}"
    because = entry.get("error") or entry.get("reason")
    return f"{_local_text(began)}  {what}{f': {because}' if because else ''}"


def _local_text(text: object) -> str:
    try:
        return local(datetime.fromisoformat(str(text)))
    except ValueError:
        return str(text or "")
