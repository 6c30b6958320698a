"""`calendar`: what is to come, in one order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from scheduled_actions.cli.output import as_document, local, print_json, print_table
from scheduled_actions.cli.parameters import WholeNumber, as_json_option, local_instant
from scheduled_actions.cli.project import Project, pass_project

if TYPE_CHECKING:
    from datetime import datetime


@click.command()
@click.option("--from", "start", type=local_instant, metavar="ISO", help="From then on. [default: now]")
@click.option("--to", "end", type=local_instant, metavar="ISO", help="Before then. [default: 31 days on]")
@click.option("--user", metavar="USER", help="Only what has this user id, or names this recipient.")
@click.option("--team", "team_id", metavar="TEAM", help="Of this team only.")
@click.option("--limit", type=WholeNumber(1, 100), default=100, show_default=True, help="At most so many.")
@click.option(
    "--cursor", metavar="CURSOR", help="Go on after next_cursor of the page before; needs its --from and --to."
)
@as_json_option
@pass_project
def calendar(
    project: Project,
    /,
    *,
    start: datetime | None,
    end: datetime | None,
    user: str | None,
    team_id: str | None,
    limit: int,
    cursor: str | None,
    as_json: bool,
) -> None:
    """Show what is to come: actions that wait, reminders, deadlines, and what schedules will bring.

    Local time unless a time has an offset. A forecast is no row yet: it is what a schedule's rule names as things are
    now.
    """
    page = project.open().calendar.page(start=start, end=end, user=user, team_id=team_id, limit=limit, cursor=cursor)
    if as_json:
        entries = [as_document(one) | {"forecast": one.is_forecast} for one in page.entries]
        print_json(as_document(page) | {"entries": entries})
        return
    if not page.entries:
        click.echo(f"nothing is to come between {local(page.start)} and {local(page.end)}")
        return
    print_table(
        ("AT", "KIND", "WHAT", "STATUS", "TEAM", "ID"),
        [
            (local(one.at), one.kind, one.title, one.status or "", one.team_id or "", str(one.id))
            for one in page.entries
        ],
    )
    if page.cut_short:
        click.echo(f"{len(page.cut_short)} schedules occur more often than is shown", err=True)
    if page.next_cursor:
        click.echo(
            f"more: --cursor {page.next_cursor} --from {page.start.isoformat()} --to {page.end.isoformat()}", err=True
        )
