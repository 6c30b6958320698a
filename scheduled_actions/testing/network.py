"""Capture the outbound traffic of a test: webhook deliveries, notices and emails."""

import json
import threading
import time
from collections.abc import Mapping, MutableMapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import EmailMessage
from typing import Any

import psycopg

from scheduled_actions.core import config, signing
from scheduled_actions.core.errors import ScheduledActionsError, SignatureInvalid
from scheduled_actions.outbound.delivery import DIRECTIVE_HEADER, retry_after
from scheduled_actions.outbound.network import PostResult
from scheduled_actions.runtime import Runtime
from scheduled_actions.webhooks.endpoints.service import new_secret

_UNAUTHORIZED = 401
_OK = PostResult(status=200, excerpt="", duration_seconds=0.0)
#: A message keeps its id when another action resends it.
_ENDPOINT_OF_MESSAGE = (
    "select payload ->> 'endpoint' from scheduled_actions where payload ? 'endpoint'"
    " and (id::text = %s or metadata ->> 'message_id' = %s) order by (status = 'processing') desc, id desc limit 1"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedWebhook:
    """One delivery as its receiver would get it, and the status of the answer."""

    #: The event type, such as `task:created`.
    event: str
    #: The whole body: `event`, `entity`, `entity_id`, `team_id`, `data`, `timestamp`, `action_id`.
    payload: dict[str, Any]
    #: By name in lower case.
    headers: dict[str, str]
    #: The endpoint's name in `scheduled_actions.toml`, or its id in the database; None if it is unknown.
    endpoint: str | None
    url: str
    #: The signed bytes.
    body: bytes = field(repr=False)
    #: Whether the signature is valid; False for an endpoint without a secret, whose deliveries are not signed.
    is_verified: bool
    #: The status of the answer; 0 if the connection was closed without an answer.
    status: int


@dataclass(slots=True)
class _PreparedAnswer:
    result: PostResult
    #: The endpoint that gives this answer; None: all endpoints.
    endpoint: str | None
    #: How often the answer may still be used; None: unlimited.
    times: int | None


class CapturedWebhooks(list[CapturedWebhook]):
    """The webhook deliveries of one test, in the order they were sent.

    Nothing reaches the network: each endpoint of `scheduled_actions.toml` gets a URL for the test, and a secret if it
    declares one; deliveries to endpoints of the database are captured, too. A delivery with an invalid
    signature is answered with 401; the others get the answer that `answer` prepared, 200 by default.

    `clear` removes the captured deliveries; prepared answers remain.
    """

    def __init__(self, runtime: Runtime, environ: MutableMapping[str, str]) -> None:
        super().__init__()
        self._runtime = runtime
        self._environ = environ
        self._lock = threading.Lock()
        self._answers: list[_PreparedAnswer] = []
        for name, declared in runtime.config.settings.webhooks.endpoints.items():
            self._set_address(name, declared)

    def __repr__(self) -> str:
        deliveries = ", ".join(f"{one.event} -> {one.endpoint} ({one.status})" for one in self)
        return f"<captured webhooks: {deliveries or 'none'}>"

    def of(self, event: str | None = None, *, endpoint: str | None = None) -> list[CapturedWebhook]:
        """Return the deliveries of an event type, to an endpoint, or both; None matches all."""
        return [one for one in self if event in {None, one.event} and endpoint in {None, one.endpoint}]

    def add_endpoint(self, name: str, *, patterns: tuple[str, ...] | list[str] = ("*:*",)) -> None:
        """Declare another endpoint, as `scheduled_actions.toml` would: with a secret, for events of these patterns."""
        variable = f"TESTS_{name.upper().replace('-', '_')}"
        declared = config.EndpointSection(
            env_var=f"{variable}_URL", secret_env_var=f"{variable}_SECRET", patterns=tuple(patterns)
        )
        self._set_address(name, declared)
        self._runtime.config.settings.webhooks.endpoints[name] = declared

    def answer(
        self,
        status: int | None,
        *,
        endpoint: str | None = None,
        times: int | None = None,
        headers: Mapping[str, str] | None = None,
        body: str = "",
    ) -> None:
        """Prepare the answer to later deliveries; answers with `times` are used in the order they were prepared.

        Args:
            status: None closes the connection without an answer.
            endpoint: Only for deliveries to this endpoint; None: for all.
            times: How often the answer is used; None: whenever no answer with `times` is left, until another answer
                without `times` is prepared.
            headers: `Retry-After` and `webhook-delivery` have an effect, as from any receiver.
            body: Stored as the delivery's answer.
        """
        lowered = {name.lower(): value for name, value in (headers or {}).items()}
        titled = {"Retry-After": lowered.get("retry-after", ""), "Date": lowered.get("date", "")}
        result = PostResult(
            status=status,
            excerpt=body,
            duration_seconds=0.0,
            retry_after=retry_after(titled, now=datetime.now(UTC)),
            error="the test closed the connection" if status is None else None,
            directive=lowered.get(DIRECTIVE_HEADER),
        )
        with self._lock:
            self._answers.append(_PreparedAnswer(result, endpoint, times))

    def capture(self, url: str, body: bytes, headers: Mapping[str, str]) -> PostResult:
        """Capture one delivery; called from the threads that run handlers."""
        lowered = {name.lower(): value for name, value in headers.items()}
        endpoint, keys = self._endpoint_of(lowered[signing.ID_HEADER])
        content = json.loads(body)
        is_verified = False
        with suppress(SignatureInvalid):
            signing.verify(body, lowered, keys, now=time.time())
            is_verified = True
        with self._lock:
            result = self._next_answer(endpoint)
            if keys and not is_verified:
                result = PostResult(status=_UNAUTHORIZED, excerpt="invalid signature", duration_seconds=0.0)
            self.append(
                CapturedWebhook(
                    event=content["event"],
                    payload=content,
                    headers=lowered,
                    endpoint=endpoint,
                    url=url,
                    body=body,
                    is_verified=is_verified,
                    status=result.status or 0,
                )
            )
        return result

    def _next_answer(self, endpoint: str | None) -> PostResult:
        """Return the next prepared answer: those with `times` in their order, then the last of the others."""
        fitting = [one for one in self._answers if one.endpoint in {None, endpoint} and one.times != 0]
        for answer in fitting:
            if answer.times is not None:
                answer.times -= 1
                return answer.result
        return fitting[-1].result if fitting else _OK

    def _endpoint_of(self, message_id: str) -> tuple[str | None, tuple[bytes, ...]]:
        """Return the endpoint of a message, and the keys that should sign it."""
        with closing(psycopg.connect(self._runtime.find_dsn(), autocommit=True)) as connection:
            row = connection.execute(_ENDPOINT_OF_MESSAGE, [message_id, message_id]).fetchone()
        directory = self._runtime.endpoint_directory
        endpoint = None if row is None else directory.lookup(row[0])
        if endpoint is None:
            return None, ()
        try:
            return endpoint.name, directory.target(endpoint).keys
        except ScheduledActionsError:
            return endpoint.name, ()

    def _set_address(self, name: str, declared: config.EndpointSection) -> None:
        """Replace the address and the secret of a declared endpoint, so that no test sends to a real one."""
        self._environ[declared.env_var] = f"https://{name}.webhooks.test/"
        if declared.secret_env_var is not None:
            self._environ[declared.secret_env_var] = new_secret()


@dataclass(frozen=True, slots=True)
class CapturedNotice:
    """A notice to an apprise service or to a webhook channel."""

    #: The complete URL.
    address: str
    subject: str
    text: str


@dataclass(eq=False)
class CapturingNetwork:
    """Captures everything that would leave the process of a test."""

    #: Captures the deliveries of events.
    webhooks: CapturedWebhooks
    #: The captured emails, in the order they were sent.
    mails: list[EmailMessage] = field(default_factory=list)
    notices: list[CapturedNotice] = field(default_factory=list)
    #: Status and body of the answers to conditions, by URL.
    answers: dict[str, tuple[int, bytes]] = field(default_factory=dict)

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> PostResult:
        """Capture the delivery of an event, or a notice."""
        content = json.loads(body)
        if "event" in content:
            return self.webhooks.capture(url, body, headers)
        self.notify(url, content.get("subject", ""), content.get("text", ""))
        return _OK

    def get(self, url: str) -> tuple[int, bytes]:
        """Return the test's answer to a condition that requests this URL; without one, the connection is refused."""
        if url not in self.answers:
            raise ConnectionRefusedError
        return self.answers[url]

    def mail(self, message: EmailMessage) -> None:
        """Capture an email."""
        self.mails.append(message)

    def notify(self, address: str, subject: str, text: str) -> None:
        """Capture a notice."""
        self.notices.append(CapturedNotice(address, subject, text))
