"""`feeds create`, `feeds list` and `feeds revoke`: private addresses for calendar programs."""

from __future__ import annotations

from dataclasses import asdict

import click

from scheduled_actions.cli.output import local, print_json, print_table
from scheduled_actions.cli.parameters import as_json_option
from scheduled_actions.cli.project import Project, caller, pass_project


@click.group()
def feeds() -> None:
    """Make, list and revoke calendar feeds: addresses that Google Calendar, Outlook or Apple subscribe to."""


@feeds.command(short_help="Make a feed; its address is shown this once.")
@click.argument("name", metavar="NAME")
@click.option("--team", "team_id", metavar="TEAM", help="Only what belongs to this team.")
@click.option("--user", "user_id", metavar="USER", help="Only what belongs to this user.")
@click.option("--type", "action_type", metavar="TYPE", help="Only of this action type.")
@as_json_option
@pass_project
def create(
    project: Project, /, name: str, *, team_id: str | None, user_id: str | None, action_type: str | None, as_json: bool
) -> None:
    """Make a feed that calendar programs call NAME, and show its address: only a digest of it is kept.

    Standard output has the address alone: below the setting `url`, or what follows the application's own address.
    """
    runtime = project.open_without_handlers()
    feed, secret = runtime.feeds.create(
        name, team_id=team_id, user_id=user_id, action_type=action_type, created_by=caller()
    )
    address = f"{(runtime.config.settings.url or '').rstrip('/')}/calendar/{secret}.ics"
    if as_json:
        print_json({**asdict(feed), "path": address})
        return
    click.echo(address)
    click.echo("it is not shown again: whoever has it reads the calendar, until `feeds revoke`", err=True)


@feeds.command("list")
@as_json_option
@pass_project
def list_(project: Project, *, as_json: bool) -> None:
    """List the newest 100 feeds, as far as they are known: not their addresses."""
    found = project.open_without_handlers().feeds.newest()
    if as_json:
        print_json({"feeds": [asdict(feed) for feed in found]})
        return
    if not found:
        click.echo("no calendar feeds: `scheduled-actions feeds create NAME` makes one")
        return
    print_table(
        ("ID", "NAME", "BEGINS WITH", "TEAM", "USER", "TYPE", "LAST READ", "STATE"),
        [
            (
                str(feed.id),
                feed.name,
                f"{feed.hint}…",
                feed.team_id or "",
                feed.user_id or "",
                feed.action_type or "",
                local(feed.last_used_at) or "never",
                "open" if feed.revoked_at is None else f"revoked {local(feed.revoked_at)}",
            )
            for feed in found
        ],
    )


@feeds.command()
@click.argument("feed_id", metavar="ID")
@as_json_option
@pass_project
def revoke(project: Project, feed_id: str, *, as_json: bool) -> None:
    """Let the address of the feed ID answer nothing any more, at once."""
    feed = project.open_without_handlers().feeds.revoke(feed_id)
    if as_json:
        print_json(asdict(feed))
    else:
        click.echo(f"{feed.name} ({feed.hint}…) revoked")
