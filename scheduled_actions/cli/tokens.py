"""`token create`, `token list` and `token revoke`: who may use the management API."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from scheduled_actions.cli.output import local, print_json, print_table
from scheduled_actions.cli.parameters import as_json_option, duration, local_instant
from scheduled_actions.cli.project import Project, caller, pass_project

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from scheduled_actions.operations.tokens import Token

_ROLES = ("viewer", "operator", "admin")


@click.group("token")
def tokens() -> None:
    """Make, list and revoke tokens of the management API, which ADMIN_TOKEN opens, too."""


@tokens.command(short_help="Make a token; it is shown this once.")
@click.argument("name", metavar="NAME")
@click.option(
    "--role",
    type=click.Choice(_ROLES),
    default="viewer",
    show_default=True,
    help="viewer reads; operator changes, too; admin makes tokens, too.",
)
@click.option("--team", "team_id", metavar="TEAM", help="It sees and touches this team alone, and creates only in it.")
@click.option("--expires-at", type=local_instant, metavar="ISO", help="Local time unless it has an offset.")
@click.option("--expires-in", type=duration, metavar="DURATION", help="From now: P30D, or short 12h, 90d.")
@as_json_option
@pass_project
def create(
    project: Project,
    /,
    name: str,
    *,
    role: str,
    team_id: str | None,
    expires_at: datetime | None,
    expires_in: timedelta | None,
    as_json: bool,
) -> None:
    """Make a token that people know as NAME, and show it: only its digest is kept.

    Standard output has the token alone.
    """
    from scheduled_actions.operations import tokens as made  # noqa: PLC0415 - help needs no database driver

    if expires_at is not None and expires_in is not None:
        message = "--expires-at and --expires-in say the same thing: give one of them"
        raise click.UsageError(message)
    with project.open_without_handlers().database.connection() as connection:
        token, secret = made.create(
            connection,
            name=name,
            role=role,
            team_id=team_id,
            expires_at=expires_at,
            expires_in=expires_in,
            created_by=caller(),
        )
    if as_json:
        print_json({**asdict(token), "token": secret})
        return
    click.echo(secret)
    reach = f"team {token.team_id}" if token.team_id else "all teams"
    click.echo(f"{token.role} of {reach}, {_expiry(token)}; it is not shown again: keep it now", err=True)


@tokens.command("list")
@as_json_option
@pass_project
def list_(project: Project, *, as_json: bool) -> None:
    """List the newest 100 tokens, as far as they are known: not the secrets themselves."""
    from scheduled_actions.operations import tokens as kept  # noqa: PLC0415 - help needs no database driver

    with project.open_without_handlers().database.connection() as connection:
        found = kept.newest(connection)
    if as_json:
        print_json({"tokens": [asdict(token) for token in found]})
        return
    if not found:
        click.echo("no tokens: `scheduled-actions token create NAME` makes one")
        return
    print_table(
        ("ID", "NAME", "BEGINS WITH", "ROLE", "TEAM", "LAST USED", "STATE"),
        [
            (
                str(token.id),
                token.name,
                f"{token.hint}…",
                token.role,
                token.team_id or "",
                local(token.last_used_at) or "never",
                _state(token),
            )
            for token in found
        ],
    )


@tokens.command()
@click.argument("token_id", metavar="ID")
@as_json_option
@pass_project
def revoke(project: Project, token_id: str, *, as_json: bool) -> None:
    """Let the token ID open nothing any more, at once."""
    from scheduled_actions.operations import tokens as kept  # noqa: PLC0415 - help needs no database driver

    with project.open_without_handlers().database.connection() as connection:
        token = kept.revoke(connection, token_id)
    if as_json:
        print_json(asdict(token))
    else:
        click.echo(f"{token.name} ({token.hint}…) revoked")


def _state(token: Token) -> str:
    if token.revoked_at is not None:
        return f"revoked {local(token.revoked_at)}"
    return "expired" if token.is_expired else _expiry(token)


def _expiry(token: Token) -> str:
    return "without end" if token.expires_at is None else f"until {local(token.expires_at)}"
