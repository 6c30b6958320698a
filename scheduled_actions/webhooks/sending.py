"""What `webhook:send` does: an event becomes one delivery per endpoint, a delivery one post per attempt.

Both are actions of the same type. Without `endpoint` in its payload the action is the event: it is routed,
and for each endpoint that wants it a delivery is scheduled. With `endpoint` it is that delivery.
"""

from __future__ import annotations

import difflib
import json
import logging
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, field_validator

from scheduled_actions.core import signing, tracing
from scheduled_actions.core.errors import BudgetExceeded, InvalidArgument, ScheduledActionsError
from scheduled_actions.core.retry import Delays
from scheduled_actions.outbound import delivery
from scheduled_actions.registry.handler import Fail, RetryAfter, Skip, Snooze
from scheduled_actions.webhooks.endpoints.health import DISABLED_EVENT, FAILING_EVENT
from scheduled_actions.webhooks.endpoints.registry import EndpointBook, fits, id_of
from scheduled_actions.webhooks.rules import routing
from scheduled_actions.webhooks.rules.filters import FILTER_STEPS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduled_actions.core.config import Config
    from scheduled_actions.core.retry import RetryPolicy
    from scheduled_actions.outbound.answer import Answer
    from scheduled_actions.registry.handler import Context
    from scheduled_actions.webhooks.endpoints.model import Endpoint
    from scheduled_actions.webhooks.endpoints.registry import Target
    from scheduled_actions.webhooks.rules.throttle import PutOffReason

ACTION_TYPE = "webhook:send"
#: The retry table of Standard Webhooks after the attempt at once: five seconds to a day, three days in all.
DELIVERY_RETRY = Delays((5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400), jitter="equal")
#: Seconds of an attempt kept back for its settlement.
SETTLE_SECONDS = 0.5
#: Seconds that a delivery under a rate limit waits for its place; what would wait longer is put off.
RATE_PATIENCE_SECONDS = 1.0
#: Seconds that a delivery waits for others to the same endpoint, which answers as it usually does.
GATE_PATIENCE_SECONDS = 5.0

_EVENT_AT = "event_at"
_EVENT_ACTION_ID = "event_action_id"
_MESSAGE_ID = "message_id"
#: The steps within which the filter could not be evaluated when the event was routed.
_FILTER_STEPS = "filter_steps"
_OF_ENDPOINTS = frozenset({DISABLED_EVENT, FAILING_EVENT})
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


def send_webhook(
    event: WebhookEvent, context: Context, config: Config, *, book: EndpointBook | None = None
) -> Skip | Snooze | dict[str, Any]:
    """Return the endpoints an event went to, or the status a delivery was answered with.

    Args:
        event: The action's payload.
        context: Its attempt.
        config: The file's endpoints.
        book: The database's beside them; None: there are the file's alone.

    Raises:
        Fail: The delivery's endpoint is unknown, answered 410 Gone, wants no further attempt, or has a filter that
            takes too many steps.
        RetryAfter: The endpoint asked for time.
        DeliveryFailed: It did not answer, or not with success.
        NotConfigured: The endpoint's URL or secret is unset or unusable; retried, so that it can be mended.
        InvalidArgument: A pattern in the settings is none; retried likewise.
    """
    known = book or EndpointBook(config, None)
    if event.endpoint is None:
        return _fan_out(event, context, config, known)
    return _deliver(event, event.endpoint, context, known)


def _fan_out(event: WebhookEvent, context: Context, config: Config, book: EndpointBook) -> Skip | dict[str, Any]:
    action = context.action
    book.saw(event.event, team_id=action.team_id)
    wanting = book.wanting(event.event, team_id=action.team_id, body=_content(event, context))
    if event.event in _OF_ENDPOINTS:
        # It would not hear of its own trouble, and that would be a failure more.
        wanting = [one for one in wanting if one.endpoint.name != event.entity_id]
    is_mailed = _mail(event, context, config.settings.webhooks.alert_email)
    if not wanting and not is_mailed:
        return Skip(f"no endpoint wants {event.event}")
    for endpoint, undecided_within in wanting:
        undecided = {} if undecided_within is None else {_FILTER_STEPS: undecided_within}
        own = {} if endpoint.retry is None else {"retry": endpoint.retry}
        context.schedule(
            ACTION_TYPE,
            {**event.model_dump(), "endpoint": endpoint.name},
            dedup_window=0,  # two events are two, also when they say the same
            team_id=action.team_id,
            priority=action.priority,
            max_attempts=action.max_attempts or attempts_of(endpoint.retry),
            target=_target(action.target_type, action.target_id),
            user_id=action.user_id,
            created_by=action.created_by,
            metadata={_EVENT_ACTION_ID: str(action.id), _EVENT_AT: instant(action.created_at), **undecided},
            **own,
        )
    return {"endpoints": [one.endpoint.name for one in wanting]}


def attempts_of(policy: RetryPolicy | None) -> int | None:
    """Return how many attempts a table of delays allows; None where it is for the handler to say."""
    return len(policy.seconds) + 1 if isinstance(policy, Delays) else None


def _mail(event: WebhookEvent, context: Context, address: str | None) -> bool:
    """Tell the operator by mail of an endpoint that is in trouble; return whether it was one."""
    if address is None or event.event not in _OF_ENDPOINTS or not isinstance(event.data, dict):
        return False
    facts = event.data
    what = "is disabled" if event.event == DISABLED_EVENT else f"is failing, and disabled by {facts.get('disabled_by')}"
    text = (
        f"Endpoint {event.entity_id} {what}.\n\nFailing since: {facts.get('failing_since', 'now')}\n"
        f"The last failure: {facts.get('reason', 'unknown')}\n\n"
        "What comes for it is kept: `scheduled-actions webhooks deliveries recover` delivers it once it is mended.\n"
    )
    mail = {"to": address, "subject": f"Webhook endpoint {event.entity_id} {what}", "text": text}
    try:
        context.schedule("email:send", mail, dedup_window=0)
    except ScheduledActionsError as error:
        logging.getLogger("scheduled_actions").warning("webhook.no_mail error=%s", type(error).__name__)
        return False
    return True


def _target(target_type: str | None, target_id: str | None) -> dict[str, str] | None:
    return None if target_type is None or target_id is None else {"type": target_type, "id": target_id}


def instant(moment: datetime) -> str:
    """Return an instant as bodies say it."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _deliver(event: WebhookEvent, name: str, context: Context, book: EndpointBook) -> Skip | Snooze | dict[str, Any]:
    endpoint = book.find(name, team_id=context.action.team_id)
    if endpoint is None and id_of(name) is not None:
        return Skip(f'endpoint "{name}" is not there')
    if endpoint is None:
        raise Fail(_unknown(name, book.names()))
    if (unwanted := _unwanted(endpoint, event, context)) is not None:
        return unwanted
    if endpoint.rate_limit is not None and (put_off := _limited(endpoint, book)) is not None:
        return put_off
    target = book.target(endpoint)
    with book.gate.through(name, patience=GATE_PATIENCE_SECONDS, team=endpoint.team_id) as not_now:
        if not_now is not None:
            return _put_off(not_now.seconds, not_now.reason)
        request = _request(event, context, target, sent_at=int(time.time()))
        with tracing.delivery(name, event.event) as delivering:
            answer = _post(target, request, context)
            delivering.answered(answer.status)
    context.log.info(
        "webhook.answered endpoint=%s status=%s duration_ms=%d", name, answer.status, answer.duration_seconds * 1000
    )
    return _judge(answer, endpoint, context.attempt, book)


def _unwanted(endpoint: Endpoint, event: WebhookEvent, context: Context) -> Skip | None:
    """Return why an endpoint does not get the delivery now; None where it does.

    Raises:
        Fail: Its filter took too many steps when the event was routed, and still does.
    """
    if not endpoint.enabled:
        return Skip(f'endpoint "{endpoint.name}" is disabled')
    if endpoint.disabled_reason is not None:
        return Skip(f'endpoint "{endpoint.name}" is disabled: {endpoint.disabled_reason}')
    steps = (context.action.metadata or {}).get(_FILTER_STEPS)
    if not isinstance(steps, int):
        return None
    try:
        is_wanted = fits(endpoint, _content(event, context), steps=min(steps, FILTER_STEPS))
    except BudgetExceeded as error:
        raise Fail(f"{error}; then retry the delivery") from error
    return None if is_wanted else Skip(f'the filter of endpoint "{endpoint.name}" does not want it')


def _limited(endpoint: Endpoint, book: EndpointBook) -> Snooze | None:
    """Wait for a place under the endpoint's rate limit; return the snooze where that would take too long."""
    # Asked first: a place that nobody uses is lost.
    closed = book.gate.closed(endpoint.name)
    if closed is not None:
        return _put_off(closed.seconds, closed.reason)
    may_go, wait = book.take_place(endpoint, patience=RATE_PATIENCE_SECONDS)
    if not may_go:
        return _put_off(wait, "rate_limit")
    if wait > 0:
        time.sleep(wait)
    return None


def _put_off(seconds: float, reason: PutOffReason | Literal["rate_limit"]) -> Snooze:
    """Return the snooze; why is kept with the delivery, where the endpoint's lane is read from."""
    return Snooze(seconds, state={"put_off": reason})


def _unknown(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    hint = f'did you mean "{near[0]}"? known are: ' if near else "known are: "
    return f'endpoint "{name}" is not declared; {hint}{", ".join(sorted(known)) or "none"}'


@dataclass(frozen=True, slots=True)
class _Request:
    body: bytes
    headers: Mapping[str, str]


def _request(event: WebhookEvent, context: Context, target: Target, *, sent_at: int) -> _Request:
    """Return what goes over the wire: the body and the id stay the same over all attempts."""
    notes = context.action.metadata or {}
    happened_at, event_action_id = notes.get(_EVENT_AT), notes.get(_EVENT_ACTION_ID)
    content = {
        **_content(event, context),
        "timestamp": happened_at if _is_instant(happened_at) else instant(context.action.created_at),
        "action_id": event_action_id if _is_id(event_action_id) else str(context.id),
    }
    body = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    # What is replayed is the same message again.
    replayed = notes.get(_MESSAGE_ID)
    message_id = str(replayed) if _is_id(replayed) else str(context.id)
    headers = {
        **target.headers,
        "content-type": "application/json",
        signing.ID_HEADER: message_id,
        signing.TIMESTAMP_HEADER: str(sent_at),
    }
    if target.keys:
        signature = signing.sign(target.keys, message_id=message_id, timestamp=sent_at, body=body)
        headers[signing.SIGNATURE_HEADER] = signature
    return _Request(body, headers)


def _content(event: WebhookEvent, context: Context) -> dict[str, Any]:
    """Return what the body says of the event itself: what filters look at."""
    return {
        "event": event.event,
        "entity": event.entity_type,
        "entity_id": event.entity_id,
        "team_id": context.action.team_id,
        "data": event.data,
    }


# Written by the fan-out; but a caller's metadata may hold anything under the same names.
def _is_instant(value: object) -> bool:
    try:
        return isinstance(value, str) and instant(datetime.fromisoformat(value)) == value
    except (ValueError, OverflowError):
        return False


def _is_id(value: object) -> bool:
    try:
        return isinstance(value, str) and str(UUID(value)) == value
    except ValueError:
        return False


def _post(target: Target, request: _Request, context: Context) -> Answer:
    time_left = max(0.0, context.seconds_left - SETTLE_SECONDS)
    return delivery.post(
        target.url,
        body=request.body,
        headers=request.headers,
        reach=target.reach,
        total_timeout=min(delivery.TOTAL_TIMEOUT, time_left),
    )


def _judge(answer: Answer, endpoint: Endpoint, attempt: int, book: EndpointBook) -> dict[str, Any]:
    """Return the result of a success, or raise what the failure is; and remember which of the two it was."""
    fact = _failure(answer)
    is_over = answer.wish == "disable" or (fact is not None and answer.status == _GONE)
    if is_over:
        book.failed(endpoint, fact or f"answered {answer.status} and wants nothing more", disables=True)
    elif fact is not None:
        book.failed(endpoint, fact)
    else:
        book.succeeded(endpoint)
    if fact is None:
        return {
            "status": answer.status,
            "duration_ms": round(answer.duration_seconds * 1000),
            "endpoint": endpoint.name,
            "answer": answer.excerpt,
        }
    told = f'endpoint "{endpoint.name}" {fact}'
    if is_over or answer.wish == "abort":
        raise Fail(told)
    if answer.status in _MAY_ASK_FOR_TIME and answer.retry_after is not None:
        raise RetryAfter(_wait(answer.retry_after, endpoint.retry or DELIVERY_RETRY, attempt), told)
    raise DeliveryFailed(endpoint.name, fact)


def _failure(answer: Answer) -> str | None:
    """Return what went wrong; None for a success."""
    status = answer.status
    if status is None:
        return f"got nothing: {answer.error}"
    if 200 <= status < 300:  # noqa: PLR2004 - the class of success
        return None
    if 300 <= status < 400:  # noqa: PLR2004 - the class of redirection
        return f"answered {status}: redirects are failures, set its URL to where it leads"
    return f"answered {status}: {answer.excerpt}" if answer.excerpt else f"answered {status}"


def _wait(asked: timedelta, policy: RetryPolicy, attempt: int) -> timedelta:
    """Return how long to leave the endpoint alone: as it asks, at least the table's wait of the step before.

    A busy receiver that answers "in a second" each time would use up ten attempts in ten ticks.
    """
    return asked if attempt == 1 else max(asked, policy.delay(attempt - 1, draw=0))
