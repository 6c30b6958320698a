"""`webhooks deliveries`: what became of each, and sending them again."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from scheduled_actions.cli.output import counted, local, one_line, print_fields, print_json, print_table
from scheduled_actions.cli.parameters import WholeNumber, as_json_option, instant
from scheduled_actions.cli.progress import progress
from scheduled_actions.cli.project import Project, caller, pass_project
from scheduled_actions.cli.webhooks.endpoints import warn_if_disabled
from scheduled_actions.core.action import Status
from scheduled_actions.core.durations import parse_duration
from scheduled_actions.core.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scheduled_actions.webhooks.deliveries import Step
    from scheduled_actions.webhooks.deliveries_store import Delivery

_team = click.option("--team", "team_id", metavar="TEAM", help="Of this team only.")


def _since(text: str) -> datetime:
    """Return the instant of an ISO 8601 text, local time unless it has an offset; or so long ago."""
    try:
        return datetime.now(UTC) - parse_duration(text)
    except InvalidArgument:
        pass
    try:
        return instant(text).astimezone(UTC)
    except click.BadParameter as error:
        message = f"{error.message}; nor is it how long ago, such as 90m, 2h or 3d"
        raise click.BadParameter(message) from None


@click.group()
def deliveries() -> None:
    """See what became of deliveries, and send them again: one, all that were lost, all that an endpoint missed."""


@deliveries.command("list")
@click.option("--status", type=click.Choice([status.value for status in Status]), help="Where they stand.")
@click.option("--endpoint", metavar="ID", help="To this endpoint only: its id, or its name in the file.")
@click.option("--event", metavar="EVENT", help="Exactly this event, such as task:created.")
@_team
@click.option("--limit", type=WholeNumber(1, 100), default=100, show_default=True, help="At most so many.")
@click.option("--cursor", metavar="ID", help="Go on after this one: next_cursor of the page before.")
@as_json_option
@pass_project
def list_(project: Project, /, *, limit: int, as_json: bool, **filters: Any) -> None:  # noqa: ANN401 - of Deliveries.find
    """List the newest deliveries that match every filter given."""
    found = project.open_without_handlers().deliveries.find(**filters, limit=limit)
    next_cursor = found.next_cursor
    if as_json:
        print_json({"deliveries": [asdict(one) for one in found], "next_cursor": next_cursor})
        return
    if not found and next_cursor is None:
        click.echo("no delivery matches")
        return
    print_table(
        ("ID", "STATUS", "EVENT", "ENTITY", "ENDPOINT", "ATTEMPTS", "ANSWER", "NOTE"),
        [
            (
                str(one.id), one.status, one.event, one_line(one.entity_id, longest=20), one.endpoint,
                str(one.attempts), str(one.response_status or ""), one_line(_note(one), longest=50),
            )
            for one in found
        ],
    )  # fmt: skip
    if next_cursor:
        click.echo(f"\nthere may be more: --cursor {next_cursor}")


@deliveries.command()
@click.argument("delivery_id", metavar="ID")
@_team
@as_json_option
@pass_project
def show(project: Project, delivery_id: str, *, team_id: str | None, as_json: bool) -> None:
    """Show the delivery ID, with every attempt: when, what was answered, how long it took."""
    found = project.open_without_handlers().deliveries.get(delivery_id, team_id=team_id)
    if as_json:
        print_json(asdict(found))
        return
    values = {name: value for name, value in asdict(found).items() if name != "attempt_log"}
    print_fields({name: local(value) if name.endswith("_at") else str(value or "") for name, value in values.items()})
    if found.attempt_log:
        click.echo("\nattempts")
    for attempt in found.attempt_log:
        click.echo(f"  {one_line(_told(attempt))}")
        if attempt.get("answer"):
            click.echo(f"    {one_line(str(attempt['answer']))}")


@deliveries.command(short_help="Send a delivery again, or what an endpoint missed.")
@click.argument("delivery_id", metavar="ID", required=False)
@click.option(
    "--missed", "endpoint", metavar="ENDPOINT", help="Everything this endpoint would have got, had it been there."
)
@click.option("--since", type=_since, metavar="WHEN", help="With --missed: an ISO 8601 time, or how long ago: 2h, 3d.")
@_team
@as_json_option
@pass_project
def replay(
    project: Project,
    *,
    delivery_id: str | None,
    endpoint: str | None,
    since: datetime | None,
    team_id: str | None,
    as_json: bool,
) -> None:
    """Send the delivery ID again, with the same webhook-id; or, with --missed and --since, what an endpoint missed.

    Events that are still in the table and were not delivered to ENDPOINT go there now; none goes twice, also when the
    command is interrupted and run again.
    """
    service = project.open_without_handlers().deliveries
    if (delivery_id is None) == (endpoint is None) or (endpoint is None) != (since is None):
        message = "give the ID of one delivery, or --missed ENDPOINT and --since WHEN"
        raise click.UsageError(message)
    if delivery_id is not None:
        again = service.replay(delivery_id, team_id=team_id, by=caller())
        if as_json:
            print_json({"id": again.id})
        else:
            click.echo(f"{again.id} is on its way: the next tick takes it")
        return
    assert endpoint is not None  # noqa: S101 - asked above
    assert since is not None  # noqa: S101 - asked above
    wanted, start = endpoint, since
    count = _walk(lambda after: service.replay_missed(wanted, start, team_id=team_id, by=caller(), after=after), None)
    if as_json:
        print_json({"replayed": count})
    else:
        click.echo(f"{counted(count, 'event')} on the way to {endpoint}")


@deliveries.command(short_help="Send again all that was lost since an instant.")
@click.option("--since", type=_since, required=True, metavar="WHEN", help="An ISO 8601 time, or how long ago: 2h, 3d.")
@click.option("--endpoint", metavar="ID", help="To this endpoint only: its id, or its name in the file.")
@_team
@as_json_option
@pass_project
def recover(project: Project, *, since: datetime, endpoint: str | None, team_id: str | None, as_json: bool) -> None:
    """Make pending again every delivery that was lost since WHEN: those that failed, and those of disabled endpoints.

    It works in batches and says how far it is. Interrupted, it loses nothing: run it again, and it goes on.
    """
    runtime = project.open_without_handlers()
    service = runtime.deliveries
    total = service.count_lost(since, endpoint=endpoint, team_id=team_id)
    count = _walk(
        lambda after: service.recover(since, endpoint=endpoint, team_id=team_id, by=caller(), after=after), total
    )
    if as_json:
        print_json({"recovered": count})
    else:
        click.echo(f"{count:,} {'delivery is' if count == 1 else 'deliveries are'} pending again")
    if endpoint is not None:
        warn_if_disabled(runtime, endpoint)


def _walk(step: Callable[[Step | None], Step], total: int | None) -> int:
    """Take step after step; tell on standard error how far it is."""
    count, after = 0, None
    with progress(total) as advance:
        while after is None or not after.is_done:
            after = step(after)
            count += after.count
            advance(after.count)
    return count


def _note(delivery: Delivery) -> str:
    if delivery.next_attempt_at is not None:
        return f"next {local(delivery.next_attempt_at)}"
    return delivery.error or ""


def _told(attempt: Mapping[str, Any]) -> str:
    began = attempt.get("at")
    when = local(datetime.fromisoformat(str(began))) if began else ""
    took = f" in {attempt['duration_ms']} ms" if attempt.get("duration_ms") is not None else ""
    what = attempt.get("status") or attempt.get("error") or "no answer"
    return f"{when}  attempt {attempt.get('attempt')}: {what}{took}"
