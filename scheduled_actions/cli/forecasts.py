"""`calendar`, `preview` and `simulate`: upcoming entries, the occurrences of a rule, and the load hour by hour."""

from datetime import UTC, datetime, timedelta
from typing import Any

import click

from scheduled_actions.cli.output import (
    as_document,
    local,
    one_line,
    print_page,
    print_table,
    printed_as_json,
    wants_json,
)
from scheduled_actions.cli.parameters import (
    WholeNumber,
    fold_skip,
    instant_option,
    json_option,
    last_local_instant_option,
    local_instant_option,
    page_options,
    skip_options,
    team_option,
)
from scheduled_actions.cli.project import Project, pass_project
from scheduled_actions.core.messages import counted
from scheduled_actions.operations.simulation.rules import SimulatedHour, Simulation
from scheduled_actions.recurrence.custom import NO_FUNCTIONS
from scheduled_actions.recurrence.preview import preview as preview_rule
from scheduled_actions.recurrence.skips.model import Skips

#: Maximum number of action types on one line.
_TYPES_MOST = 3
_REMARKS_MOST = 20
#: The latest instant that a day can be added to.
_LAST_DAY = datetime.max.replace(tzinfo=UTC) - timedelta(days=1)
#: Length of the longest bar in characters.
_BAR_WIDTH = 20


@click.command()
@local_instant_option("--from", "start", help="Start of the range. [default: now]")
@local_instant_option(
    "--to", "end", help="End of the range, exclusive; at most 366 days after the start. [default: 31 days]"
)
@click.option("--user", "user_id", metavar="USER", help="Only entries with this user id or recipient.")
@team_option
@page_options
@json_option
@pass_project
def calendar(project: Project, /, **filters: Any) -> None:  # noqa: ANN401 - of Calendar.page
    """List upcoming entries: pending actions, reminders, deadlines, and the occurrences of schedules.

    Times without an offset are local. Forecast entries are computed from the current rules of the schedules and are not
    stored yet. With --cursor, repeat the --from and --to of the previous page.
    """
    page = project.open().calendar.page(**filters)
    print_page(
        as_document(page) | {"entries": [as_document(one) | {"forecast": one.is_forecast} for one in page.entries]},
        page.entries,
        {
            "AT": lambda one: local(one.at),
            "KIND": lambda one: one.kind,
            "WHAT": lambda one: one.title,
            "STATUS": lambda one: one.status or "",
            "TEAM": lambda one: one.team_id or "",
            "ID": lambda one: str(one.id),
        },
        empty=f"no entries between {local(page.start)} and {local(page.end)}",
    )
    if page.truncated_schedules and not wants_json():
        click.echo(f"the forecast of {counted(len(page.truncated_schedules), 'schedule')} is incomplete", err=True)
    if page.next_cursor and not wants_json():
        click.echo(
            f"to get the next page, also give --from {page.start.isoformat()} --to {page.end.isoformat()}", err=True
        )


@click.command()
@click.argument("rule")
@click.option("--timezone", metavar="ZONE", help="IANA time zone of the rule. [default: UTC]")
@instant_option(
    "--from",
    "start",
    help="Start of the range and of intervals; without an offset, --timezone is required. [default: now]",
)
@click.option(
    "--count", type=WholeNumber(1, 1000), default=10, show_default=True, metavar="N", help="Number of occurrences."
)
@instant_option("--until", help="Time of the last possible occurrence; a day includes the whole day.")
@skip_options
@json_option
@pass_project
def preview(
    project: Project,
    /,
    rule: str,
    *,
    timezone: str | None,
    start: str | None,
    count: int,
    until: str | None,
    **skips: Any,  # noqa: ANN401 - of `skip_options`
) -> None:
    """Show the next occurrences of RULE, with the reason for each shift.

    RULE is an interval ("every 30 minutes", "daily", PT10M), a cron expression ("0 9 * * MON-FRI"), days of the week
    ("every weekday at 09:00"), an RRULE ("FREQ=MONTHLY;BYMONTHDAY=-1"), a business day ("last business day of the
    quarter at 09:00") or custom:NAME.
    """
    skip = fold_skip(skips) or {}
    found = preview_rule(
        rule,
        timezone=timezone,
        start=datetime.now(UTC).replace(microsecond=0) if start is None else start,
        count=count,
        skips=Skips.parse(skip),
        until=until,
        functions=project.registry.functions
        if rule.strip().startswith("custom:") or "function" in skip
        else NO_FUNCTIONS,
    )
    if printed_as_json(found):
        return
    occurrences = [(_local_text(one["at"]), one) for one in found["occurrences"]]
    width = max([len(text) for text, _ in occurrences], default=0)
    click.echo(f"{one_line(found['description'])}\n\n{'LOCAL TIME'.ljust(width)}  UTC")
    for text, one in occurrences:
        utc = datetime.fromisoformat(one["utc"]).replace(tzinfo=None).isoformat(" ")
        remarks = [f"    {one_line(remark)}" for remark in one.get("remarks", [])]
        click.echo("\n".join([f"{text.ljust(width)}  {utc}", *remarks]))
    if found["warnings"]:
        click.echo("\n".join(["", *(f"warning: {one_line(warning)}" for warning in found["warnings"])]))


def _local_text(text: str) -> str:
    at = datetime.fromisoformat(text)
    return f"{at:%a} {at.isoformat(' ')}"


@click.command()
@local_instant_option("--from", "start", help="Start of the range. [default: now]")
@last_local_instant_option(
    "--to",
    "end",
    help="End of the range, at most 92 days after the start; a day includes the whole day. [default: one day]",
)
@team_option
@click.option(
    "--concurrency",
    type=WholeNumber(1, 10_000),
    metavar="N",
    help="Total number of concurrent handlers in all pinged processes. [default: the setting concurrency]",
)
@json_option
@pass_project
def simulate(
    project: Project, *, start: datetime | None, end: datetime | None, team_id: str | None, concurrency: int | None
) -> None:
    """Forecast, hour by hour, the actions that will run if the schedules do not change.

    The forecast includes clock changes, holidays, maintenance windows and overlaps. It compares the load with the
    capacity of one ping a minute, using the recent duration of each type's handlers. Times are local to this machine.
    """
    end = min(start or datetime.now(UTC), _LAST_DAY) + timedelta(days=1) if end is None else end
    found = project.open_for_reading().simulator.simulate(start, end, team_id=team_id, concurrency=concurrency)
    if not printed_as_json(_simulation_document(found)):
        _print_simulation(found)


def _simulation_document(found: Simulation) -> dict[str, Any]:
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


def _print_simulation(found: Simulation) -> None:
    if not found.runs:
        click.echo("nothing will run: no schedule has an occurrence in this range, and no action is pending")
    else:
        busy = [hour for hour in found.hours if hour.runs or hour.overlapping]
        most = max(hour.runs.total() for hour in busy)
        print_table(("HOUR", "RUNS", "", "LOAD", "BEHIND", "TYPES"), [_row(hour, most) for hour in busy])
        click.echo(
            f"\n{counted(found.runs, 'action')}; one ping a minute can process {found.capacity.a_minute:g} "
            f"handler seconds a minute ({found.capacity.concurrency} at once)"
        )
        behind = max(found.hours, key=lambda hour: hour.behind_seconds)
        if behind.behind_seconds:
            click.echo(
                f"warning: at {_hour(behind)}, actions start as much as {behind.behind_seconds:,.0f} s late: spread "
                "the schedules (jitter), raise max_run_seconds or concurrency, or run more processes. To simulate more "
                "processes, give their total concurrency as --concurrency"
            )
    if found.is_capped:
        click.echo("warning: the forecast is incomplete: choose a shorter range or one team")
    remarks = [
        f"{at.astimezone():%Y-%m-%d %H:%M}  {one_line(series)}: {one_line(text)}"
        for at, series, text in found.remarks[:_REMARKS_MOST]
    ]
    if len(found.remarks) > _REMARKS_MOST:
        remarks.append(f"and {len(found.remarks) - _REMARKS_MOST:,} more; --json lists them")
    if remarks:
        click.echo("\n".join(["", *remarks]))


def _row(hour: SimulatedHour, most: int) -> tuple[str, ...]:
    runs = hour.runs.total()
    named = [f"{name} {count:,}" for name, count in hour.runs.most_common(_TYPES_MOST)]
    if len(hour.runs) > _TYPES_MOST:
        named.append("…")
    if hour.overlapping:
        named.append(f"{hour.overlapping:,} skipped (overlap)")
    return (
        _hour(hour),
        f"{runs:,}",
        "█" * max(1, round(runs / most * _BAR_WIDTH)) if runs else "",
        f"{hour.peak:.0%}",
        f"{hour.behind_seconds:,.0f} s" if hour.behind_seconds else "",
        ", ".join(named),
    )


def _hour(hour: SimulatedHour) -> str:
    return f"{hour.at.astimezone():%a %Y-%m-%d %H:%M %z}"
