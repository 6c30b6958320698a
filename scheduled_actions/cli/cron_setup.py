"""`cron-setup`: print the configuration of a service that pings `/cron/process` once a minute.

The texts are in `cron_services.toml`. A service reads the secret from a shell variable or its own store; the printed
text contains the secret only with `--show-secret`.
"""

import math
import shlex
import tomllib
from functools import cache
from importlib import resources
from typing import Any

import click

from scheduled_actions.cli.output import print_page, printed_as_json, wants_json
from scheduled_actions.cli.parameters import json_option
from scheduled_actions.cli.project import Project, pass_project
from scheduled_actions.core.config import Config
from scheduled_actions.core.config.checks import base_url

_PATH = "/cron/process"
#: The shell line that ends a snippet if CRON_SECRET is not set, so that no empty secret is sent.
_GUARD = ': "${CRON_SECRET:?set it to the CRON_SECRET of the application}"\n'
#: The placeholder of the secret in SQL snippets, which have no shell variables.
_PLACEHOLDER = "PUT THE VALUE OF CRON_SECRET HERE"
#: Added to the maximum duration of a tick; the sum is the time limit of a ping.
_MARGIN_SECONDS = 5

#: A service as in `cron_services.toml`, and as `--json` prints it.
CronService = dict[str, Any]


@cache
def services() -> dict[str, CronService]:
    """Return the services by name; their snippets contain placeholders for the address and the secret."""
    file = resources.files(__package__).joinpath("cron_services.toml")
    return {one["name"]: one for one in tomllib.loads(file.read_text(encoding="utf-8"))["services"]}


def _checked_url(_context: click.Context, _parameter: click.Parameter, given: str | None) -> str | None:
    try:
        return None if given is None else base_url(given)
    except ValueError as error:
        raise click.BadParameter(f"{given!r} {error}") from None


@click.command("cron-setup")
@click.argument("service", metavar="[SERVICE]", type=click.Choice(list(services())), required=False)
@click.option(
    "--url",
    metavar="URL",
    callback=_checked_url,
    help="Address of the application, such as https://app.example.com. [default: the setting url]",
)
@click.option("--show-secret", is_flag=True, help="Include the value of CRON_SECRET.")
@json_option
@pass_project
def cron_setup(project: Project, service: str | None, *, url: str | None, show_secret: bool) -> None:
    """Print the configuration with which SERVICE pings this project once a minute; without SERVICE, list the services.

    The service reads the secret from its own store; the secret is printed only with --show-secret.
    """
    if service is None:
        found = list(services().values())
        print_page(
            {"services": [{"name": one["name"], "description": one["description"]} for one in found]},
            found,
            {"SERVICE": lambda one: one["name"], "DESCRIPTION": lambda one: one["description"]},
            empty="",
        )
        if not wants_json():
            click.echo("\n`scheduled-actions cron-setup SERVICE` prints its configuration")
        return
    setup = _setup(project.config, services()[service], url, show_secret=show_secret)
    if printed_as_json(setup):
        return
    # Without indentation or shortening: users copy the snippets from the terminal.
    for number, snippet in enumerate(setup["snippets"], start=1):
        click.secho(f"── {number}. {snippet['place']}", bold=True)
        click.echo(f"\n{snippet['text']}")
    click.secho("── notes", bold=True)
    click.echo("\n".join(["", *(f"- {note}" for note in setup["notes"])]))


def _setup(config: Config, service: CronService, given_url: str | None, *, show_secret: bool) -> CronService:
    """Return the service with the address, the time limits and the secret in its snippets."""
    settings = config.settings
    url = given_url or settings.url
    if service.get("needs_url", True) and not url:
        raise click.UsageError(
            "the address of the application is required: give --url https://app.example.com, or set url in "
            "scheduled_actions.toml"
        )
    secret = None
    if show_secret:
        config.cron_secret.check_usable(", or omit --show-secret")
        # During a rotation, the new secret comes first.
        secret = config.cron_secret.reveal().partition(",")[0].strip()
    url_path = (url or "").partition("://")[2].partition("/")[2]
    marks = {
        "@URL@": f"{url}{_PATH}",
        "@PATH@": f"/{url_path}{_PATH}" if url_path else _PATH,
        "@SECONDS@": str(math.ceil(settings.max_duration_seconds) + _MARGIN_SECONDS),
        "@SQL_SECRET@": _sql_literal(_PLACEHOLDER if secret is None else secret),
    }
    return {
        "name": service["name"],
        "description": service["description"],
        "snippets": [one | {"text": _filled_in(one, marks, secret)} for one in service["snippets"]],
        "notes": [*service["notes"], *_timeout_notes(service, settings.max_duration_seconds, settings.max_run_seconds)],
    }


def _filled_in(snippet: dict[str, str], marks: dict[str, str], secret: str | None) -> str:
    text = snippet["text"]
    for mark, value in marks.items():
        text = text.replace(mark, value)
    if snippet["language"] != "sh" or "$CRON_SECRET" not in text:
        return text
    return (_GUARD if secret is None else f"CRON_SECRET={shlex.quote(secret)}\n") + text


def _sql_literal(text: str) -> str:
    """Quote a string for SQL, regardless of `standard_conforming_strings`."""
    quoted = text.replace("'", "''")
    return f"'{quoted}'" if "\\" not in text else "E'" + quoted.replace("\\", "\\\\") + "'"


def _timeout_notes(service: CronService, tick_seconds: float, run_seconds: float) -> list[str]:
    """Return a note if the service may hang up before a tick ends; otherwise, no notes."""
    from scheduled_actions.ticks.rules.plan import caller_budget  # noqa: PLC0415 - help needs no database driver

    limit = service.get("hangs_up_seconds")
    found = None if limit is None else caller_budget(limit)
    if limit is None or found is None or tick_seconds < limit:
        return []
    setting = f"max_run_seconds = {found.run_seconds}{' or less, as now,' if run_seconds <= found.run_seconds else ''}"
    return [
        (
            f"A tick may take {tick_seconds:g} s here. If {service['name']} hangs up earlier, the tick continues, but "
            f"the ping counts as a failure. With {setting} the handlers that start last have {found.left_seconds} s "
            "to finish."
        ),
    ]
