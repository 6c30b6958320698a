"""The demo's webhook endpoints, which accept only signed requests."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from scheduled_actions.webhooks import SignatureInvalid, verify


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedRequest:
    """One request, accepted or not."""

    #: The name of the endpoint.
    name: str
    webhook_id: str | None
    #: The status of the response: 401 if the endpoint is unknown or the signature is invalid.
    status: int
    #: The JSON of the body; None if the request was answered with 401.
    content: Any


@dataclass(frozen=True, slots=True)
class Receiver:
    """Webhook endpoints, one for each secret; the path of an endpoint is its name."""

    #: The signing secrets, by the name of the endpoint.
    secrets: Mapping[str, str]
    #: The name of an endpoint that answers its first signed request with 500.
    failing_once: str
    received: list[ReceivedRequest] = field(default_factory=list)

    def at(self, name: str) -> list[ReceivedRequest]:
        """Return the requests that an endpoint has received, in order."""
        return [request for request in self.received if request.name == name]

    def receive(self, path: str, headers: Mapping[str, str], body: bytes) -> int:
        """Record a request, and return the status of its response."""
        name = path.strip("/")
        try:
            verify(body, headers, self.secrets[name])
        except (KeyError, SignatureInvalid):
            content, status = None, HTTPStatus.UNAUTHORIZED
        else:
            content, status = json.loads(body), HTTPStatus.OK
            if name == self.failing_once and not any(before.content is not None for before in self.at(name)):
                status = HTTPStatus.INTERNAL_SERVER_ERROR
        self.received.append(
            ReceivedRequest(
                name=name,
                webhook_id=headers.get("webhook-id"),
                status=status,
                content=content,
            )
        )
        return status
