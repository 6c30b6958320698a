"""`cron-setup`: what to paste, so that something pings this project once a minute."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from scheduled_actions.cli.operations.cron_callers import Caller, callers, filled
from scheduled_actions.cli.output import print_json, print_table
from scheduled_actions.cli.parameters import as_json_option
from scheduled_actions.cli.project import Project, pass_project
from scheduled_actions.core.config.checks import base_url

if TYPE_CHECKING:
    from scheduled_actions.core.config import Config


def _address(_context: click.Context, _parameter: click.Parameter, given: str | None) -> str | None:
    try:
        return None if given is None else base_url(given)
    except ValueError as error:
        raise click.BadParameter(f"{given!r} {error}") from None


@click.command("cron-setup")
@click.argument("caller", metavar="[CALLER]", type=click.Choice(list(callers())), required=False)
@click.option(
    "--url",
    metavar="URL",
    callback=_address,
    help="Where the application's routes are: https://app.example.com. [default: the setting url]",
)
@click.option("--show-secret", is_flag=True, help="Put CRON_SECRET's own value into what is printed.")
@as_json_option
@pass_project
def cron_setup(project: Project, caller: str | None, *, url: str | None, show_secret: bool, as_json: bool) -> None:
    """Print what to paste, so that CALLER pings this project once a minute; without one, list the callers.

    The secret is read by the caller's own means, and never printed unless you ask for it.
    """
    if caller is None:
        _list(as_json=as_json)
        return
    config = project.config
    setup = _setup(config, callers()[caller], url or config.settings.url, show_secret=show_secret)
    if as_json:
        document = asdict(setup)
        print_json({name: document[name] for name in ("name", "line", "pieces", "traps")})
    else:
        _print(setup)


def _setup(config: Config, caller: Caller, url: str | None, *, show_secret: bool) -> Caller:
    from scheduled_actions.core.errors import NotConfigured  # noqa: PLC0415 - the list needs no settings

    if caller.needs_url and not url:
        message = (
            "where is the application served? give --url https://app.example.com, or set url in scheduled_actions.toml"
        )
        raise click.UsageError(message)
    secret = None
    if show_secret:
        if not config.cron_secret.is_usable:
            raise NotConfigured(
                "CRON_SECRET", "set it first, to 16 random characters or more, or leave --show-secret out"
            )
        # During a rotation the first of the two is the new one.
        secret = config.cron_secret.reveal().partition(",")[0].strip()
    settings = config.settings
    return filled(
        caller,
        base_url=url,
        tick_seconds=settings.max_duration_seconds,
        run_seconds=settings.max_run_seconds,
        secret=secret,
    )


def _list(*, as_json: bool) -> None:
    if as_json:
        print_json({"callers": [{"name": caller.name, "line": caller.line} for caller in callers().values()]})
        return
    print_table(("CALLER", "WHAT IT IS"), [(caller.name, caller.line) for caller in callers().values()])
    click.echo("\n`scheduled-actions cron-setup CALLER` prints what to paste")


def _print(setup: Caller) -> None:
    """Print each piece as it must be pasted: nothing is indented, nothing is cut."""
    for number, piece in enumerate(setup.pieces, start=1):
        click.secho(f"── {number}. {piece.place}", bold=True)
        click.echo(f"\n{piece.text}")
    click.secho("── to know", bold=True)
    click.echo()
    for trap in setup.traps:
        click.echo(f"- {trap}")
