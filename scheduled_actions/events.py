"""What `webhook:send` does: an event becomes one delivery per endpoint, a delivery one post per attempt.

Both are actions of the same type. Without `endpoint` in its payload the action is the event: it is routed,
and for each endpoint that wants it a delivery is scheduled. With `endpoint` it is that delivery.
"""

from __future__ import annotations

import difflib
import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, field_validator

from scheduled_actions import delivery
from scheduled_actions.errors import InvalidArgument, NotConfigured, ScheduledActionsError, UrlInvalid
from scheduled_actions.handler import Fail, RetryAfter, Skip
from scheduled_actions.retry import Delays
from scheduled_actions.webhooks import routing, signing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduled_actions.config import Config, Endpoint
    from scheduled_actions.handler import Context

ACTION_TYPE = "webhook:send"
#: The retry table of Standard Webhooks after the attempt at once: five seconds to a day, three days in all.
DELIVERY_RETRY = Delays((5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400), jitter="equal")
#: Seconds of an attempt kept back for its settlement.
SETTLE_SECONDS = 0.5

_EVENT_AT = "event_at"
_EVENT_ACTION_ID = "event_action_id"
_GONE = 410
_MAY_ASK_FOR_TIME = frozenset({429, 502, 503, 504})


class WebhookEvent(BaseModel):
    """The payload of `webhook:send`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: `entity:verb`.
    event: Annotated[str, Field(min_length=1, max_length=routing.NAME_LIMIT)]
    #: What kind of thing it happened to.
    entity_type: Annotated[str, Field(min_length=1, max_length=200)]
    #: Delivered as given, text as text, a number as a number; JavaScript rounds those past 2**53 (send text).
    entity_id: (
        Annotated[str, Field(strict=True, min_length=1, max_length=500)]
        | Annotated[int, Field(strict=True, ge=-(2**63), lt=2**63)]
    )
    #: Any JSON.
    data: Any = Field(default_factory=dict)
    #: Set: this is the delivery to that endpoint. None: the event itself, still to be routed.
    endpoint: Annotated[str, Field(min_length=1, max_length=100)] | None = None

    @field_validator("event")
    @classmethod
    def _is_an_event(cls, value: str) -> str:
        try:
            routing.split_event(value)
        except InvalidArgument as error:
            message = f"should be {error.expected}"
            raise ValueError(message) from None
        return value


class DeliveryFailed(ScheduledActionsError):
    """A delivery did not arrive; it is retried as the policy says."""

    code = "delivery_failed"

    def __init__(self, endpoint: str, fact: str) -> None:
        self.endpoint = endpoint
        self.fact = fact
        super().__init__(f'endpoint "{endpoint}" {fact}')


def event_payload(
    event: str,
    *,
    entity_id: str | int | UUID,
    data: Any,  # noqa: ANN401 - any JSON
    endpoint: str | None = None,
) -> dict[str, Any]:
    """Return the payload of `webhook:send`; the entity type is what stands before the event's first colon.

    Raises:
        InvalidArgument: The event is not `entity:verb`.
    """
    entity_type, _ = routing.split_event(event)
    payload = {
        "event": event,
        "entity_type": entity_type,
        "entity_id": str(entity_id) if isinstance(entity_id, UUID) else entity_id,
        "data": data,
    }
    return payload if endpoint is None else {**payload, "endpoint": endpoint}


def send_webhook(event: WebhookEvent, context: Context, config: Config) -> Skip | dict[str, Any]:
    """Return the endpoints an event went to, or the status a delivery was answered with.

    Raises:
        Fail: The delivery's endpoint is unknown, or answered 410 Gone.
        RetryAfter: The endpoint asked for time.
        DeliveryFailed: It did not answer, or not with success.
        NotConfigured: The endpoint's URL or secret is unset or unusable; retried, so that it can be mended.
        InvalidArgument: A pattern in the settings is none; retried likewise.
    """
    if event.endpoint is None:
        return _fan_out(event, context, config)
    endpoints = config.settings.webhooks.endpoints
    if event.endpoint not in endpoints:
        raise Fail(_unknown(event.endpoint, list(endpoints)))
    endpoint = endpoints[event.endpoint]
    if not endpoint.enabled:
        return Skip(f'endpoint "{event.endpoint}" is disabled')
    request = _request(event, context, keys=config.endpoint_keys(endpoint), sent_at=int(time.time()))
    answer = _post(_url(config, event.endpoint, endpoint), request, context)
    context.log.info(
        "webhook.answered endpoint=%s status=%s duration_ms=%d",
        event.endpoint,
        answer.status,
        answer.duration_seconds * 1000,
    )
    return _judge(answer, event.endpoint, context.attempt)


def _fan_out(event: WebhookEvent, context: Context, config: Config) -> Skip | dict[str, Any]:
    webhooks = config.settings.webhooks
    names = routing.route(
        event.event,
        endpoints=webhooks.endpoints,
        routing=webhooks.routing,
        default_endpoint=webhooks.default_endpoint,
    )
    if not names:
        return Skip(f"no endpoint wants {event.event}")
    action = context.action
    for name in names:
        context.schedule(
            ACTION_TYPE,
            {**event.model_dump(), "endpoint": name},
            dedup_window=0,  # two events are two, also when they say the same
            team_id=action.team_id,
            priority=action.priority,
            max_attempts=action.max_attempts,
            target=_target(action.target_type, action.target_id),
            user_id=action.user_id,
            created_by=action.created_by,
            metadata={_EVENT_ACTION_ID: str(action.id), _EVENT_AT: _instant(action.created_at)},
        )
    return {"endpoints": list(names)}


def _target(target_type: str | None, target_id: str | None) -> dict[str, str] | None:
    return None if target_type is None or target_id is None else {"type": target_type, "id": target_id}


def _instant(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _unknown(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    hint = f'did you mean "{near[0]}"? known are: ' if near else "known are: "
    return f'endpoint "{name}" is not declared; {hint}{", ".join(sorted(known)) or "none"}'


@dataclass(frozen=True, slots=True)
class _Request:
    body: bytes
    headers: Mapping[str, str]


def _request(event: WebhookEvent, context: Context, *, keys: tuple[bytes, ...], sent_at: int) -> _Request:
    """Return what goes over the wire: the body and the id stay the same over all attempts."""
    body = _body(event, context)
    message_id = str(context.id)
    headers = {
        "content-type": "application/json",
        signing.ID_HEADER: message_id,
        signing.TIMESTAMP_HEADER: str(sent_at),
    }
    if keys:
        signature = signing.sign(keys, message_id=message_id, timestamp=sent_at, body=body)
        headers[signing.SIGNATURE_HEADER] = signature
    return _Request(body, headers)


def _body(event: WebhookEvent, context: Context) -> bytes:
    notes = context.action.metadata or {}
    happened_at, event_action_id = notes.get(_EVENT_AT), notes.get(_EVENT_ACTION_ID)
    content = {
        "event": event.event,
        "entity": event.entity_type,
        "entity_id": event.entity_id,
        "team_id": context.action.team_id,
        "data": event.data,
        "timestamp": happened_at if _is_instant(happened_at) else _instant(context.action.created_at),
        "action_id": event_action_id if _is_id(event_action_id) else str(context.id),
    }
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


# Written by the fan-out; but a caller's metadata may hold anything under the same names.
def _is_instant(value: object) -> bool:
    try:
        return isinstance(value, str) and _instant(datetime.fromisoformat(value)) == value
    except (ValueError, OverflowError):
        return False


def _is_id(value: object) -> bool:
    try:
        return isinstance(value, str) and str(UUID(value)) == value
    except ValueError:
        return False


def _url(config: Config, name: str, endpoint: Endpoint) -> str:
    expected = f'the http or https URL of endpoint "{name}"'
    url = config.endpoint_url(endpoint)
    if url is None:
        raise NotConfigured(endpoint.env_var, expected)
    try:
        delivery.check_url(url)
    except UrlInvalid as error:
        raise NotConfigured(endpoint.env_var, f"{expected}: what is there {error.problem}") from None
    return url


def _post(url: str, request: _Request, context: Context) -> delivery.Answer:
    time_left = max(0.0, context.seconds_left - SETTLE_SECONDS)
    return delivery.post(
        url,
        body=request.body,
        headers=request.headers,
        total_timeout=min(delivery.TOTAL_TIMEOUT, time_left),
    )


def _judge(answer: delivery.Answer, name: str, attempt: int) -> dict[str, Any]:
    status = answer.status
    if status is None:
        raise DeliveryFailed(name, f"got nothing: {answer.error}")
    if 200 <= status < 300:  # noqa: PLR2004 - the class of success
        return {"status": status, "duration_ms": round(answer.duration_seconds * 1000), "endpoint": name}
    if 300 <= status < 400:  # noqa: PLR2004 - the class of redirection
        raise DeliveryFailed(name, f"answered {status}: redirects are failures, set its URL to where it leads")
    fact = f"answered {status}: {answer.excerpt}" if answer.excerpt else f"answered {status}"
    if status == _GONE:
        gone = f'endpoint "{name}" {fact}'
        raise Fail(gone)
    if status in _MAY_ASK_FOR_TIME and answer.retry_after is not None:
        raise RetryAfter(_wait(answer.retry_after, attempt), f'endpoint "{name}" {fact}')
    raise DeliveryFailed(name, fact)


def _wait(asked: timedelta, attempt: int) -> timedelta:
    """Return how long to leave the endpoint alone: as it asks, at least the table's wait of the step before.

    A busy receiver that answers "in a second" each time would use up ten attempts in ten ticks.
    """
    return asked if attempt == 1 else max(asked, DELIVERY_RETRY.delay(attempt - 1, draw=0))
