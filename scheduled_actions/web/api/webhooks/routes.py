"""Webhooks over HTTP: endpoints, deliveries, event types."""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING

from scheduled_actions.core.errors import (
    EndpointOfTheFile,
    ExtraMissing,
    InvalidArgument,
    NotConfigured,
    TooManyEndpoints,
    UnknownDelivery,
    UnknownEndpoint,
    UrlInvalid,
    WrongStatus,
)
from scheduled_actions.operations.tokens import Role
from scheduled_actions.web.api.requests.etags import as_it_was_seen, etag_of
from scheduled_actions.web.api.routing import Answer, Call, Route
from scheduled_actions.web.api.webhooks import models

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from scheduled_actions.database.connection import Connection
    from scheduled_actions.webhooks.endpoints.views import Shown


def list_endpoints(call: Call) -> Answer:
    """Answer a page of endpoints; of another team there are none, and a team sees none of the file's."""
    query: models.EndpointsQuery = call.query
    if not call.caller.sees(query.team_id):
        return Answer(models.EndpointsPage(endpoints=[], next_cursor=None))
    cursor = None if query.cursor is None else str(query.cursor)
    team_id = call.caller.team_id or query.team_id
    found, next_cursor = call.runtime.endpoints.page(team_id=team_id, cursor=cursor, limit=query.limit)
    shown = [models.Endpoint.model_validate(one) for one in found]
    return Answer(models.EndpointsPage(endpoints=shown, next_cursor=next_cursor))


def make_endpoint(call: Call) -> Answer:
    """Make an endpoint, of the caller's team where it has one; answer it with its secret, this once."""
    given: models.NewEndpoint = call.body
    settings = {name: getattr(given, name) for name in given.model_fields_set - {"team_id", "secret"}}
    made, secret = call.runtime.endpoints.create(
        **settings,
        team_id=call.caller.team_for(given.team_id),
        secret=given.secret,
        created_by=call.caller.name,
        connection=call.connection,
    )
    shown = models.Endpoint.model_validate(made)
    return Answer(
        models.MadeEndpoint(**dict(shown), secret=secret),
        HTTPStatus.CREATED,
        {"Location": f"{call.base}/webhooks/endpoints/{made.id}"},
    )


def show_endpoint(call: Call) -> Answer:
    """Answer one endpoint."""
    return _told(call.runtime.endpoints.get(call.path["id"], team_id=call.caller.team_id))


def change_endpoint(call: Call) -> Answer:
    """Change what is given of an endpoint; answer it as it is now."""
    changes: models.EndpointChanges = call.body
    with _as_it_was_seen(call) as connection:
        changed = call.runtime.endpoints.update(
            call.path["id"], team_id=call.caller.team_id, connection=connection, **changes.settings()
        )
    return _told(changed)


def delete_endpoint(call: Call) -> Answer:
    """Remove an endpoint; answer it as it was."""
    with _as_it_was_seen(call) as connection:
        was = call.runtime.endpoints.get(call.path["id"], team_id=call.caller.team_id)
        call.runtime.endpoints.delete(call.path["id"], team_id=call.caller.team_id, connection=connection)
    return Answer(models.Endpoint.model_validate(was))


def rotate_endpoint(call: Call) -> Answer:
    """Give an endpoint a new secret; answer it, this once."""
    given: models.Rotation = call.body
    with _as_it_was_seen(call) as connection:
        rotated, secret = call.runtime.endpoints.rotate(
            call.path["id"],
            team_id=call.caller.team_id,
            secret=given.secret,
            beside=given.beside,
            connection=connection,
        )
    told = _told(rotated)
    return replace(told, document=models.MadeEndpoint(**dict(models.Endpoint.model_validate(rotated)), secret=secret))


def _told(endpoint: Shown) -> Answer:
    shown = models.Endpoint.model_validate(endpoint)
    return Answer(shown, headers={"ETag": etag_of(_as_set(endpoint))})


def _as_it_was_seen(call: Call) -> AbstractContextManager[Connection | None]:
    return as_it_was_seen(call, call.runtime.endpoints.locked, _as_set)


def _as_set(endpoint: Shown) -> models.EndpointSettings:
    """Return what people set of it: a change is not refused because a delivery failed in between."""
    return models.EndpointSettings.model_validate(endpoint)


def test_endpoint(call: Call) -> Answer:
    """Schedule the delivery of a test event."""
    scheduled = call.runtime.endpoints.test(
        call.path["id"], team_id=call.caller.team_id, by=call.caller.name, connection=call.connection
    )
    return Answer(models.ScheduledDelivery(id=scheduled.id), HTTPStatus.ACCEPTED)


def replay_missed(call: Call) -> Answer:
    """Schedule what an endpoint has missed, a batch of it."""
    given: models.Replay = call.body
    step = call.runtime.deliveries.replay_missed(
        call.path["id"],
        given.since,
        team_id=call.caller.team_id,
        by=call.caller.name,
        after=models.step_of(given.cursor),
        limit=given.limit,
    )
    return Answer(models.Progress(count=step.count, more=not step.is_done, next_cursor=models.cursor_of(step)))


def list_deliveries(call: Call) -> Answer:
    """Answer a page of deliveries; of another team there are none."""
    query: models.DeliveriesQuery = call.query
    if not call.caller.sees(query.team_id):
        return Answer(models.DeliveriesPage(deliveries=[], next_cursor=None))
    found = call.runtime.deliveries.find(
        status=query.status,
        endpoint=query.endpoint,
        event=query.event,
        team_id=call.caller.team_id or query.team_id,
        cursor=query.cursor,
        limit=query.limit,
    )
    shown = [models.Delivery.model_validate(one) for one in found]
    return Answer(models.DeliveriesPage(deliveries=shown, next_cursor=found.next_cursor))


def show_delivery(call: Call) -> Answer:
    """Answer one delivery with all its attempts."""
    found = call.runtime.deliveries.get(call.path["id"], team_id=call.caller.team_id)
    return Answer(models.Delivery.model_validate(found))


def replay(call: Call) -> Answer:
    """Send one delivery again."""
    again = call.runtime.deliveries.replay(
        call.path["id"], team_id=call.caller.team_id, by=call.caller.name, connection=call.connection
    )
    return Answer(models.ScheduledDelivery(id=again.id), HTTPStatus.ACCEPTED)


def recover(call: Call) -> Answer:
    """Make lost deliveries pending again, a batch of them."""
    given: models.Recovery = call.body
    step = call.runtime.deliveries.recover(
        given.since,
        endpoint=given.endpoint,
        team_id=call.caller.team_id,
        by=call.caller.name,
        after=models.step_of(given.cursor),
        limit=given.limit,
    )
    return Answer(models.Progress(count=step.count, more=not step.is_done, next_cursor=models.cursor_of(step)))


def list_events(call: Call) -> Answer:
    """Answer the event types; to a team those that are declared, and those that it had itself."""
    found = call.runtime.endpoints.events(team_id=call.caller.team_id)
    return Answer(models.EventTypes(events=[models.EventType.model_validate(one) for one in found]))


_TAG = "Webhooks"
_SETTING = (InvalidArgument, UrlInvalid, NotConfigured, ExtraMissing)

_ETAG = {"ETag": "For If-Match: names the endpoint as it was set; how its deliveries fare does not count."}

ROUTES = (
    Route(
        method="GET",
        path="/webhooks/endpoints",
        function=list_endpoints,
        role=Role.VIEWER,
        tag=_TAG,
        summary="List the endpoints: those of the file, then those of the database",
        description="A token that is bound to a team sees that team's alone.",
        query=models.EndpointsQuery,
        answers={HTTPStatus.OK: (models.EndpointsPage, "A page.")},
    ),
    Route(
        method="POST",
        path="/webhooks/endpoints",
        function=make_endpoint,
        role=Role.OPERATOR,
        tag=_TAG,
        summary="Make an endpoint",
        description="Its secret is shown once, in this answer: it is stored encrypted.",
        body=models.NewEndpoint,
        answers={HTTPStatus.CREATED: (models.MadeEndpoint, "The endpoint.")},
        creates=True,
        shown_once="secret",
        headers={"Location": "Where the endpoint is."},
        refuses=(TooManyEndpoints, *_SETTING),
    ),
    Route(
        method="GET",
        path="/webhooks/endpoints/{id}",
        function=show_endpoint,
        role=Role.VIEWER,
        tag=_TAG,
        summary="Show an endpoint",
        answers={HTTPStatus.OK: (models.Endpoint, "The endpoint.")},
        headers=_ETAG,
        refuses=(UnknownEndpoint,),
    ),
    Route(
        method="PATCH",
        path="/webhooks/endpoints/{id}",
        function=change_endpoint,
        role=Role.OPERATOR,
        tag=_TAG,
        summary="Change an endpoint",
        description="What is left out stays. `enabled: true` is all that an endpoint of the file takes.",
        body=models.EndpointChanges,
        answers={HTTPStatus.OK: (models.Endpoint, "The endpoint as it is now.")},
        refuses=(UnknownEndpoint, EndpointOfTheFile, *_SETTING),
        headers=_ETAG,
        takes_if_match=True,
    ),
    Route(
        method="DELETE",
        path="/webhooks/endpoints/{id}",
        function=delete_endpoint,
        role=Role.OPERATOR,
        tag=_TAG,
        summary="Remove an endpoint",
        description="Deliveries that wait for it are skipped when they are due.",
        answers={HTTPStatus.OK: (models.Endpoint, "The endpoint as it was.")},
        refuses=(UnknownEndpoint, EndpointOfTheFile),
        takes_if_match=True,
    ),
    Route(
        method="POST",
        path="/webhooks/endpoints/{id}/rotate",
        function=rotate_endpoint,
        role=Role.OPERATOR,
        tag=_TAG,
        summary="Give an endpoint a new secret",
        description="It is shown once, in this answer. For a day, or as `beside` says, the one before signs, too.",
        body=models.Rotation,
        is_body_optional=True,
        answers={HTTPStatus.OK: (models.MadeEndpoint, "The endpoint.")},
        creates=True,
        shown_once="secret",
        refuses=(UnknownEndpoint, EndpointOfTheFile, *_SETTING),
        headers=_ETAG,
        takes_if_match=True,
    ),
    Route(
        method="POST",
        path="/webhooks/endpoints/{id}/test",
        function=test_endpoint,
        role=Role.OPERATOR,
        tag=_TAG,
        summary="Deliver a test event to an endpoint",
        description="The next tick delivers `webhook:test`, whatever the endpoint's patterns.",
        answers={HTTPStatus.ACCEPTED: (models.ScheduledDelivery, "It was scheduled.")},
        creates=True,
        refuses=(UnknownEndpoint,),
    ),
    Route(
        method="POST",
        path="/webhooks/endpoints/{id}/replay-missed",
        function=replay_missed,
        role=Role.OPERATOR,
        tag=_TAG,
        summary="Deliver what an endpoint would have got, had it been there",
        description="One batch of events; call again with `next_cursor` while there are `more`. Nothing goes twice.",
        body=models.Replay,
        answers={HTTPStatus.OK: (models.Progress, "How far it is.")},
        refuses=(UnknownEndpoint,),
    ),
    Route(
        method="GET",
        path="/webhooks/deliveries",
        function=list_deliveries,
        role=Role.VIEWER,
        tag=_TAG,
        summary="List deliveries, the newest first",
        description="Every filter given must match. Go on with `next_cursor` until it is null: a page looks at a "
        "bounded number of deliveries, so that a short one, even an empty one, may not be the last.",
        query=models.DeliveriesQuery,
        answers={HTTPStatus.OK: (models.DeliveriesPage, "A page.")},
    ),
    Route(
        method="POST",
        path="/webhooks/deliveries/recover",
        function=recover,
        role=Role.OPERATOR,
        tag=_TAG,
        summary="Make pending again what was lost since an instant",
        description="Deliveries that failed, and those that came for a disabled endpoint. One batch; call again with "
        "`next_cursor` while there are `more`.",
        body=models.Recovery,
        answers={HTTPStatus.OK: (models.Progress, "How far it is.")},
        refuses=(UnknownEndpoint,),
    ),
    Route(
        method="GET",
        path="/webhooks/deliveries/{id}",
        function=show_delivery,
        role=Role.VIEWER,
        tag=_TAG,
        summary="Show a delivery with every attempt",
        answers={HTTPStatus.OK: (models.Delivery, "The delivery.")},
        refuses=(UnknownDelivery,),
    ),
    Route(
        method="POST",
        path="/webhooks/deliveries/{id}/replay",
        function=replay,
        role=Role.OPERATOR,
        tag=_TAG,
        summary="Send a delivery again",
        description="With the same `webhook-id`: as the same message.",
        answers={HTTPStatus.ACCEPTED: (models.ScheduledDelivery, "It is on its way.")},
        creates=True,
        refuses=(UnknownDelivery, WrongStatus),
    ),
    Route(
        method="GET",
        path="/webhooks/events",
        function=list_events,
        role=Role.VIEWER,
        tag=_TAG,
        summary="List the event types that were declared or seen",
        answers={HTTPStatus.OK: (models.EventTypes, "The event types, by name.")},
    ),
)
