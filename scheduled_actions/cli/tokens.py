"""`tokens` and `feeds`: API tokens, and calendar feeds with secret addresses."""

from dataclasses import asdict
from datetime import datetime, timedelta

import click

from scheduled_actions.cli.output import answer, local, print_page, wants_json
from scheduled_actions.cli.parameters import duration_option, json_option, last_local_instant_option, one_of
from scheduled_actions.cli.project import Project, caller, pass_project

# Imports are inside functions, so that help needs no database driver.
# ruff: noqa: PLC0415


@click.group()
def tokens() -> None:
    """Manage API tokens. The API also accepts ADMIN_TOKEN."""


@tokens.command("create", short_help="Create a token and print it.")
@click.argument("name", metavar="NAME")
@click.option(
    "--role",
    type=click.Choice(["viewer", "operator", "admin"]),
    default="viewer",
    show_default=True,
    help="viewer reads data; operator also changes data; admin also manages tokens.",
)
@click.option("--team", "team_id", metavar="TEAM", help="Restrict the token to the data of this team.")
@last_local_instant_option("--expires-at", help="Time of expiry; without an offset, local time.")
@duration_option("--expires-in", help="Expire after this long: P30D, 12h, 90d.")
@json_option
@pass_project
def create_token(
    project: Project,
    /,
    name: str,
    *,
    role: str,
    team_id: str | None,
    expires_at: datetime | None,
    expires_in: timedelta | None,
) -> None:
    """Create a token named NAME and print the token. The token cannot be shown again: only its digest is stored.

    Without --json, standard output contains only the token.
    """
    from scheduled_actions.operations import tokens as token_service

    one_of(expires_at, expires_in, "--expires-at and --expires-in")
    token, secret = project.in_database(
        token_service.create,
        name=name,
        role=role,
        team_id=team_id,
        expires_at=expires_at,
        expires_in=expires_in,
        created_by=caller(),
    )
    answer({**asdict(token), "token": secret}, secret)
    if not wants_json():
        scope = f"team {token.team_id}" if token.team_id else "all teams"
        click.echo(
            f"{token.role} for {scope}, {_expiry(token.expires_at)}; store the token now: it is not shown again",
            err=True,
        )


@tokens.command("list")
@json_option
@pass_project
def list_tokens(project: Project) -> None:
    """List the newest 100 tokens, without their secrets."""
    from scheduled_actions.operations import tokens as token_service

    found = project.in_database(token_service.newest)
    print_page(
        {"tokens": [asdict(token) for token in found]},
        found,
        {
            "ID": lambda token: str(token.id),
            "NAME": lambda token: token.name,
            "BEGINS WITH": lambda token: f"{token.hint}…",
            "ROLE": lambda token: token.role,
            "TEAM": lambda token: token.team_id or "",
            "LAST USED": lambda token: local(token.last_used_at) or "never",
            "STATE": lambda token: (
                _revocation(token.revoked_at) or ("expired" if token.is_expired else _expiry(token.expires_at))
            ),
        },
        empty="no tokens: `scheduled-actions tokens create NAME` creates one",
    )


@tokens.command("revoke")
@click.argument("token_id", metavar="ID")
@json_option
@pass_project
def revoke_token(project: Project, token_id: str) -> None:
    """Revoke the token ID immediately."""
    from scheduled_actions.operations import tokens as token_service

    token = project.in_database(token_service.revoke, token_id)
    answer(asdict(token), f"{token.name} ({token.hint}…) revoked")


def _expiry(expires_at: datetime | None) -> str:
    return "does not expire" if expires_at is None else f"until {local(expires_at)}"


def _revocation(revoked_at: datetime | None) -> str:
    return "" if revoked_at is None else f"revoked {local(revoked_at)}"


@click.group()
def feeds() -> None:
    """Manage calendar feeds: addresses that Google Calendar, Outlook or Apple Calendar can subscribe to."""


@feeds.command("create", short_help="Create a feed and print its address.")
@click.argument("name", metavar="NAME")
@click.option("--team", "team_id", metavar="TEAM", help="Only entries of this team.")
@click.option("--user", "user_id", metavar="USER", help="Only entries with this user id or recipient.")
@click.option("--type", "action_type", metavar="TYPE", help="Only entries of this action type.")
@json_option
@pass_project
def create_feed(
    project: Project, /, name: str, *, team_id: str | None, user_id: str | None, action_type: str | None
) -> None:
    """Create a feed that calendar programs show as NAME, and print its address. The address cannot be shown again.

    Without --json, standard output contains only the address. The address begins with the setting `url`; without that
    setting, it is a path.
    """
    runtime = project.open_without_handlers()
    feed, secret = runtime.feeds.create(
        name, team_id=team_id, user_id=user_id, action_type=action_type, created_by=caller()
    )
    address = f"{(runtime.config.settings.url or '').rstrip('/')}/calendar/{secret}.ics"
    answer({**asdict(feed), "path": address}, address)
    if not wants_json():
        click.echo(
            "store the address now: it is not shown again. It gives access to the calendar until the feed is revoked",
            err=True,
        )


@feeds.command("list")
@json_option
@pass_project
def list_feeds(project: Project) -> None:
    """List the newest 100 feeds, without their addresses."""
    found = project.open_without_handlers().feeds.newest()
    print_page(
        {"feeds": [asdict(feed) for feed in found]},
        found,
        {
            "ID": lambda feed: str(feed.id),
            "NAME": lambda feed: feed.name,
            "BEGINS WITH": lambda feed: f"{feed.hint}…",
            "TEAM": lambda feed: feed.team_id or "",
            "USER": lambda feed: feed.user_id or "",
            "TYPE": lambda feed: feed.action_type or "",
            "LAST READ": lambda feed: local(feed.last_used_at) or "never",
            "STATE": lambda feed: _revocation(feed.revoked_at) or "active",
        },
        empty="no calendar feeds: `scheduled-actions feeds create NAME` creates one",
    )


@feeds.command("revoke")
@click.argument("feed_id", metavar="ID")
@json_option
@pass_project
def revoke_feed(project: Project, feed_id: str) -> None:
    """Revoke the address of the feed ID immediately."""
    feed = project.open_without_handlers().feeds.revoke(feed_id)
    answer(asdict(feed), f"{feed.name} ({feed.hint}…) revoked")
