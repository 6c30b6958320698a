"""`webhooks endpoints`: who gets which events."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

import click

from scheduled_actions.cli.output import counted, local, one_line, pretty_json, print_fields, print_json, print_table
from scheduled_actions.cli.parameters import WholeNumber, as_json_option, duration, json_document
from scheduled_actions.cli.project import Project, caller, pass_project
from scheduled_actions.webhooks.rules.health import PUT_OFF_BECAUSE

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from scheduled_actions.runtime import Runtime
    from scheduled_actions.webhooks.endpoints.store import Lane
    from scheduled_actions.webhooks.endpoints.views import Shown

Command = TypeVar("Command", bound="Callable[..., Any]")

_NONE_YET = "no endpoints yet: `scheduled-actions webhooks endpoints create --url https://…` makes one"
_team = click.option("--team", "team_id", metavar="TEAM", help="Of this team only.")


def _headers(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str] | None:
    """Return the headers of texts such as `X-Tenant: blue`; None where there are none."""
    headers: dict[str, str] = {}
    for one in given:
        name, colon, value = one.partition(":")
        if not colon:
            message = "write it as NAME: VALUE"  # without what was given: it may be a secret
            raise click.BadParameter(message)
        headers[name.strip()] = value.strip()
    return headers or None


def _delays(_context: click.Context, _parameter: click.Parameter, given: str | None) -> list[float] | None:
    try:
        return None if given is None else [float(one) for one in given.split(",")]
    except ValueError:
        message = f"{given!r} is not a list of seconds, such as 5,300,3600"
        raise click.BadParameter(message) from None


def _settings(command: Command) -> Command:
    """Give a command the options that say what an endpoint is like."""
    options = (
        click.option("--pattern", "patterns", multiple=True, metavar="PATTERN", help="Such as task:*; repeat it."),
        click.option("--filter", type=json_document, metavar="JSON", help='Such as {"data.record.state": "done"}.'),
        click.option("--description", metavar="TEXT", help="For people."),
        click.option("--rate-limit", type=float, metavar="N", help="Deliveries a second, at most."),
        click.option(
            "--header", "headers", multiple=True, callback=_headers, metavar="NAME:VALUE", help="Sent along; repeat it."
        ),
        click.option("--ordering", type=click.Choice(["none", "fifo"]), help="fifo: in order, for each entity."),
        click.option("--retry", callback=_delays, metavar="SECONDS", help="Delays between attempts: 5,300,3600."),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@click.group()
def endpoints() -> None:
    """List, make and change endpoints; those of scheduled_actions.toml are listed, and changed in the file."""


@endpoints.command("list")
@_team
@click.option("--cursor", metavar="ID", help="Go on after this one: next_cursor of the page before.")
@click.option("--limit", type=WholeNumber(1, 100), default=100, show_default=True, help="At most so many.")
@as_json_option
@pass_project
def list_(project: Project, *, team_id: str | None, cursor: str | None, limit: int, as_json: bool) -> None:
    """List endpoints: those of the file, then those of the database, the oldest first."""
    endpoints = project.open_without_handlers().endpoints
    found, next_cursor = endpoints.page(team_id=team_id, cursor=cursor, limit=limit)
    if as_json:
        print_json({"endpoints": [asdict(one) for one in found], "next_cursor": next_cursor})
        return
    if not found:
        click.echo(_NONE_YET)
        return
    print_table(
        ("ID", "TEAM", "WHERE", "PATTERNS", "NOTE"),
        [
            (
                one.id,
                one.team_id or "",
                one.place or "(unset)",
                ",".join(one.patterns),
                one_line(_note(one), longest=60),
            )
            for one in found
        ],
    )
    if next_cursor:
        click.echo(f"\nthere may be more: --cursor {next_cursor}")


@endpoints.command()
@click.argument("endpoint", metavar="ID")
@_team
@as_json_option
@pass_project
def show(project: Project, endpoint: str, *, team_id: str | None, as_json: bool) -> None:
    """Show the endpoint ID, or the one of that name in the file: all but its secrets."""
    _tell(project.open_without_handlers().endpoints.get(endpoint, team_id=team_id), as_json=as_json)


@endpoints.command(short_help="Make an endpoint; print its secret, this once.")
@click.option("--url", required=True, metavar="URL", help="https, on the public internet.")
@click.option("--team", "team_id", metavar="TEAM", help="Gets this team's events alone. [default: those of every team]")
@_settings
@click.option("--secret", metavar="whsec_…", help="Brought from elsewhere. [default: a new one]")
@click.option("--disabled", is_flag=True, help="What comes for it is kept until it is enabled.")
@as_json_option
@pass_project
def create(project: Project, /, *, url: str, disabled: bool, as_json: bool, **given: Any) -> None:  # noqa: ANN401 - under their own names
    """Make an endpoint; print its secret, which is shown this once and stored encrypted.

    Needs SCHEDULED_ACTIONS_ENCRYPTION_KEY: 32 random bytes in base64.
    """
    made, secret = project.open_without_handlers().endpoints.create(
        url=url, enabled=not disabled, created_by=caller(), **_said(given)
    )
    _tell(made, as_json=as_json, secret=secret)


@endpoints.command(short_help="Change what is given of an endpoint.")
@click.argument("endpoint", metavar="ID")
@_team
@click.option("--url", metavar="URL", help="https, on the public internet.")
@_settings
@click.option("--enable/--disable", "enabled", default=None, help="Enabling also forgives what disabled it.")
@click.option("--no-filter", is_flag=True, help="Want everything that the patterns want.")
@click.option("--no-rate-limit", is_flag=True, help="Take deliveries as fast as they come.")
@click.option("--no-headers", is_flag=True, help="Send no headers along.")
@click.option("--no-retry", is_flag=True, help="Back to the usual delays.")
@as_json_option
@pass_project
def update(project: Project, /, endpoint: str, *, team_id: str | None, as_json: bool, **given: Any) -> None:  # noqa: ANN401 - under their own names
    """Change what is given of the endpoint ID; the rest stays.

    An endpoint of the file that was disabled for its failures is enabled with --enable alone.
    """
    removed = {"no_filter": "filter", "no_rate_limit": "rate_limit", "no_headers": "headers", "no_retry": "retry"}
    gone = [name for flag, name in removed.items() if given.pop(flag)]
    changes = _said(given) | {name: {} if name == "headers" else None for name in gone}
    if not changes:
        message = "nothing to change: give an option"
        raise click.UsageError(message)
    changed = project.open_without_handlers().endpoints.update(endpoint, team_id=team_id, **changes)
    _tell(changed, as_json=as_json)


@endpoints.command(short_help="Remove an endpoint.")
@click.argument("endpoint", metavar="ID")
@_team
@as_json_option
@pass_project
def delete(project: Project, endpoint: str, *, team_id: str | None, as_json: bool) -> None:
    """Remove the endpoint ID. Deliveries that wait for it are skipped when they are due."""
    project.open_without_handlers().endpoints.delete(endpoint, team_id=team_id)
    if as_json:
        print_json({"deleted": endpoint})
    else:
        click.echo(f"{endpoint} deleted")


@endpoints.command(short_help="Give an endpoint a new secret; print it, this once.")
@click.argument("endpoint", metavar="ID")
@_team
@click.option("--secret", metavar="whsec_…", help="Brought from elsewhere. [default: a new one]")
@click.option(
    "--beside",
    type=duration,
    default="1d",
    show_default=True,
    metavar="DURATION",
    help="The old one signs, too, for so long.",
)
@as_json_option
@pass_project
def rotate(
    project: Project, endpoint: str, *, team_id: str | None, secret: str | None, beside: timedelta, as_json: bool
) -> None:
    """Give the endpoint ID a new secret; for a day both sign, so that the receiver can change over.

    With --beside 0s the old one signs no longer: for a secret that was stolen.
    """
    shown, new = project.open_without_handlers().endpoints.rotate(
        endpoint, team_id=team_id, secret=secret, beside=beside
    )
    _tell(shown, as_json=as_json, secret=new)


@endpoints.command(short_help="Encrypt every secret with the first key.")
@as_json_option
@pass_project
def reseal(project: Project, *, as_json: bool) -> None:
    """Encrypt every stored secret with the first key of SCHEDULED_ACTIONS_ENCRYPTION_KEY; then the others can go."""
    count = project.open_without_handlers().endpoints.reseal()
    if as_json:
        print_json({"resealed": count})
    else:
        click.echo(f"{counted(count, 'endpoint')} encrypted with the first key")


@endpoints.command(short_help="Deliver a test event to an endpoint.")
@click.argument("endpoint", metavar="ID")
@_team
@as_json_option
@pass_project
def test(project: Project, endpoint: str, *, team_id: str | None, as_json: bool) -> None:
    """Deliver webhook:test to the endpoint ID at the next tick, whatever its patterns."""
    runtime = project.open_without_handlers()
    scheduled = runtime.endpoints.test(endpoint, team_id=team_id, by=caller())
    if as_json:
        print_json({"id": scheduled.id})
    else:
        click.echo(f"the next tick delivers it: `scheduled-actions webhooks deliveries show {scheduled.id}`")
    warn_if_disabled(runtime, endpoint)


def warn_if_disabled(runtime: Runtime, endpoint: str) -> None:
    """Say on standard error that an endpoint gets nothing, and how it will again."""
    found = runtime.endpoint_book.any(endpoint)
    if found is not None and not (found.enabled and found.disabled_reason is None):
        how = f"`scheduled-actions webhooks endpoints update {endpoint} --enable`"
        if found.disabled_reason is None and not found.is_tenants:
            how = "`enabled` in scheduled_actions.toml"
        click.echo(f"{endpoint} is disabled: what comes for it is skipped, until {how} ends that", err=True)


def _said(given: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were given."""
    said = {name: value for name, value in given.items() if value is not None}
    patterns = list(said.pop("patterns"))
    return said | ({"patterns": patterns} if patterns else {})


def _note(shown: Shown) -> str:
    notes = ["" if shown.enabled else f"disabled{f': {shown.disabled_reason}' if shown.disabled_reason else ''}"]
    if shown.failing_since is not None and shown.enabled:
        notes.append(f"failing since {local(shown.failing_since)}")
    notes.append(one_line(shown.description))
    return "; ".join(note for note in notes if note)


def _tell(shown: Shown, *, as_json: bool, secret: str | None = None) -> None:
    if as_json:
        print_json(asdict(shown) | ({} if secret is None else {"secret": secret}))
        return
    values = {name: _text(name, value) for name, value in asdict(shown).items() if name != "lane"}
    print_fields(
        values
        | _lane(shown.lane)
        | ({} if secret is None else {"secret": f"{secret}\nkeep it now: it is not shown again"})
    )


def _lane(lane: Lane) -> dict[str, str]:
    """Return what is on its way to an endpoint, in words."""
    more = "" if lane.is_complete else " or more"
    following = f", the next {local(lane.next_attempt_at)}" if lane.next_attempt_at else ""
    why = PUT_OFF_BECAUSE.get(lane.put_off_reason or "", "for its sake")
    return {
        "in_flight": f"{lane.in_flight} (in each process {lane.in_flight_limit} at most)",
        "waiting": f"{lane.waiting:,}{more}{following}",
        "put_off": f"{lane.put_off:,} until {local(lane.put_off_until)}: {why}" if lane.put_off else "0",
    }


def _text(name: str, value: Any) -> str:  # noqa: ANN401 - any field
    if name.endswith(("_at", "_until", "_since", "disabled_by")):
        return local(value)
    if value is None or value == []:
        return ""
    if isinstance(value, list):
        return ", ".join(value)
    return pretty_json(value) if isinstance(value, dict) else str(value)
