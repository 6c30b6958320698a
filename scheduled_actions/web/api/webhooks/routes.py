"""Routes of webhook endpoints, deliveries and event types."""

from functools import partial
from http import HTTPStatus
from typing import Any

from scheduled_actions.core.errors import (
    BudgetExceeded,
    EndpointDeclaredInFile,
    ExtraMissing,
    InvalidArgument,
    NotConfigured,
    TooManyEndpoints,
    UnknownDelivery,
    UnknownEndpoint,
    UrlInvalid,
    WrongStatus,
)
from scheduled_actions.web.api.models import EmptyRequest, TeamPageQuery
from scheduled_actions.web.api.routing import Answer, Call, Locked, Route, found_page, require_if_match
from scheduled_actions.web.api.webhooks.models import (
    BatchResult,
    CreatedEndpoint,
    CreateEndpointRequest,
    DeliveriesQuery,
    DeliveryDocument,
    DeliveryPage,
    EndpointDocument,
    EndpointPage,
    EndpointSettingsDocument,
    EventTypes,
    RecoverDeliveriesRequest,
    ReplayEventsRequest,
    RotateSecretRequest,
    ScheduledDelivery,
    UpdateEndpointRequest,
    cursor_of,
    step_of,
)
from scheduled_actions.webhooks.deliveries import BatchProgress
from scheduled_actions.webhooks.endpoints.model import EndpointDetails


def list_endpoints(call: Call[TeamPageQuery, EmptyRequest]) -> Answer:
    """Return a page of endpoints; callers of a team do not see the endpoints of `scheduled_actions.toml`."""
    cursor = None if call.query.cursor is None else str(call.query.cursor)
    return found_page(call, EndpointPage, partial(call.runtime.endpoints.page, team_id=call.team_filter, cursor=cursor))


def create_endpoint(call: Call[EmptyRequest, CreateEndpointRequest]) -> Answer:
    """Create an endpoint; return it with its secret."""
    given = call.body.given() | {"team_id": call.caller.team_for(call.body.team_id)}
    endpoint, secret = call.runtime.endpoints.create(**given, created_by=call.caller.name, connection=call.connection)
    return (
        Answer(EndpointDocument.model_validate(endpoint))
        .extended(CreatedEndpoint, secret=secret)
        .located(f"{call.base}/webhooks/endpoints/{endpoint.id}", is_new=True)
    )


def get_endpoint(call: Call[EmptyRequest, EmptyRequest]) -> Answer:
    """Return an endpoint by id or name."""
    return _answer(call.runtime.endpoints.get(call.reference, team_id=call.caller.team_id))


def update_endpoint(call: Call[EmptyRequest, UpdateEndpointRequest]) -> Answer:
    """Update an endpoint; omitted fields keep their values."""
    with _require_if_match(call) as connection:
        return _answer(
            call.runtime.endpoints.update(
                call.reference, team_id=call.caller.team_id, connection=connection, **call.body.given()
            )
        )


def delete_endpoint(call: Call[EmptyRequest, EmptyRequest]) -> Answer:
    """Delete an endpoint and return its last state."""
    with _require_if_match(call) as connection:
        deleted = call.runtime.endpoints.get(call.reference, team_id=call.caller.team_id)
        call.runtime.endpoints.delete(call.reference, team_id=call.caller.team_id, connection=connection)
    return Answer(EndpointDocument.model_validate(deleted))


def rotate_endpoint_secret(call: Call[EmptyRequest, RotateSecretRequest]) -> Answer:
    """Replace the secret of an endpoint; return the endpoint with the new secret."""
    with _require_if_match(call) as connection:
        rotated, secret = call.runtime.endpoints.rotate(
            call.reference,
            team_id=call.caller.team_id,
            secret=call.body.secret,
            grace_period=call.body.grace_seconds,
            connection=connection,
        )
    return _answer(rotated).extended(CreatedEndpoint, secret=secret)


def _answer(endpoint: EndpointDetails) -> Answer:
    return Answer.with_etag(
        EndpointDocument.model_validate(endpoint), version=EndpointSettingsDocument.model_validate(endpoint)
    )


def _require_if_match(call: Call[Any, Any]) -> Locked:
    """Compare If-Match with the settings of the endpoint, which deliveries do not change."""
    lock = partial(call.runtime.endpoints.locked, call.reference, team_id=call.caller.team_id)
    return require_if_match(call, lock, EndpointSettingsDocument.model_validate)


def send_test_event(call: Call[EmptyRequest, EmptyRequest]) -> Answer:
    """Schedule the delivery of a test event."""
    scheduled = call.runtime.endpoints.test(
        call.reference, team_id=call.caller.team_id, by=call.caller.name, connection=call.connection
    )
    return Answer(ScheduledDelivery(id=scheduled.id), HTTPStatus.ACCEPTED)


def replay_missed_events(call: Call[EmptyRequest, ReplayEventsRequest]) -> Answer:
    """Schedule deliveries for a batch of the events that an endpoint has missed."""
    return _run_batch(call, partial(call.runtime.deliveries.replay_missed, call.reference))


def list_deliveries(call: Call[DeliveriesQuery, EmptyRequest]) -> Answer:
    """Return a page of deliveries, newest first; an empty page for a team that the caller may not see."""
    return found_page(call, DeliveryPage, partial(call.runtime.deliveries.page, **call.filters))


def get_delivery(call: Call[EmptyRequest, EmptyRequest]) -> Answer:
    """Return a delivery with its attempts."""
    return Answer(
        DeliveryDocument.model_validate(call.runtime.deliveries.get(call.reference, team_id=call.caller.team_id))
    )


def replay_delivery(call: Call[EmptyRequest, EmptyRequest]) -> Answer:
    """Resend a delivery that has ended; return the action that resends it."""
    scheduled = call.runtime.deliveries.replay(
        call.reference, team_id=call.caller.team_id, by=call.caller.name, connection=call.connection
    )
    return Answer(ScheduledDelivery(id=scheduled.id), HTTPStatus.ACCEPTED)


def recover_deliveries(call: Call[EmptyRequest, RecoverDeliveriesRequest]) -> Answer:
    """Make a batch of failed and skipped deliveries pending again."""
    return _run_batch(call, partial(call.runtime.deliveries.recover, endpoint=call.body.endpoint))


def _run_batch(call: Call[Any, Any], run: partial[BatchProgress]) -> Answer:
    step = run(
        call.body.start,
        team_id=call.caller.team_id,
        by=call.caller.name,
        after=step_of(call.body.cursor),
        limit=call.body.limit,
    )
    return Answer(
        BatchResult.model_validate({"count": step.count, "more": not step.is_done, "next_cursor": cursor_of(step)})
    )


def list_event_types(call: Call[EmptyRequest, EmptyRequest]) -> Answer:
    """Return the declared event types, those of watched tables, and those emitted before in the caller's team."""
    return Answer(EventTypes.model_validate({"events": call.runtime.endpoints.events(team_id=call.caller.team_id)}))


_CHANGING = (UnknownEndpoint, EndpointDeclaredInFile)
_SETTING = (InvalidArgument, UrlInvalid, NotConfigured, ExtraMissing)
_ETAG = {"ETag": "Version of the endpoint's settings, for If-Match; deliveries do not change the version."}
_BATCH = "Processes one batch; while `more` is true, repeat the request with `next_cursor` as `cursor`."
_ONE = {HTTPStatus.OK: (EndpointDocument, "The endpoint.")}

ROUTES = (
    Route(
        "GET", "/webhooks/endpoints", list_endpoints,
        "List endpoints: first those of `scheduled_actions.toml`, then those of the database", tag="Webhooks",
        description="With a team's token, only that team's endpoints are listed.",
        query=TeamPageQuery, answers={HTTPStatus.OK: (EndpointPage, "A page of endpoints.")},
    ),
    Route(
        "POST", "/webhooks/endpoints", create_endpoint, "Create an endpoint", tag="Webhooks",
        description="The secret is shown only in this response; it is stored encrypted.",
        body=CreateEndpointRequest, answers={HTTPStatus.CREATED: (CreatedEndpoint, "The endpoint.")},
        headers={"Location": "Path of the endpoint."}, refuses=(TooManyEndpoints, *_SETTING), creates=True,
        shown_once="secret",
    ),
    Route(
        "GET", "/webhooks/endpoints/{id}", get_endpoint, "Get an endpoint", tag="Webhooks", answers=_ONE, headers=_ETAG,
        refuses=(UnknownEndpoint,),
    ),
    Route(
        "PATCH", "/webhooks/endpoints/{id}", update_endpoint, "Update an endpoint", tag="Webhooks",
        description="Omitted fields keep their values. An endpoint of `scheduled_actions.toml` accepts only `enabled: "
        "true`.",
        body=UpdateEndpointRequest, answers=_ONE, headers=_ETAG, refuses=(*_CHANGING, *_SETTING), takes_if_match=True,
    ),
    Route(
        "DELETE", "/webhooks/endpoints/{id}", delete_endpoint, "Delete an endpoint", tag="Webhooks",
        description="The endpoint's pending deliveries are skipped when they are due.",
        answers={HTTPStatus.OK: (EndpointDocument, "The deleted endpoint.")}, refuses=_CHANGING, takes_if_match=True,
    ),
    Route(
        "POST", "/webhooks/endpoints/{id}/rotate", rotate_endpoint_secret, "Rotate the secret of an endpoint",
        tag="Webhooks",
        description="The new secret is shown only in this response. The previous one stays valid for `grace_seconds`.",
        body=RotateSecretRequest, is_body_optional=True,
        answers={HTTPStatus.OK: (CreatedEndpoint, "The endpoint.")}, headers=_ETAG, refuses=(*_CHANGING, *_SETTING),
        creates=True, shown_once="secret", takes_if_match=True,
    ),
    Route(
        "POST", "/webhooks/endpoints/{id}/test", send_test_event, "Send a test event to an endpoint", tag="Webhooks",
        description="Schedules the delivery of a `webhook:test` event, regardless of the endpoint's patterns and "
        "filter. The delivery is skipped if the endpoint is disabled.",
        answers={HTTPStatus.ACCEPTED: (ScheduledDelivery, "The delivery was scheduled.")}, refuses=(UnknownEndpoint,),
        creates=True,
    ),
    Route(
        "POST", "/webhooks/endpoints/{id}/replay-missed", replay_missed_events,
        "Send the events that an endpoint has missed", tag="Webhooks",
        description="Schedules deliveries of matching events that were not routed to the endpoint, for example "
        f"because the endpoint did not exist or was disabled. {_BATCH}",
        body=ReplayEventsRequest, answers={HTTPStatus.OK: (BatchResult, "The progress.")},
        refuses=(UnknownEndpoint, BudgetExceeded),
    ),
    Route(
        "GET", "/webhooks/deliveries", list_deliveries, "List deliveries, newest first", tag="Webhooks",
        description="All given filters must match. A page examines a limited number of deliveries, so a short or "
        "empty page may not be the last: continue until `next_cursor` is null.",
        query=DeliveriesQuery, answers={HTTPStatus.OK: (DeliveryPage, "A page of deliveries.")},
    ),
    Route(
        "POST", "/webhooks/deliveries/recover", recover_deliveries, "Retry failed and skipped deliveries",
        tag="Webhooks",
        description="Makes failed deliveries pending again, and those that were skipped, for example because their "
        f"endpoint was disabled. {_BATCH}",
        body=RecoverDeliveriesRequest, answers={HTTPStatus.OK: (BatchResult, "The progress.")},
        refuses=(UnknownEndpoint,),
    ),
    Route(
        "GET", "/webhooks/deliveries/{id}", get_delivery, "Get a delivery with its attempts", tag="Webhooks",
        answers={HTTPStatus.OK: (DeliveryDocument, "The delivery.")}, refuses=(UnknownDelivery,),
    ),
    Route(
        "POST", "/webhooks/deliveries/{id}/replay", replay_delivery, "Resend a delivery", tag="Webhooks",
        description="Resends the message with the same `webhook-id`. The delivery must have ended.",
        answers={HTTPStatus.ACCEPTED: (ScheduledDelivery, "The delivery was scheduled.")},
        refuses=(UnknownDelivery, WrongStatus), creates=True,
    ),
    Route(
        "GET", "/webhooks/events", list_event_types, "List the event types", tag="Webhooks",
        answers={HTTPStatus.OK: (EventTypes, "The event types, by name.")},
    ),
)  # fmt: skip
