"""Webhook deliveries of a test: taken where they would leave the process, verified, and kept to look at."""

from __future__ import annotations

import json
import threading
import time
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.rows import tuple_row

from scheduled_actions.core import config, signing
from scheduled_actions.core.errors import ScheduledActionsError, SignatureInvalid
from scheduled_actions.outbound.answer import Answer
from scheduled_actions.outbound.delivery import WISH_HEADER, retry_after
from scheduled_actions.webhooks.endpoints.service import new_secret

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, MutableMapping

    from scheduled_actions.runtime import Runtime

_UNAUTHORIZED = 401


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedWebhook:
    """One post, as its receiver would have got it."""

    #: `task:created`.
    event: str
    #: The whole body: `event`, `entity`, `entity_id`, `team_id`, `data`, `timestamp`, `action_id`.
    payload: dict[str, Any]
    #: By name, in lower case.
    headers: dict[str, str]
    #: The endpoint's name in `scheduled_actions.toml`, or its id in the database.
    endpoint: str | None
    url: str
    #: Exactly what was signed.
    body: bytes = field(repr=False)
    #: Whether it carries a signature of its endpoint's secret; an endpoint without a secret gets none.
    is_verified: bool
    #: What it was answered with.
    status: int


class CapturedWebhooks:
    """The deliveries of one test, in the order they were posted; a sequence of `CapturedWebhook`.

    Nothing reaches the network: each endpoint of `scheduled_actions.toml` has a URL and a secret made up for the test,
    and posts to endpoints of the database end here, too. All are answered 200, unless `answer` says otherwise.
    """

    def __init__(self, runtime: Runtime, environ: MutableMapping[str, str]) -> None:
        self._runtime = runtime
        self._environ = environ
        self._lock = threading.Lock()
        self._captured: list[CapturedWebhook] = []
        self._answers: list[_Answers] = []
        for name, declared in runtime.config.settings.webhooks.endpoints.items():
            _give_address(environ, name, declared)

    def __len__(self) -> int:
        return len(self._captured)

    def __iter__(self) -> Iterator[CapturedWebhook]:
        return iter(list(self._captured))

    def __getitem__(self, position: int) -> CapturedWebhook:
        return self._captured[position]

    def __repr__(self) -> str:
        told = ", ".join(f"{one.event} -> {one.endpoint} ({one.status})" for one in self)
        return f"<captured webhooks: {told or 'none'}>"

    def of(self, event: str | None = None, *, endpoint: str | None = None) -> list[CapturedWebhook]:
        """Return the deliveries of an event, to an endpoint, or both."""
        return [one for one in self if event in {None, one.event} and endpoint in {None, one.endpoint}]

    def clear(self) -> None:
        """Forget what was captured; answers stay as they are."""
        with self._lock:
            self._captured.clear()

    def add_endpoint(self, name: str, *, patterns: tuple[str, ...] | list[str] = ("*:*",)) -> None:
        """Declare one endpoint more, as `scheduled_actions.toml` would: signed, and for events of these patterns."""
        variable = f"TESTS_{name.upper().replace('-', '_')}"
        declared = config.Endpoint(
            env_var=f"{variable}_URL", secret_env_var=f"{variable}_SECRET", patterns=tuple(patterns)
        )
        _give_address(self._environ, name, declared)
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
        """Answer deliveries so from now on; answers for so many times come in the order they were given.

        Args:
            status: None hangs up.
            endpoint: Only those to this one.
            times: So many, then the next; None: whatever no such answer is left for.
            headers: `Retry-After` and `webhook-delivery` count, as from any receiver.
            body: Kept as the delivery's answer.
        """
        with self._lock:
            self._answers.append(_Answers(status, endpoint, times, dict(headers or {}), body))

    def take(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Take one post in, in place of the network; called from the threads that run handlers."""
        lowered = {name.lower(): value for name, value in headers.items()}
        endpoint, keys = self._endpoint_of(lowered[signing.ID_HEADER])
        content = json.loads(body)
        with self._lock:
            answers = self._next_answers(endpoint)
            answer = _USUAL if answers is None else answers.as_answer()
            is_verified = _is_verified(body, lowered, keys)
            if keys and not is_verified:
                answer = Answer(status=_UNAUTHORIZED, excerpt="the signature does not fit", duration_seconds=0.0)
            self._captured.append(
                CapturedWebhook(
                    event=content["event"],
                    payload=content,
                    headers=lowered,
                    endpoint=endpoint,
                    url=url,
                    body=body,
                    is_verified=is_verified,
                    status=answer.status or 0,
                )
            )
        return answer

    def _next_answers(self, endpoint: str | None) -> _Answers | None:
        """Return the answer whose turn it is: those for so many times in their order, then the last of the others."""
        fitting = [one for one in self._answers if one.endpoint in {None, endpoint} and one.times != 0]
        for answers in fitting:
            if answers.times is not None:
                answers.times -= 1
                return answers
        return fitting[-1] if fitting else None

    def _endpoint_of(self, message_id: str) -> tuple[str | None, tuple[bytes, ...]]:
        """Return the endpoint that a message is on its way to, and the keys it should be signed with."""
        with closing(psycopg.connect(self._runtime.find_dsn(), autocommit=True)) as connection:
            row = connection.cursor(row_factory=tuple_row).execute(_ON_ITS_WAY, [message_id, message_id]).fetchone()
        book = self._runtime.endpoint_book
        endpoint = None if row is None else book.any(row[0])
        if endpoint is None:
            return None, ()
        try:
            return endpoint.name, book.target(endpoint).keys
        except ScheduledActionsError:
            return endpoint.name, ()


#: A message keeps its id when it is replayed, by another action.
_ON_ITS_WAY = (
    "select payload ->> 'endpoint' from scheduled_actions where payload ? 'endpoint'"
    " and (id::text = %s or metadata ->> 'message_id' = %s) order by (status = 'processing') desc, id desc limit 1"
)


@dataclass(slots=True)
class _Answers:
    status: int | None
    endpoint: str | None
    times: int | None
    headers: dict[str, str]
    body: str

    def as_answer(self) -> Answer:
        lowered = {name.lower(): value for name, value in self.headers.items()}
        titled = {"Retry-After": lowered.get("retry-after", ""), "Date": lowered.get("date", "")}
        return Answer(
            status=self.status,
            excerpt=self.body,
            duration_seconds=0.0,
            retry_after=retry_after(titled, now=datetime.now(UTC)),
            error="the test hung up" if self.status is None else None,
            wish=lowered.get(WISH_HEADER),
        )


_USUAL = Answer(status=200, excerpt="", duration_seconds=0.0)


def _give_address(environ: MutableMapping[str, str], name: str, declared: config.Endpoint) -> None:
    """Make up where an endpoint of the file is, so that no test posts to a real one."""
    environ[declared.env_var] = f"https://{name}.webhooks.test/"
    if declared.secret_env_var is not None:
        environ[declared.secret_env_var] = new_secret()


def _is_verified(body: bytes, headers: Mapping[str, str], keys: tuple[bytes, ...]) -> bool:
    try:
        signing.verify(body, headers, keys, now=time.time())
    except SignatureInvalid:
        return False
    return True
