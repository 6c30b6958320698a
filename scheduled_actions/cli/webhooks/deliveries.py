"""`webhooks deliveries`: list deliveries, and resend them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from scheduled_actions.cli.output import (
    answer,
    field_text,
    local,
    one_line,
    print_page,
    print_record,
    progress,
)
from scheduled_actions.cli.parameters import json_option, page_options, past_instant, team_option
from scheduled_actions.cli.project import Project, caller, pass_project
from scheduled_actions.cli.webhooks.endpoints import warn_if_disabled
from scheduled_actions.core.action import Status
from scheduled_actions.core.messages import counted

if TYPE_CHECKING:
    from scheduled_actions.webhooks.deliveries import BatchProgress
    from scheduled_actions.webhooks.deliveries_store import Delivery


@click.group()
def deliveries() -> None:
    """List and resend deliveries, or send the events that an endpoint missed."""


@deliveries.command("list")
@click.option("--status", type=click.Choice([status.value for status in Status]), help="Only this status.")
@click.option(
    "--endpoint", metavar="ID", help="Only deliveries to this endpoint: its id, or its name in scheduled_actions.toml."
)
@click.option("--event", metavar="EVENT", help="Only this event type, such as task:created.")
@team_option
@page_options
@json_option
@pass_project
def list_(project: Project, /, **filters: Any) -> None:  # noqa: ANN401 - of Deliveries.find
    """List the newest deliveries that match every filter."""
    found, next_cursor = project.open_without_handlers().deliveries.page(**filters)
    print_page(
        {"deliveries": [asdict(one) for one in found], "next_cursor": next_cursor},
        found,
        {
            "ID": lambda one: str(one.id),
            "STATUS": lambda one: one.status,
            "EVENT": lambda one: one.event,
            "ENTITY": lambda one: one_line(one.entity_id, longest=20),
            "ENDPOINT": lambda one: one.endpoint,
            "ATTEMPTS": lambda one: str(one.attempts),
            "ANSWER": lambda one: str(one.response_status or ""),
            "NOTE": lambda one: one_line(_note(one), longest=80),
        },
        empty="no delivery matches",
    )


def _note(delivery: Delivery) -> str:
    """Return why the last attempt failed, and when the next one starts."""
    following = "" if delivery.next_attempt_at is None else f"next {local(delivery.next_attempt_at)}"
    return ": ".join(part for part in (following, delivery.error) if part)


@deliveries.command()
@click.argument("delivery_id", metavar="ID")
@team_option
@json_option
@pass_project
def show(project: Project, delivery_id: str, *, team_id: str | None) -> None:
    """Show the delivery ID, with the time, answer and duration of every attempt."""
    found = asdict(project.open_without_handlers().deliveries.get(delivery_id, team_id=team_id))
    print_record(
        found,
        {name: field_text(name, value) for name, value in found.items() if name != "attempt_log"},
        {"attempts": [line for attempt in found["attempt_log"] for line in _attempt_lines(attempt)]},
    )


@deliveries.command(short_help="Resend a delivery, or send the events that an endpoint missed.")
@click.argument("delivery_id", metavar="[ID]", required=False)
@click.option("--missed", "endpoint", metavar="ENDPOINT", help="Send the events that ENDPOINT missed.")
@click.option(
    "--from",
    "start",
    type=past_instant,
    metavar="WHEN",
    help="With --missed: an ISO 8601 time, or how long ago: 2h, 3d.",
)
@team_option
@json_option
@pass_project
def replay(
    project: Project, *, delivery_id: str | None, endpoint: str | None, start: datetime | None, team_id: str | None
) -> None:
    """Resend the delivery ID with the same webhook-id, or send the events that ENDPOINT missed (--missed ENDPOINT).

    An event was missed if it matches ENDPOINT and was processed at --from or later, but was not routed to ENDPOINT. An
    interrupted command can be repeated: events that are already routed to ENDPOINT are left out.
    """
    service = project.open_without_handlers().deliveries
    if delivery_id is not None and endpoint is None and start is None:
        resent = service.replay(delivery_id, team_id=team_id, by=caller())
        answer({"id": resent.id}, f"{resent.id} is due: the next tick sends it")
    elif delivery_id is None and endpoint is not None and start is not None:
        count = _run_steps(
            lambda after: service.replay_missed(endpoint, start, team_id=team_id, by=caller(), after=after), None
        )
        answer({"replayed": count}, f"{counted(count, 'event')} scheduled for {endpoint}")
    else:
        raise click.UsageError("give the ID of a delivery, or --missed ENDPOINT and --from WHEN")


@deliveries.command(short_help="Resend every delivery that failed or was skipped since a given time.")
@click.option(
    "--from",
    "start",
    type=past_instant,
    required=True,
    metavar="WHEN",
    help="Start: an ISO 8601 time, or how long ago: 2h, 3d.",
)
@click.option(
    "--endpoint", metavar="ID", help="Only deliveries to this endpoint: its id, or its name in scheduled_actions.toml."
)
@team_option
@json_option
@pass_project
def recover(project: Project, *, start: datetime, endpoint: str | None, team_id: str | None) -> None:
    """Resend every delivery that failed or was skipped since --from, for example because its endpoint was disabled.

    The command works in batches and reports its progress. If interrupted, it can be repeated.
    """
    runtime = project.open_without_handlers()
    service = runtime.deliveries
    count = _run_steps(
        lambda after: service.recover(start, endpoint=endpoint, team_id=team_id, by=caller(), after=after),
        service.count_lost(start, endpoint=endpoint, team_id=team_id),
    )
    answer({"recovered": count}, f"{count:,} {'delivery is' if count == 1 else 'deliveries are'} pending again")
    if endpoint is not None:
        warn_if_disabled(endpoint, runtime.endpoint_directory.lookup(endpoint))


def _run_steps(run_step: Callable[[BatchProgress | None], BatchProgress], total: int | None) -> int:
    """Run batches until the last one; report the progress on standard error, and return the number of deliveries."""
    count, after = 0, None
    with progress(total) as advance:
        while after is None or not after.is_done:
            after = run_step(after)
            count += after.count
            advance(after.count)
    return count


def _attempt_lines(attempt: Mapping[str, Any]) -> list[str]:
    """Return a line for an attempt and, if there was an answer, an indented line for the answer."""
    at = local(datetime.fromisoformat(str(attempt["at"]))) if attempt.get("at") else ""
    took = f" in {attempt['duration_ms']} ms" if attempt.get("duration_ms") is not None else ""
    result = attempt.get("status") or attempt.get("error") or "no answer"
    answered = [f"  {attempt['answer']}"] if attempt.get("answer") else []
    return [f"{at}  attempt {attempt.get('attempt')}: {result}{took}", *answered]
