"""Find webhook deliveries, and resend them: a single delivery, all lost ones, or all that an endpoint missed."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from scheduled_actions.actions import store as actions
from scheduled_actions.core import checks as arguments
from scheduled_actions.core.action import PAYLOAD_LIMIT, RESULT_LIMIT, Action, Scheduled, Status
from scheduled_actions.core.errors import (
    BudgetExceeded,
    InvalidArgument,
    UnknownAction,
    UnknownDelivery,
    UnknownEndpoint,
    WrongStatus,
)
from scheduled_actions.core.evaluation_budget import EvaluationBudget
from scheduled_actions.core.json_text import encode
from scheduled_actions.core.pages import MAX_ROWS_READ
from scheduled_actions.core.retry import RetryPolicy
from scheduled_actions.core.wake import Wake
from scheduled_actions.database import clock
from scheduled_actions.database.connection import Connection, Database
from scheduled_actions.database.transactions import announce, borrowed_connection
from scheduled_actions.webhooks import deliveries_store as store
from scheduled_actions.webhooks.endpoints.directory import EndpointDirectory
from scheduled_actions.webhooks.endpoints.model import Endpoint
from scheduled_actions.webhooks.rules import filters, routing
from scheduled_actions.webhooks.sending import event_content, format_instant, max_attempts_of, target_of

#: Default size of a batch: deliveries made pending, or events read.
BATCH_SIZE = 500
MAX_BATCH_SIZE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchProgress:
    """The result of one batch of a recovery or replay; pass it to the next call as `after`."""

    #: Number of deliveries that this batch made pending or scheduled.
    count: int
    is_done: bool
    #: When the first batch ran; deliveries and events that ended later are left out.
    until: datetime
    #: The status of the deliveries or events that the next batch reads.
    status: Status
    #: The event after which the next batch starts; both of its fields are None at the beginning.
    place: store.EventCursor


@dataclass(frozen=True, slots=True)
class Deliveries:
    """The webhook deliveries of one project.

    In every method, `team_id` restricts the call to one team; deliveries of other teams are treated as unknown.

    Args:
        database: Holds the deliveries.
        directory: Looks up endpoints.
        wake: Starts a tick for resent deliveries; None leaves them to the cron.
    """

    database: Database
    directory: EndpointDirectory
    wake: Wake | None = None

    def get(self, delivery_id: UUID | str, *, team_id: str | None = None) -> store.Delivery:
        """Return a delivery by id.

        Raises:
            UnknownDelivery: No delivery has that id.
        """
        with self.database.connection() as connection:
            return _get(connection, delivery_id, team_id)

    def page(
        self,
        *,
        status: str | None = None,
        endpoint: str | None = None,
        event: str | None = None,
        team_id: str | None = None,
        cursor: UUID | str | None = None,
        limit: int = 100,
    ) -> tuple[list[store.Delivery], UUID | None]:
        """Return the newest deliveries that match every given filter, and the cursor of the next page.

        A page reads a bounded number of actions: a short or empty page is the last only if the cursor is None.

        Args:
            status: A status of actions, such as "failed".
            endpoint: Name or id of the endpoint.
            event: The exact event type.
            team_id: Only deliveries of this team.
            cursor: The cursor returned with the previous page; None: the first page.
            limit: Maximum number of deliveries on the page, 1 to 101.

        Raises:
            InvalidArgument: A filter or the limit is invalid.
            UnknownDelivery: The cursor is not an id.
        """
        arguments.check_limit(limit, most=MAX_ROWS_READ)
        with self.database.connection() as connection:
            return store.find(
                connection,
                status=arguments.check_status(status),
                endpoint=arguments.check_text("endpoint", endpoint),
                event=arguments.check_text("event", event),
                team_id=arguments.check_text("team_id", team_id),
                before=None if cursor is None else _id(cursor),
                limit=limit,
            )

    def replay(
        self,
        delivery_id: UUID | str,
        *,
        team_id: str | None = None,
        by: str | None = None,
        connection: Connection | None = None,
    ) -> Scheduled:
        """Resend one delivery with the same `webhook-id`; return the action that resends it.

        A failed, skipped or cancelled delivery becomes pending again. For a completed delivery, a new action is
        scheduled.

        Args:
            delivery_id: The id of the delivery.
            team_id: Only a delivery of this team; None: of any team.
            by: The requester, stored in the history of the delivery, or as the creator of the new action.
            connection: Joins the caller's transaction; None: a new transaction.

        Raises:
            UnknownDelivery: No delivery has that id.
            WrongStatus: The delivery is still pending or running.
        """
        with borrowed_connection(self.database, connection) as lent, lent.transaction():
            resent = self._replay(lent, delivery_id, team_id, by)
        announce(self.wake, connection)
        return resent

    def _replay(self, lent: Connection, delivery_id: UUID | str, team_id: str | None, by: str | None) -> Scheduled:
        found = _get(lent, delivery_id, team_id)
        retried = actions.one(lent, "retry_action", id=found.id, by=by, team_id=team_id)
        if retried is not None:
            return Scheduled(retried.id, deduplicated=False)
        if found.status != Status.COMPLETED:
            remedy = (
                "a pending delivery is sent automatically; to send it now, run the action"
                if found.status == Status.PENDING
                else None
            )
            raise WrongStatus(found.id, found.status, "completed, failed, cancelled or skipped", remedy=remedy)
        action = actions.one(lent, "get_action", id=found.id, team_id=None)
        if action is None:
            raise UnknownDelivery(delivery_id)
        endpoint = self.directory.lookup(found.endpoint)
        return actions.schedule(lent, _resend(action, by, None if endpoint is None else endpoint.retry))

    def count_lost(self, since: datetime, *, endpoint: str | None = None, team_id: str | None = None) -> int:
        """Return the number of deliveries that failed or were skipped since an instant, at most 100,000.

        Args:
            since: Only deliveries that ended at or after this instant; aware.
            endpoint: Only deliveries to this endpoint (name or id); None: to all.
            team_id: Only deliveries of this team; None: of all teams.

        Raises:
            UnknownEndpoint: No endpoint has that name or id; with `team_id` the result is 0 instead.
            InvalidArgument: The instant is naive.
        """
        self._check_endpoint(endpoint, team_id)
        with self.database.connection() as connection:
            return store.count_lost(connection, _selection(since, clock.now(connection), endpoint, team_id))

    def recover(
        self,
        since: datetime,
        *,
        endpoint: str | None = None,
        team_id: str | None = None,
        by: str | None = None,
        after: BatchProgress | None = None,
        limit: int = BATCH_SIZE,
    ) -> BatchProgress:
        """Retry deliveries that have failed or been skipped since an instant; their attempt counts restart at zero.

        Processes one batch; repeat with the result as `after` until `is_done` is true. An interrupted recovery can be
        restarted without `after`.

        Args:
            since: Only deliveries that ended at or after this instant; aware.
            endpoint: Only deliveries to this endpoint (name or id); None: to all.
            team_id: Only deliveries of this team; None: of all teams.
            by: The requester, stored in the history of each delivery.
            after: The result of the previous batch; None for the first.
            limit: Maximum number of deliveries in this batch, 1 to 1,000.

        Raises:
            UnknownEndpoint: No endpoint has that name or id; with `team_id` the count is 0 instead.
            InvalidArgument: The instant is naive, or the limit is invalid.
        """
        arguments.check_limit(limit, most=MAX_BATCH_SIZE)
        self._check_endpoint(endpoint, team_id)
        with self.database.connection() as connection:
            batch = after or _first_batch(connection, store.LOST)
            selection = _selection(since, batch.until, endpoint, team_id)
            count = store.recover(connection, selection, status=batch.status, by=by, limit=limit)
        announce(self.wake, None)
        return _progress(batch, store.LOST, count=count, following=store.EventCursor() if count else None)

    def replay_missed(
        self,
        endpoint: str,
        since: datetime,
        *,
        team_id: str | None = None,
        by: str | None = None,
        after: BatchProgress | None = None,
        limit: int = BATCH_SIZE,
    ) -> BatchProgress:
        """Schedule deliveries of the events that an endpoint missed since an instant.

        Events that were routed to the endpoint are left out, as are events that its patterns or filter reject.
        Processes one batch of events; repeat with the result as `after` until `is_done` is true.

        Args:
            endpoint: Name or id of the endpoint.
            since: Only events routed at or after this instant; aware.
            team_id: Only an endpoint of this team; None: any endpoint.
            by: The requester, stored in the history of each event, and as the creator of each delivery.
            after: The result of the previous batch; None for the first.
            limit: Maximum number of events in this batch, 1 to 1,000.

        Raises:
            UnknownEndpoint: No endpoint has that name or id (in that team).
            InvalidArgument: The instant is naive, or the limit is invalid.
            BudgetExceeded: The endpoint's filter takes too many steps for the first event of the batch.
        """
        arguments.check_limit(limit, most=MAX_BATCH_SIZE)
        self.directory.forget()
        wanted = self.directory.lookup(endpoint)
        # A team can replay events to its own endpoints only, not to endpoints without a team.
        if wanted is None or (team_id is not None and wanted.team_id != team_id):
            raise UnknownEndpoint(endpoint)
        count, retry = 0, wanted.retry
        with self.database.connection() as connection:
            batch = after or _first_batch(connection, store.ROUTED)
            selection = _selection(since, batch.until, wanted.name, wanted.team_id)
            events = store.missed(connection, selection, status=batch.status, after=batch.place, limit=limit)
            events, ids = _within_budget(wanted, events)
            if ids:
                count = store.deliver_missed(
                    connection,
                    ids,
                    endpoint=wanted.name,
                    until=batch.until,
                    retry=None if retry is None else retry.as_json(),
                    max_attempts=max_attempts_of(retry),
                    by=by,
                )
        announce(self.wake, None)
        following = store.EventCursor(events[-1].completed_at, events[-1].id) if events else None
        return _progress(batch, store.ROUTED, count=count, following=following)

    def _check_endpoint(self, name: str | None, team_id: str | None) -> None:
        """Check that an endpoint exists; with a team, nothing is checked, so that endpoints of other teams stay hidden.

        Raises:
            UnknownEndpoint: No endpoint has that name or id.
        """
        if name is not None and team_id is None and self.directory.lookup(name) is None:
            raise UnknownEndpoint(name)


def _get(connection: Connection, delivery_id: UUID | str, team_id: str | None) -> store.Delivery:
    found = store.get(connection, _id(delivery_id), team_id=team_id)
    if found is None:
        raise UnknownDelivery(delivery_id)
    return found


def _id(delivery_id: UUID | str) -> UUID:
    try:
        return arguments.check_id(delivery_id)
    except UnknownAction:
        raise UnknownDelivery(delivery_id) from None


def _first_batch(connection: Connection, statuses: tuple[Status, ...]) -> BatchProgress:
    return BatchProgress(
        count=0, is_done=False, until=clock.now(connection), status=statuses[0], place=store.EventCursor()
    )


def _selection(since: datetime, until: datetime, endpoint: str | None, team_id: str | None) -> dict[str, Any]:
    return {
        "since": arguments.check_instant("since", since),
        "until": until,
        "endpoint": arguments.check_text("endpoint", endpoint),
        "team_id": arguments.check_text("team_id", team_id),
    }


def _progress(
    batch: BatchProgress, statuses: tuple[Status, ...], *, count: int, following: store.EventCursor | None
) -> BatchProgress:
    """Return the progress after a batch; if `following` is None, the next status follows, or the batches are done."""
    if following is not None:
        return replace(batch, count=count, place=following)
    if batch.status == statuses[-1]:
        return replace(batch, count=count, is_done=True, place=store.EventCursor())
    return replace(batch, count=count, status=statuses[statuses.index(batch.status) + 1], place=store.EventCursor())


def _within_budget(endpoint: Endpoint, events: list[store.RoutedEvent]) -> tuple[list[store.RoutedEvent], list[UUID]]:
    """Return the first events, as many as one budget can evaluate, and the ids of those that the endpoint accepts.

    Raises:
        BudgetExceeded: The filter takes too many steps for the first event.
    """
    ids: list[UUID] = []
    budget = EvaluationBudget("the filter")
    for number, event in enumerate(events):
        what = f'the filter of endpoint "{endpoint.name}" for event {event.id}'
        try:
            if _accepts(endpoint, event, EvaluationBudget(what, steps=filters.FILTER_STEPS, within=budget)):
                ids.append(event.id)
        except BudgetExceeded:
            if not number:
                raise
            return events[:number], ids
    return events, ids


def _accepts(endpoint: Endpoint, event: store.RoutedEvent, budget: EvaluationBudget) -> bool:
    if not isinstance(event.payload, dict):
        return False
    body = event_content(event.payload, event.team_id)
    try:
        is_matched = any(routing.matches(str(body["event"]), pattern) for pattern in endpoint.patterns)
        return is_matched and endpoint.belongs_to(event.team_id) and filters.fits(body, endpoint.filter, budget)
    except InvalidArgument:
        return False


def _resend(action: Action, by: str | None, retry: RetryPolicy | None) -> dict[str, Any]:
    """Return the arguments of `actions.schedule` for a new delivery of the same message."""
    notes: Mapping[str, Any] = action.metadata or {}
    metadata = {
        "event_action_id": notes.get("event_action_id", str(action.id)),
        "event_at": notes.get("event_at", format_instant(action.created_at)),
        "message_id": notes.get("message_id", str(action.id)),
    }
    return {
        "action_type": action.action_type,
        "payload": encode("payload", action.payload, limit=PAYLOAD_LIMIT),
        "team_id": action.team_id,
        "priority": action.priority,
        "max_attempts": action.max_attempts,
        "retry": None if retry is None else encode("retry", retry.as_json(), limit=RESULT_LIMIT),
        "dedup_window": 0,
        "target": arguments.target_text(target_of(action)),
        "user_id": action.user_id,
        "metadata": encode("metadata", metadata, limit=RESULT_LIMIT),
        "created_by": by,
    }
