"""Handle `webhook:send`: schedule one delivery of an event per endpoint, and post a delivery.

Events and deliveries are actions of the same type. Without `endpoint` in its payload, the action is an event: it is
routed, and one delivery is scheduled per matching endpoint. With `endpoint`, it is a delivery.
"""

import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, field_validator

from scheduled_actions.core import signing, tracing
from scheduled_actions.core.action import Action
from scheduled_actions.core.errors import BudgetExceeded, InvalidArgument, ScheduledActionsError
from scheduled_actions.core.log import log
from scheduled_actions.core.messages import nearest
from scheduled_actions.core.retry import Delays, RetryPolicy
from scheduled_actions.outbound import delivery
from scheduled_actions.outbound.network import PostResult
from scheduled_actions.registry.handler import Context, Fail, RetryAfter, Skip, Snooze
from scheduled_actions.webhooks.endpoints.directory import EndpointDirectory, fits, is_id
from scheduled_actions.webhooks.endpoints.model import Endpoint
from scheduled_actions.webhooks.endpoints.store import DISABLED_EVENT, FAILING_EVENT
from scheduled_actions.webhooks.rules import routing
from scheduled_actions.webhooks.rules.filters import FILTER_STEPS
from scheduled_actions.webhooks.rules.throttle import DeferralReason

ACTION_TYPE = "webhook:send"
#: The retry table of Standard Webhooks after the immediate attempt: five seconds to a day, three days in total.
DELIVERY_RETRY = Delays((5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400), jitter="equal")
#: Seconds of an attempt reserved for its settlement.
SETTLE_SECONDS = 0.5
#: Seconds that a delivery waits for its slot under a rate limit; it is deferred if it would wait longer.
RATE_PATIENCE_SECONDS = 1.0
#: Seconds that a delivery waits for other deliveries to the same endpoint.
SLOT_PATIENCE_SECONDS = 5.0

#: Keys of a delivery's metadata. `_FILTER_STEPS`: the number of steps that the filter exceeded at fan-out.
_EVENT_AT = "event_at"
_EVENT_ACTION_ID = "event_action_id"
_MESSAGE_ID = "message_id"
_FILTER_STEPS = "filter_steps"
_ENDPOINT_EVENTS = frozenset({DISABLED_EVENT, FAILING_EVENT})
#: Statuses whose `Retry-After` is honored.
_RETRY_AFTER_STATUSES = frozenset({429, 502, 503, 504})


class WebhookEvent(BaseModel):
    """The payload of `webhook:send`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: `entity:verb`.
    event: Annotated[str, Field(min_length=1, max_length=routing.NAME_LIMIT)]
    #: The type of the entity.
    entity_type: Annotated[str, Field(min_length=1, max_length=200)]
    #: A string or an integer, delivered unchanged. JavaScript rounds numbers above 2**53: send those as strings.
    entity_id: (
        Annotated[str, Field(strict=True, min_length=1, max_length=500)]
        | Annotated[int, Field(strict=True, ge=-(2**63), lt=2**63)]
    )
    #: Any JSON value.
    data: Any = Field(default_factory=dict)
    #: The name or id of the endpoint of a delivery; None: the event itself.
    endpoint: Annotated[str, Field(min_length=1, max_length=100)] | None = None

    @field_validator("event")
    @classmethod
    def _is_an_event(cls, value: str) -> str:
        try:
            routing.split_event(value)
        except InvalidArgument as error:
            raise ValueError(f"should be {error.expected}") from None
        return value


class DeliveryFailed(ScheduledActionsError):
    """An attempt of a delivery failed; the delivery is retried according to its retry policy."""

    code = "delivery_failed"


def event_payload(
    event: str,
    *,
    entity_id: str | int | UUID,
    data: Any,  # noqa: ANN401 - any JSON
    endpoint: str | None = None,
) -> dict[str, Any]:
    """Return the payload of `webhook:send`; the entity type is the part of the event before its first colon.

    Raises:
        InvalidArgument: The event is not a valid `entity:verb`.
    """
    entity_type, _ = routing.split_event(event)
    payload = {
        "event": event,
        "entity_type": entity_type,
        "entity_id": str(entity_id) if isinstance(entity_id, UUID) else entity_id,
        "data": data,
    }
    return payload if endpoint is None else {**payload, "endpoint": endpoint}


def send_webhook(event: WebhookEvent, context: Context, directory: EndpointDirectory) -> Skip | Snooze | dict[str, Any]:
    """Fan out an event, or post a delivery.

    Args:
        event: The payload of the action.
        context: The current attempt of the action.
        directory: All endpoints of the project.

    Returns:
        The endpoints of the event, or the response to the delivery, as JSON. Skip if no endpoint receives the event
        and no alert is sent by email, or if the endpoint of the delivery is deleted or disabled, or its filter rejects
        the event. Snooze if the delivery is deferred.

    Raises:
        Fail: The endpoint is not declared in the settings file, responded with 410 Gone, responded with another error
            and refused further attempts or deliveries, or has a filter that takes too many steps.
        RetryAfter: The endpoint responded with 429, 502, 503 or 504, and with a `Retry-After` header.
        DeliveryFailed: The endpoint did not respond, or responded with a status other than 2xx.
        NotConfigured: The endpoint's URL or secret is unset or invalid. The action is retried, so that the
            environment can be corrected.
        SecretUnreadable: The endpoint's secret was encrypted with a key that is not configured; the action is retried.
        UnknownEndpoint: The endpoint was deleted during this attempt; the next attempt skips the action.
        InvalidArgument: A pattern in the settings file is invalid; the action is retried.
    """
    if event.endpoint is None:
        return _fan_out(event, context, directory)
    return _deliver(event, event.endpoint, context, directory)


def _fan_out(event: WebhookEvent, context: Context, directory: EndpointDirectory) -> Skip | dict[str, Any]:
    action = context.action
    directory.record_event_type(event.event, team_id=action.team_id)
    matched = directory.match(event.event, team_id=action.team_id, body=event_content(vars(event), action.team_id))
    if event.event in _ENDPOINT_EVENTS:
        # An endpoint does not receive the events of its own failures: each such delivery would probably fail, too.
        matched = [one for one in matched if one[0].name != event.entity_id]
    if not _mail(event, context, directory.settings.alert_email) and not matched:
        return Skip(f"no endpoint receives {event.event}")
    origin = {_EVENT_ACTION_ID: str(action.id), _EVENT_AT: format_instant(action.created_at)}
    for endpoint, undecided_within in matched:
        context.schedule(
            ACTION_TYPE,
            {**event.model_dump(), "endpoint": endpoint.name},
            dedup_window=0,  # equal events are separate deliveries
            team_id=action.team_id,
            priority=action.priority,
            max_attempts=action.max_attempts or max_attempts_of(endpoint.retry),
            target=target_of(action),
            user_id=action.user_id,
            created_by=action.created_by,
            metadata=origin | ({} if undecided_within is None else {_FILTER_STEPS: undecided_within}),
            retry=endpoint.retry,
        )
    return {"endpoints": [endpoint.name for endpoint, _ in matched]}


def max_attempts_of(policy: RetryPolicy | None) -> int | None:
    """Return the number of attempts of a table of delays, including the first; None for another policy, or for None."""
    return len(policy.seconds) + 1 if isinstance(policy, Delays) else None


def target_of(action: Action) -> dict[str, str] | None:
    """Return the target of an action as `schedule_action` takes it; None if it has none."""
    if action.target_type is None or action.target_id is None:
        return None
    return {"type": action.target_type, "id": action.target_id}


def _mail(event: WebhookEvent, context: Context, address: str | None) -> bool:
    """Schedule an email to the operator about a failing or disabled endpoint; return whether one was scheduled."""
    if address is None or event.event not in _ENDPOINT_EVENTS or not isinstance(event.data, dict):
        return False
    will_be = f"is failing and will be disabled if it still fails at {event.data.get('auto_disable_at')}"
    state = will_be if event.event == FAILING_EVENT else "is disabled"
    text = (
        f"Endpoint {event.entity_id} {state}.\n\nFailing since: {event.data.get('failing_since', 'now')}\n"
        f"Latest failure: {event.data.get('reason', 'unknown')}\n\n"
        "Lost deliveries are kept. Once the receiver works again, enable the endpoint if it is disabled, and resend "
        "them:\n\n"
        f"scheduled-actions webhooks endpoints update {event.entity_id} --enable\n"
        f"scheduled-actions webhooks deliveries recover --endpoint {event.entity_id} --from WHEN\n\n"
        "WHEN is an ISO 8601 time, or how long ago: 2h, 3d.\n"
    )
    mail = {"to": address, "subject": f"Webhook endpoint {event.entity_id} {state}", "text": text}
    try:
        context.schedule("email:send", mail, dedup_window=0)
    except ScheduledActionsError as error:
        log.warning("webhook.no_mail error=%s", type(error).__name__)
        return False
    return True


def format_instant(moment: datetime) -> str:
    """Format an aware instant for a delivered body: ISO 8601 in UTC, with `Z`."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _deliver(
    event: WebhookEvent, name: str, context: Context, directory: EndpointDirectory
) -> Skip | Snooze | dict[str, Any]:
    endpoint = directory.find(name, team_id=context.action.team_id)
    if endpoint is None:
        if is_id(name):
            return Skip(f'endpoint "{name}" does not exist')
        known = directory.settings.endpoints
        near = nearest(name, known)
        hint = f'did you mean "{near}"? ' if near else ""
        raise Fail(f'endpoint "{name}" is not declared; {hint}declared: {", ".join(sorted(known)) or "none"}')
    if (unwanted := _unwanted(endpoint, event, context)) is not None:
        return unwanted
    if endpoint.rate_limit is not None and (deferred := _wait_for_rate(endpoint, directory)) is not None:
        return deferred
    target = directory.target(endpoint)
    with directory.throttle.slot(name, patience=SLOT_PATIENCE_SECONDS, team=endpoint.team_id) as deferral:
        if deferral is not None:
            return _defer(deferral.seconds, deferral.reason)
        sent_at = int(time.time())
        body, message_id = _message(event, context)
        headers = {
            **target.headers,
            "content-type": "application/json",
            signing.ID_HEADER: message_id,
            signing.TIMESTAMP_HEADER: str(sent_at),
        }
        if target.keys:
            headers[signing.SIGNATURE_HEADER] = signing.sign(
                target.keys, message_id=message_id, timestamp=sent_at, body=body
            )
        timeout = min(delivery.TOTAL_TIMEOUT, max(0.0, context.seconds_left - SETTLE_SECONDS))
        with tracing.delivery(name, event.event) as set_status:
            result = delivery.post(target.url, body=body, headers=headers, reach=target.reach, total_timeout=timeout)
            set_status(result.status)
    context.log.info(
        "webhook.answered endpoint=%s status=%s duration_ms=%d", name, result.status, result.duration_seconds * 1000
    )
    return _evaluate(result, endpoint, context.attempt, directory)


def _unwanted(endpoint: Endpoint, event: WebhookEvent, context: Context) -> Skip | None:
    """Return a Skip if the endpoint is disabled or its filter rejects the event; None if it receives the delivery.

    The filter is evaluated only if it took too many steps at fan-out.

    Raises:
        Fail: The filter still takes too many steps.
    """
    if not endpoint.enabled or endpoint.disabled_reason is not None:
        reason = f": {endpoint.disabled_reason}" if endpoint.enabled else ""
        return Skip(f'endpoint "{endpoint.name}" is disabled{reason}')
    steps = (context.action.metadata or {}).get(_FILTER_STEPS)
    if not isinstance(steps, int):
        return None
    try:
        if fits(endpoint, event_content(vars(event), context.action.team_id), steps=min(steps, FILTER_STEPS)):
            return None
    except BudgetExceeded as error:
        raise Fail(f"{error}, then retry the delivery") from error
    return Skip(f'the filter of endpoint "{endpoint.name}" rejects the event')


def _wait_for_rate(endpoint: Endpoint, directory: EndpointDirectory) -> Snooze | None:
    """Wait for a slot under the rate limit; return a snooze if the wait is too long or an earlier delivery hung."""
    # Checked before a slot is reserved, because an unused slot is lost.
    if (hung := directory.throttle.hung(endpoint.name)) is not None:
        return _defer(hung.seconds, hung.reason)
    has_slot, seconds = directory.reserve_slot(endpoint, patience=RATE_PATIENCE_SECONDS)
    if not has_slot:
        return _defer(seconds, "rate_limit")
    if seconds > 0:
        time.sleep(seconds)
    return None


def _defer(seconds: float, reason: DeferralReason | Literal["rate_limit"]) -> Snooze:
    """Return a snooze whose state contains the reason; `endpoint_queues.sql` reads it there."""
    return Snooze(seconds, state={"deferred": reason})


def _message(event: WebhookEvent, context: Context) -> tuple[bytes, str]:
    """Return the JSON body and the message id of a delivery; both are the same for all attempts."""
    notes = context.action.metadata or {}
    happened_at, event_action_id, replayed = (notes.get(key) for key in (_EVENT_AT, _EVENT_ACTION_ID, _MESSAGE_ID))
    content = {
        **event_content(vars(event), context.action.team_id),
        "timestamp": happened_at if _is_instant(happened_at) else format_instant(context.action.created_at),
        "action_id": event_action_id if is_id(event_action_id) else str(context.id),
    }
    body = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    return body, str(replayed if is_id(replayed) else context.id)


def event_content(payload: Mapping[str, Any], team_id: str | None) -> dict[str, Any]:
    """Return the part of the delivered body that filters read; fields that the payload lacks are None."""
    return {
        "event": payload.get("event"),
        "entity": payload.get("entity_type"),
        "entity_id": payload.get("entity_id"),
        "team_id": team_id,
        "data": payload.get("data"),
    }


# Checked because metadata given by a caller can contain the keys that the fan-out writes.
def _is_instant(value: object) -> bool:
    try:
        return isinstance(value, str) and format_instant(datetime.fromisoformat(value)) == value
    except (ValueError, OverflowError):
        return False


def _evaluate(result: PostResult, endpoint: Endpoint, attempt: int, directory: EndpointDirectory) -> dict[str, Any]:
    """Record the outcome of a delivery; return the result of a success, or raise the failure.

    Raises:
        Fail: The delivery failed, and the endpoint refused further attempts of it, or all further deliveries.
        RetryAfter: The endpoint responded with 429, 502, 503 or 504, and with a `Retry-After` header.
        DeliveryFailed: Any other failure; the delivery is retried.
    """
    failure = _failure(result)
    is_over = result.directive == "disable" or (failure is not None and result.status == HTTPStatus.GONE)
    if failure is None and not is_over:
        directory.record_success(endpoint)
    else:
        reason = failure or f"answered {result.status} and refuses further deliveries"
        directory.record_failure(endpoint, reason, disables=is_over)
    if failure is None:
        return {
            "status": result.status,
            "duration_ms": round(result.duration_seconds * 1000),
            "endpoint": endpoint.name,
            "answer": result.excerpt,
        }
    message = f'endpoint "{endpoint.name}" {failure}'
    if is_over or result.directive == "abort":
        raise Fail(message)
    if result.status in _RETRY_AFTER_STATUSES and result.retry_after is not None:
        delay = result.retry_after
        if attempt > 1:
            # Otherwise, an endpoint that always responds with "Retry-After: 1" would use up ten attempts in ten ticks.
            delay = max(delay, (endpoint.retry or DELIVERY_RETRY).delay(attempt - 1, draw=0))
        raise RetryAfter(delay, message)
    raise DeliveryFailed(message)


def _failure(result: PostResult) -> str | None:
    """Describe a failed delivery; return None for a success."""
    status = result.status
    if status is None:
        return f"did not respond: {result.error}"
    match status // 100:
        case 2:
            return None
        case 3:
            return f"answered {status}: redirects are not followed; set the endpoint's URL to the new address"
        case _:
            return f"answered {status}: {result.excerpt}" if result.excerpt else f"answered {status}"
