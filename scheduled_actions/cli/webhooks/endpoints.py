"""`webhooks endpoints`: create, change and test endpoints."""

from dataclasses import asdict
from datetime import timedelta
from typing import Any

import click

from scheduled_actions.cli.output import (
    answer,
    field_text,
    local,
    one_line,
    print_page,
    print_record,
)
from scheduled_actions.cli.parameters import (
    apply_resets,
    document_option,
    duration_option,
    json_option,
    page_options,
    team_option,
    with_options,
)
from scheduled_actions.cli.project import Project, caller, pass_project
from scheduled_actions.core.messages import counted
from scheduled_actions.webhooks.endpoints.model import Endpoint, EndpointDetails, EndpointQueue
from scheduled_actions.webhooks.rules.health import DEFERRAL_REASONS

#: The arguments that `--reset` can remove, by option.
_RESETS = {"filter": "filter", "rate-limit": "rate_limit", "header": "headers", "retry": "retry"}


def _headers(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str] | None:
    """Parse headers such as `X-Tenant: blue`; return None without headers."""
    headers: dict[str, str] = {}
    for one in given:
        name, colon, value = one.partition(":")
        if not colon:
            # The message does not contain the value, which may be a secret.
            raise click.BadParameter("a header has no colon: write NAME:VALUE")
        headers[name.strip()] = value.strip()
    return headers or None


def _delays(_context: click.Context, _parameter: click.Parameter, given: str | None) -> list[float] | None:
    try:
        return None if given is None else [float(one) for one in given.split(",")]
    except ValueError:
        raise click.BadParameter(f"{given!r} is not a list of seconds, such as 5,300,3600") from None


_endpoint_argument = with_options(click.argument("endpoint", metavar="ID"), team_option)
_secret_option = click.option("--secret", metavar="whsec_…", help="Signing secret. [default: a generated secret]")
_definition_options = with_options(
    click.option(
        "--pattern", "patterns", multiple=True, metavar="PATTERN", help="Event types, such as task:*; repeatable."
    ),
    document_option("--filter", help='Only events that match: {"data.record.state": "done"}.'),
    click.option("--description", metavar="TEXT", help="Description, for people only."),
    click.option("--rate-limit", type=float, metavar="N", help="Maximum number of deliveries per second."),
    click.option(
        "--header",
        "headers",
        multiple=True,
        callback=_headers,
        metavar="NAME:VALUE",
        help="Header added to each delivery; repeatable.",
    ),
    click.option(
        "--ordering", type=click.Choice(["none", "fifo"]), help="fifo delivers the events of each entity in order."
    ),
    click.option(
        "--retry", callback=_delays, metavar="SECONDS", help="Delays between attempts in seconds: 5,300,3600."
    ),
)


@click.group()
def endpoints() -> None:
    """Create, change and test endpoints.

    Endpoints in scheduled_actions.toml are also listed; their definitions can be changed only in that file.
    """


@endpoints.command("list", short_help="List endpoints.")
@team_option
@page_options
@json_option
@pass_project
def list_(project: Project, /, **page: Any) -> None:  # noqa: ANN401 - of Endpoints.page
    """List endpoints: those in scheduled_actions.toml (only without --team), then the database, oldest first."""
    found, next_cursor = project.open_without_handlers().endpoints.page(**page)
    print_page(
        {"endpoints": [asdict(one) for one in found], "next_cursor": next_cursor},
        found,
        {
            "ID": lambda one: one.id,
            "TEAM": lambda one: one.team_id or "",
            "HOST": lambda one: one.place or "(unset)",
            "PATTERNS": lambda one: ",".join(one.patterns),
            "NOTE": lambda one: one_line(_note(one), longest=60),
        },
        empty="no endpoints yet: `scheduled-actions webhooks endpoints create --url https://…` creates one",
    )


@endpoints.command(short_help="Show an endpoint.")
@_endpoint_argument
@json_option
@pass_project
def show(project: Project, endpoint: str, *, team_id: str | None) -> None:
    """Show an endpoint without its secrets; ID is its id, or its name in scheduled_actions.toml."""
    _print(project.open_without_handlers().endpoints.get(endpoint, team_id=team_id))


@endpoints.command(short_help="Create an endpoint and print its secret.")
@click.option("--url", required=True, metavar="URL", help="A public https address.")
@click.option("--team", "team_id", metavar="TEAM", help="Only events of this team. [default: all teams]")
@_definition_options
@_secret_option
@click.option("--disabled", is_flag=True, help="Skip deliveries until the endpoint is enabled.")
@json_option
@pass_project
def create(project: Project, /, *, disabled: bool, **options: Any) -> None:  # noqa: ANN401 - of Endpoints.create
    """Create an endpoint and print its secret. The secret is stored encrypted, and not shown again.

    Requires SCHEDULED_ACTIONS_ENCRYPTION_KEY: 32 random bytes in base64.
    """
    created, secret = project.open_without_handlers().endpoints.create(
        enabled=not disabled, created_by=caller(), **_given(options)
    )
    _print(created, secret=secret)


@endpoints.command(short_help="Change an endpoint.")
@_endpoint_argument
@click.option("--url", metavar="URL", help="A public https address.")
@_definition_options
@click.option(
    "--enable/--disable", "enabled", default=None, help="Enable or disable deliveries; --enable also clears failures."
)
@click.option(
    "--reset", type=click.Choice(list(_RESETS)), multiple=True, help="Remove the value of this option; repeatable."
)
@json_option
@pass_project
def update(
    project: Project,
    /,
    endpoint: str,
    *,
    team_id: str | None,
    reset: tuple[str, ...],
    **options: Any,  # noqa: ANN401 - of Endpoints.update
) -> None:
    """Change the endpoint ID; omitted options keep their values.

    An endpoint in scheduled_actions.toml accepts only --enable, which clears the failures that disabled the endpoint.
    """
    changes = apply_resets(_given(options), reset, _RESETS, values={"headers": {}})
    if not changes:
        raise click.UsageError(
            "nothing to change: give --url, --pattern, --enable or another option; --help lists them"
        )
    _print(project.open_without_handlers().endpoints.update(endpoint, team_id=team_id, **changes))


@endpoints.command(short_help="Delete an endpoint.")
@_endpoint_argument
@json_option
@pass_project
def delete(project: Project, endpoint: str, *, team_id: str | None) -> None:
    """Delete the endpoint ID. Its pending deliveries are skipped when they are due."""
    project.open_without_handlers().endpoints.delete(endpoint, team_id=team_id)
    answer({"deleted": endpoint}, f"{endpoint} deleted")


@endpoints.command(short_help="Rotate the secret of an endpoint, and print the new one.")
@_endpoint_argument
@_secret_option
@duration_option(
    "--grace",
    "grace_period",
    default="1d",
    show_default=True,
    help="How long the previous secret stays valid; 0s revokes it immediately.",
)
@json_option
@pass_project
def rotate(
    project: Project, endpoint: str, *, team_id: str | None, secret: str | None, grace_period: timedelta
) -> None:
    """Rotate the secret of the endpoint ID, and print the new one. The secret is not shown again.

    Until the grace period ends, deliveries are signed with both secrets, so that the receiver can switch. If the
    previous secret was stolen, revoke it immediately with --grace 0s.
    """
    shown, new = project.open_without_handlers().endpoints.rotate(
        endpoint, team_id=team_id, secret=secret, grace_period=grace_period
    )
    _print(shown, secret=new)


@endpoints.command(short_help="Encrypt stored secrets and headers with the first key.")
@json_option
@pass_project
def reseal(project: Project) -> None:
    """Encrypt all stored secrets and headers again with the first key of SCHEDULED_ACTIONS_ENCRYPTION_KEY.

    The other keys can be removed afterwards.
    """
    count = project.open_without_handlers().endpoints.reseal()
    answer({"resealed": count}, f"{counted(count, 'endpoint')} encrypted with the first key")


@endpoints.command(short_help="Send a test event to an endpoint.")
@_endpoint_argument
@json_option
@pass_project
def test(project: Project, endpoint: str, *, team_id: str | None) -> None:
    """Send the event webhook:test to the endpoint ID on the next tick, regardless of its patterns and filter."""
    runtime = project.open_without_handlers()
    scheduled = runtime.endpoints.test(endpoint, team_id=team_id, by=caller())
    answer(
        {"id": scheduled.id},
        f"the next tick sends the event: `scheduled-actions webhooks deliveries show {scheduled.id}` shows the result",
    )
    warn_if_disabled(endpoint, runtime.endpoint_directory.lookup(endpoint))


def warn_if_disabled(endpoint: str, found: Endpoint | None) -> None:
    """Warn on standard error that deliveries to a disabled endpoint are skipped."""
    if found is None:
        return
    if found.disabled_reason is not None and found.disabled_at is None:
        click.echo(f"{endpoint} is disabled, and its deliveries are skipped: {found.disabled_reason}", err=True)
    elif not (found.enabled and found.disabled_reason is None):
        remedy = (
            "set `enabled = true` in scheduled_actions.toml"
            if found.disabled_reason is None and found.source == "file"
            else f"run `scheduled-actions webhooks endpoints update {endpoint} --enable`"
        )
        click.echo(f"{endpoint} is disabled, and its deliveries are skipped: {remedy}", err=True)


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were given, by name."""
    options["patterns"] = list(options["patterns"]) or None
    return {name: value for name, value in options.items() if value is not None}


def _note(shown: EndpointDetails) -> str:
    state = f"failing since {local(shown.failing_since)}" if shown.failing_since is not None else ""
    if not shown.enabled:
        state = f"disabled: {shown.disabled_reason}" if shown.disabled_reason else "disabled"
    return "; ".join(filter(None, (state, one_line(shown.description))))


def _print(shown: EndpointDetails, *, secret: str | None = None) -> None:
    values = {"id": shown.id, "source": shown.source} | asdict(shown)
    fields = {
        name: ", ".join(value) if isinstance(value, list) else field_text(name, value)
        for name, value in values.items()
        if name != "queue"
    }
    fields |= {"enabled": str(shown.enabled), **_queue_fields(shown.queue)}
    if secret is not None:
        values["secret"] = secret
        fields["secret"] = f"{secret}\nstore the secret now: it is not shown again"
    print_record(values, fields)


def _queue_fields(queue: EndpointQueue) -> dict[str, str]:
    """Return the numbers of running, waiting and deferred deliveries of an endpoint, as text."""
    following = f", the next {local(queue.next_attempt_at)}" if queue.next_attempt_at else ""
    reason = DEFERRAL_REASONS.get(queue.deferred_reason or "", "reason unknown")
    return {
        "in_flight": f"{queue.in_flight} (at most {queue.in_flight_limit} in each process)",
        "waiting": f"{queue.waiting:,}{'' if queue.is_complete else ' or more'}{following}",
        "deferred": f"{queue.deferred:,} until {local(queue.deferred_until)}: {reason}" if queue.deferred else "0",
    }
