"""`preview`: the next occurrences of a rule, before anything relies on it; needs a project for its functions alone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from scheduled_actions.cli.output import one_line, print_json
from scheduled_actions.cli.parameters import WholeNumber, as_json_option, instant, last_instant, skip_options
from scheduled_actions.cli.project import Project, pass_project

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_COUNT_MOST = 1000


@click.command()
@click.argument("rule")
@click.option("--timezone", default="UTC", show_default=True, metavar="ZONE", help="IANA zone whose clock it follows.")
@click.option(
    "--from",
    "start",
    type=instant,
    metavar="ISO",
    help="Show what comes after; intervals count from it. Local to the zone unless it has an offset. [default: now]",
)
@click.option("--count", type=WholeNumber(1, _COUNT_MOST), default=10, show_default=True, metavar="N", help="How many.")
@click.option("--until", type=last_instant, metavar="ISO", help="The last instant that may be one; a day counts whole.")
@skip_options
@as_json_option
@pass_project
def preview(
    project: Project,
    rule: str,
    *,
    timezone: str,
    start: datetime | None,
    count: int,
    until: datetime | None,
    skip: Mapping[str, Any] | None,
    as_json: bool,
) -> None:
    """Show the next occurrences of RULE, and why they are where they are.

    RULE is an interval ("every 30 minutes", "daily", PT10M), a cron expression ("0 9 * * MON-FRI"), an RRULE
    ("FREQ=MONTHLY;BYMONTHDAY=-1"), or a business day ("last business day of the quarter at 09:00").
    """
    from scheduled_actions.recurrence import Skips  # noqa: PLC0415 - help needs no rules
    from scheduled_actions.recurrence.custom import NO_FUNCTIONS  # noqa: PLC0415 - as above
    from scheduled_actions.recurrence.preview import preview as previewed  # noqa: PLC0415 - as above

    names_a_function = rule.strip().startswith("custom:") or "function" in (skip or {})
    found = previewed(
        rule,
        timezone=timezone,
        start=datetime.now(UTC).replace(microsecond=0) if start is None else start,
        count=count,
        skips=Skips.parse(skip or {}),
        until=until,
        functions=project.registry.functions if names_a_function else NO_FUNCTIONS,
    )
    if as_json:
        print_json(found)
        return
    click.echo(one_line(found["description"]))
    click.echo()
    _print_occurrences(found["occurrences"])
    if found["warnings"]:
        click.echo()
    for warning in found["warnings"]:
        click.echo(f"warning: {one_line(warning)}")


def _print_occurrences(occurrences: Sequence[dict[str, Any]]) -> None:
    """Print a line for each, in local time and in UTC, and below it what was done to it."""
    shown = [(_local(one["at"]), _in_utc(one["utc"]), one.get("remarks", [])) for one in occurrences]
    width = max([len(local) for local, _, _ in shown], default=0)
    click.echo(f"{'LOCAL TIME'.ljust(width)}  UTC")
    for local, utc, remarks in shown:
        click.echo(f"{local.ljust(width)}  {utc}")
        for remark in remarks:
            click.echo(f"    {one_line(remark)}")


def _local(text: str) -> str:
    at = datetime.fromisoformat(text)
    return f"{at:%a} {at.isoformat(' ')}"


def _in_utc(text: str) -> str:
    return datetime.fromisoformat(text).replace(tzinfo=None).isoformat(" ")
