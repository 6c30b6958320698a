"""`simulate`: what will run, hour by hour, and whether the ticks can carry it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from scheduled_actions.cli.output import counted, one_line, print_json, print_table
from scheduled_actions.cli.parameters import WholeNumber, as_json_option, last_instant, local_instant
from scheduled_actions.cli.project import Project, pass_project
from scheduled_actions.cli.schedules.output import open_to_read

if TYPE_CHECKING:
    from scheduled_actions.operations.simulation.rules import Hour, Remark, Simulation

#: Types named in one line, remarks printed, and the width of a full bar.
_TYPES_MOST = 3
_REMARKS_MOST = 20
_BAR = 20


@click.command()
@click.option("--from", "start", type=local_instant, metavar="ISO", help="From when on. [default: now]")
@click.option(
    "--to", "end", type=last_instant, metavar="ISO", help="Until when; a day counts whole. [default: a day later]"
)
@click.option("--team", "team_id", metavar="TEAM", help="Of this team only.")
@click.option(
    "--concurrency",
    type=WholeNumber(1, 10_000),
    metavar="N",
    help="Handlers at once, all processes that are pinged together. [default: those of one process]",
)
@as_json_option
@pass_project
def simulate(
    project: Project,
    *,
    start: datetime | None,
    end: datetime | None,
    team_id: str | None,
    concurrency: int | None,
    as_json: bool,
) -> None:
    """Show what will run, hour by hour, if the schedules stay as they are.

    Clock changes, holidays, maintenance windows and overlaps are seen to, and the load is held against what a ping a
    minute can carry: handlers take as long as those of their type took lately. Times are this machine's own.
    """
    runtime = open_to_read(project)
    end = (start or datetime.now(UTC)) + timedelta(days=1) if end is None else end.astimezone(UTC)
    found = runtime.simulator.simulate(start, end, team_id=team_id, concurrency=concurrency)
    if as_json:
        print_json(document_of(found))
        return
    _print(found)


def document_of(found: Simulation) -> dict[str, Any]:
    """Return a simulation as programs read it; instants in UTC, durations in seconds."""
    return {
        "from": found.start,
        "to": found.end,
        "runs": found.runs,
        "is_capped": found.is_capped,
        "capacity": {"concurrency": found.capacity.concurrency, "seconds_a_minute": found.capacity.a_minute},
        "hours": [
            {
                "at": hour.at,
                "runs": dict(hour.runs.most_common()),
                "overlapping": hour.overlapping,
                "seconds": round(hour.seconds, 3),
                "peak": round(hour.peak, 4),
                "behind_seconds": round(hour.behind_seconds, 1),
            }
            for hour in found.hours
        ],
        "remarks": [{"at": at, "series": series, "text": text} for at, series, text in found.remarks],
    }


def _print(found: Simulation) -> None:
    if not found.runs:
        click.echo("nothing will run: no active schedule has an occurrence in that time, and nothing waits")
    else:
        busy = [hour for hour in found.hours if hour.runs or hour.overlapping]
        most = max(hour.runs.total() for hour in busy)
        print_table(("HOUR", "RUNS", "", "LOAD", "BEHIND", "TYPES"), [_row(hour, most) for hour in busy])
        minutes = found.capacity.a_minute
        click.echo(
            f"\n{counted(found.runs, 'action')}; a ping a minute carries {minutes:g} handler seconds a minute "
            f"({found.capacity.concurrency} at once)"
        )
        behind = max(found.hours, key=lambda hour: hour.behind_seconds)
        if behind.behind_seconds:
            click.echo(
                f"warning: at {_hour(behind)} something starts {behind.behind_seconds:,.0f} s late: spread the "
                "schedules (jitter), raise max_run_seconds or concurrency, or ping more processes (--concurrency)"
            )
    if found.is_capped:
        click.echo("warning: there is more than was looked at: take a shorter time, or one team")
    _print_remarks(found.remarks)


def _row(hour: Hour, most: int) -> tuple[str, ...]:
    runs = hour.runs.total()
    named = [f"{name} {count:,}" for name, count in hour.runs.most_common(_TYPES_MOST)]
    if len(hour.runs) > _TYPES_MOST:
        named.append("…")
    if hour.overlapping:
        named.append(f"{hour.overlapping:,} left out (overlap)")
    behind = f"{hour.behind_seconds:,.0f} s" if hour.behind_seconds else ""
    bar = "█" * max(1, round(runs / most * _BAR)) if runs else ""
    return _hour(hour), f"{runs:,}", bar, f"{hour.peak:.0%}", behind, ", ".join(named)


def _hour(hour: Hour) -> str:
    return f"{hour.at.astimezone():%a %Y-%m-%d %H:%M %z}"


def _print_remarks(remarks: list[Remark]) -> None:
    if remarks:
        click.echo()
    for at, series, text in remarks[:_REMARKS_MOST]:
        click.echo(f"{at.astimezone():%Y-%m-%d %H:%M}  {one_line(series)}: {one_line(text)}")
    if len(remarks) > _REMARKS_MOST:
        click.echo(f"and {len(remarks) - _REMARKS_MOST:,} more: --json shows them")
