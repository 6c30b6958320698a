"""Webhook deliveries as people see them, and send them again: one, all that were lost, all that an endpoint missed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scheduled_actions.actions import store as actions
from scheduled_actions.core import checks as arguments
from scheduled_actions.core.action import PAYLOAD_LIMIT, RESULT_LIMIT, Scheduled, Status
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
from scheduled_actions.core.pages import READ_MOST
from scheduled_actions.database import clock
from scheduled_actions.database.transactions import borrowed_connection
from scheduled_actions.webhooks import deliveries_store as store
from scheduled_actions.webhooks.rules import filters, routing
from scheduled_actions.webhooks.sending import attempts_of, instant

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime
    from uuid import UUID

    from scheduled_actions.core.action import Action
    from scheduled_actions.core.retry import RetryPolicy
    from scheduled_actions.database.connection import Connection, Database
    from scheduled_actions.webhooks.deliveries_store import Delivery, Event, Selection
    from scheduled_actions.webhooks.endpoints.model import Endpoint
    from scheduled_actions.webhooks.endpoints.registry import EndpointBook

#: Deliveries made pending, or events looked at, by one statement.
BATCH = 500
BATCH_MOST = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One batch of a recovery or a replay; the next one takes it as `after`."""

    #: Deliveries on their way now.
    count: int
    is_done: bool
    #: What ended from then on is none of this run's.
    until: datetime
    #: What the walk is at, and where there.
    status: Status
    place: store.Place


class FoundDeliveries(list["Delivery"]):
    """The deliveries of a page, as a list that also says where the next one begins.

    Args:
        found: The page.
        next_cursor: Where the next page begins; None on the last.
    """

    def __init__(self, found: Iterable[Delivery], next_cursor: UUID | None) -> None:
        super().__init__(found)
        self.next_cursor = next_cursor


class Deliveries:
    """The webhook deliveries of one project.

    In every method `team_id` narrows what there is to one team: another team's delivery answers as an unknown one.
    """

    def __init__(self, database: Database, book: EndpointBook) -> None:
        self._database = database
        self._book = book

    def get(self, delivery_id: UUID | str, *, team_id: str | None = None) -> Delivery:
        """Return one delivery.

        Raises:
            UnknownDelivery: There is none of that id.
        """
        with self._database.connection() as connection:
            return self._get(connection, delivery_id, team_id)

    def find(
        self,
        *,
        status: str | None = None,
        endpoint: str | None = None,
        event: str | None = None,
        team_id: str | None = None,
        cursor: UUID | str | None = None,
        limit: int = 100,
    ) -> FoundDeliveries:
        """Return the newest deliveries that match every filter given.

        One page looks at a bounded number of deliveries: a short one, even an empty one, may not be the last.

        Args:
            status: One of an action's statuses.
            endpoint: Name or id.
            event: Exactly this event.
            team_id: Of this team only.
            cursor: The id of the last delivery of the page before.
            limit: 1 to 101.

        Raises:
            InvalidArgument: A filter cannot be.
        """
        arguments.check_limit(limit, most=READ_MOST)
        with self._database.connection() as connection:
            return FoundDeliveries(
                *store.find(
                    connection,
                    status=arguments.check_status(status),
                    endpoint=arguments.check_text("endpoint", endpoint),
                    event=arguments.check_text("event", event),
                    team_id=arguments.check_text("team_id", team_id),
                    before=None if cursor is None else _id(cursor),
                    limit=limit,
                )
            )

    def replay(
        self,
        delivery_id: UUID | str,
        *,
        team_id: str | None = None,
        by: str | None = None,
        connection: Connection | None = None,
    ) -> Scheduled:
        """Send one delivery again, with the same `webhook-id`; return the action that does it.

        What failed, was skipped or cancelled is pending again; of what arrived there is a new action.

        Raises:
            UnknownDelivery: There is none of that id.
            WrongStatus: It has not ended.
        """
        with borrowed_connection(self._database, connection) as lent, lent.transaction():
            found = self._get(lent, delivery_id, team_id)
            again = actions.retry(lent, found.id, by=by, team_id=team_id)
            if again is not None:
                return Scheduled(again.id, deduplicated=False)
            if found.status != Status.COMPLETED:
                remedy = "it goes out by itself, and run-now makes it due" if found.status == Status.PENDING else None
                raise WrongStatus(found.id, found.status, "completed, failed, cancelled or skipped", remedy=remedy)
            before = actions.get(lent, found.id)
            if before is None:
                raise UnknownDelivery(delivery_id)
            endpoint = self._book.any(found.endpoint)
            return actions.schedule(lent, _again(before, by, None if endpoint is None else endpoint.retry))

    def count_lost(self, since: datetime, *, endpoint: str | None = None, team_id: str | None = None) -> int:
        """Return how many deliveries were lost since an instant, counted to 100,000.

        Raises:
            UnknownEndpoint: There is none of that name or id; not said to a team.
            InvalidArgument: The instant is naive.
        """
        self._check_endpoint(endpoint, team_id)
        with self._database.connection() as connection:
            return store.count_lost(connection, self._selection(connection, since, None, endpoint, team_id))

    def recover(
        self,
        since: datetime,
        *,
        endpoint: str | None = None,
        team_id: str | None = None,
        by: str | None = None,
        after: Step | None = None,
        limit: int = BATCH,
    ) -> Step:
        """Make deliveries pending again that were lost since an instant: those that failed, and those skipped.

        One batch; call it with what it returned until it `is_done`. Whatever ends it early loses nothing: a new run
        finds what is left.

        Args:
            since: When they were lost; aware.
            endpoint: Of this endpoint only.
            team_id: Of this team only.
            by: Who asks, for their history.
            after: The step before.
            limit: Deliveries of this batch.

        Raises:
            UnknownEndpoint: There is none of that name or id; not said to a team.
            InvalidArgument: The instant is naive, or the limit none.
        """
        self._check_endpoint(endpoint, team_id)
        status = store.LOST[0] if after is None else after.status
        with self._database.connection() as connection:
            selection = self._selection(connection, since, after, endpoint, team_id)
            count = store.recover(connection, selection, status=status, by=by, limit=_batch(limit))
        return _step(store.LOST, status, count=count, is_over=count == 0, until=selection.until, place=store.Place())

    def replay_missed(
        self,
        endpoint: str,
        since: datetime,
        *,
        team_id: str | None = None,
        by: str | None = None,
        after: Step | None = None,
        limit: int = BATCH,
    ) -> Step:
        """Schedule what an endpoint would have got since an instant, had it been there; nothing goes to it twice.

        One batch of events; call it with what it returned until it `is_done`. A new run finds what is left.

        Args:
            endpoint: Its name or id.
            since: When the events were routed; aware.
            team_id: Only within this team.
            by: Who asks, for the events' history.
            after: The step before.
            limit: Events looked at.

        Raises:
            UnknownEndpoint: There is none of that name or id.
            InvalidArgument: The instant is naive, or the limit none.
            BudgetExceeded: The endpoint's filter takes too many steps for the next event.
        """
        wanted = self._endpoint(endpoint, team_id)
        status = store.ROUTED[0] if after is None else after.status
        place = store.Place() if after is None else after.place
        with self._database.connection() as connection:
            selection = self._selection(connection, since, after, wanted.name, wanted.team_id)
            events = store.missed(connection, selection, status=status, after=place, limit=_batch(limit))
            events, ids = _looked_at(wanted, events)
            count = 0
            if ids:
                count = store.deliver_missed(
                    connection,
                    ids,
                    endpoint=wanted.name,
                    until=selection.until,
                    retry=None if wanted.retry is None else wanted.retry.as_json(),
                    max_attempts=attempts_of(wanted.retry),
                    by=by,
                )
        last = store.Place(events[-1].completed_at, events[-1].id) if events else store.Place()
        return _step(store.ROUTED, status, count=count, is_over=not events, until=selection.until, place=last)

    def _get(self, connection: Connection, delivery_id: UUID | str, team_id: str | None) -> Delivery:
        found = store.get(connection, _id(delivery_id), team_id=team_id)
        if found is None:
            raise UnknownDelivery(delivery_id)
        return found

    def _endpoint(self, name: str, team_id: str | None) -> Endpoint:
        """Return the endpoint; to a team there are its own alone, though others get its events, too."""
        self._book.forget()
        found = self._book.any(name)
        if found is None or (team_id is not None and found.team_id != team_id):
            raise UnknownEndpoint(name)
        return found

    def _check_endpoint(self, name: str | None, team_id: str | None) -> None:
        """Refuse a name that no endpoint has; a team learns no more of others' than that nothing was lost."""
        if name is not None and team_id is None and self._book.any(name) is None:
            raise UnknownEndpoint(name)

    @staticmethod
    def _selection(
        connection: Connection, since: datetime, after: Step | None, endpoint: str | None, team_id: str | None
    ) -> Selection:
        arguments.check_aware("since", since)
        until = clock.now(connection) if after is None else after.until
        return store.Selection(
            since=since,
            until=until,
            endpoint=arguments.check_text("endpoint", endpoint),
            team_id=arguments.check_text("team_id", team_id),
        )


def _id(delivery_id: UUID | str) -> UUID:
    try:
        return arguments.check_id(delivery_id)
    except UnknownAction:
        raise UnknownDelivery(delivery_id) from None


def _batch(limit: int) -> int:
    if not 1 <= limit <= BATCH_MOST:
        raise InvalidArgument("limit", limit, f"between 1 and {BATCH_MOST}")
    return limit


def _step(
    statuses: tuple[Status, ...], status: Status, *, count: int, is_over: bool, until: datetime, place: store.Place
) -> Step:
    """Return the step: one status is walked after the other."""
    if not is_over:
        return Step(count=count, is_done=False, until=until, status=status, place=place)
    is_last = status == statuses[-1]
    following = status if is_last else statuses[statuses.index(status) + 1]
    return Step(count=count, is_done=is_last, until=until, status=following, place=store.Place())


def _looked_at(endpoint: Endpoint, events: list[Event]) -> tuple[list[Event], list[UUID]]:
    """Return the events that one budget is enough for, and the ids of those that an endpoint wants.

    Raises:
        BudgetExceeded: The filter takes too many steps for the first one.
    """
    ids: list[UUID] = []
    budget = EvaluationBudget("the filter")
    for number, event in enumerate(events):
        what = f'the filter of endpoint "{endpoint.name}" for event {event.id}'
        try:
            is_wanted = _wants(endpoint, event, EvaluationBudget(what, steps=filters.FILTER_STEPS, within=budget))
        except BudgetExceeded:
            if not number:
                raise
            return events[:number], ids
        if is_wanted:
            ids.append(event.id)
    return events, ids


def _wants(endpoint: Endpoint, event: Event, budget: EvaluationBudget) -> bool:
    payload = event.payload
    if not isinstance(payload, dict):
        return False
    body = {
        "event": payload.get("event"),
        "entity": payload.get("entity_type"),
        "entity_id": payload.get("entity_id"),
        "team_id": event.team_id,
        "data": payload.get("data"),
    }
    try:
        is_matched = any(routing.matches(str(body["event"]), pattern) for pattern in endpoint.patterns)
        return is_matched and endpoint.belongs_to(event.team_id) and filters.fits(body, endpoint.filter, budget)
    except InvalidArgument:
        return False


def _again(before: Action, by: str | None, retry: RetryPolicy | None) -> dict[str, Any]:
    """Return a delivery once more, as the SQL function takes it: the same message, of the same event."""
    notes: Mapping[str, Any] = before.metadata or {}
    metadata = {
        "event_action_id": notes.get("event_action_id", str(before.id)),
        "event_at": notes.get("event_at", instant(before.created_at)),
        "message_id": notes.get("message_id", str(before.id)),
    }
    return {
        "action_type": before.action_type,
        "payload": encode("payload", before.payload, limit=PAYLOAD_LIMIT),
        "team_id": before.team_id,
        "priority": before.priority,
        "max_attempts": before.max_attempts,
        "retry": None if retry is None else encode("retry", retry.as_json(), limit=RESULT_LIMIT),
        "dedup_window": 0,
        "target": arguments.target_text({"type": before.target_type, "id": before.target_id})
        if before.target_type is not None and before.target_id is not None
        else None,
        "user_id": before.user_id,
        "metadata": encode("metadata", metadata, limit=RESULT_LIMIT),
        "created_by": by,
    }
