"""`preview`: the next occurrences of a rule, before anything relies on it; needs no project and no database."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time
from typing import TYPE_CHECKING, Any

import click

from scheduled_actions.cli.output import one_line, print_json
from scheduled_actions.cli.parameters import as_json_option, instant

if TYPE_CHECKING:
    from collections.abc import Sequence

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_COUNT_MOST = 1000


def _until(text: str) -> datetime:
    """Return the instant; a day alone counts until its end."""
    moment = instant(text)
    return datetime.combine(moment, time.max) if _DAY.fullmatch(text) else moment


def _pair(separator: str, example: str) -> Any:  # noqa: ANN401 - click takes any function for a type
    def pair(text: str) -> dict[str, str]:
        start, found, end = text.partition(".." if ".." in text else separator)
        if not found or not start or not end:
            message = f"{text[:80]!r} is not two of them, such as {example}"
            raise click.BadParameter(message)
        return {"from": start, "to": end}

    return pair


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
@click.option(
    "--count", type=click.IntRange(1, _COUNT_MOST), default=10, show_default=True, metavar="N", help="How many."
)
@click.option("--until", type=_until, metavar="ISO", help="The last instant that may be one; a day counts whole.")
@click.option("--skip-weekends", is_flag=True, help="Nothing on Saturdays and Sundays.")
@click.option("--holidays", metavar="WHERE", help="Nothing on holidays: a country (US, US-CA) or a market (NYSE).")
@click.option("--skip-date", "dates", multiple=True, metavar="DAY", help="Nothing on that day. May be repeated.")
@click.option(
    "--skip-range",
    "ranges",
    type=_pair("..", "2026-12-24..2027-01-02"),
    multiple=True,
    metavar="DAY..DAY",
    help="Nothing on these days and those between. May be repeated.",
)
@click.option(
    "--skip-window",
    "windows",
    type=_pair("-", "22:00-02:00"),
    multiple=True,
    metavar="TIME-TIME",
    help="Nothing between these times of day, or between two instants (ISO..ISO). May be repeated.",
)
@click.option(
    "--on-skip",
    "then",
    type=click.Choice(["drop", "preceding", "following"]),
    default="drop",
    show_default=True,
    help="Leave out what is skipped, or move it to the business day before or after.",
)
@as_json_option
def preview(
    rule: str,
    *,
    timezone: str,
    start: datetime | None,
    count: int,
    until: datetime | None,
    as_json: bool,
    **skips: Any,  # noqa: ANN401 - under their own names
) -> None:
    """Show the next occurrences of RULE, and why they are where they are.

    RULE is an interval ("every 30 minutes", "daily", PT10M), a cron expression ("0 9 * * MON-FRI"), an RRULE
    ("FREQ=MONTHLY;BYMONTHDAY=-1"), or a business day ("last business day of the quarter at 09:00").
    """
    from scheduled_actions.recurrence import Skips  # noqa: PLC0415 - help needs no rules
    from scheduled_actions.recurrence.preview import preview as previewed  # noqa: PLC0415

    found = previewed(
        rule,
        timezone=timezone,
        start=datetime.now(UTC).replace(microsecond=0) if start is None else start,
        count=count,
        skips=Skips.parse(_document(**skips)),
        until=until,
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


def _document(*, skip_weekends: bool, **lists: Any) -> dict[str, Any]:  # noqa: ANN401 - under their own names
    given = {name: list(value) if isinstance(value, tuple) else value for name, value in lists.items()}
    return {"weekends": skip_weekends, **given}


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
