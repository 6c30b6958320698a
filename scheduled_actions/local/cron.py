"""What an external cron does for a deployment, done for the local server: ping, and say what came of it."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

PATH = "/cron/process"
_MINUTE_SECONDS = 60.0
#: What a tick may have done, in the order people want to know it.
_COUNTS = ("succeeded", "failed", "retried", "snoozed", "skipped", "rescued", "pruned")


@dataclass(frozen=True, slots=True)
class Pong:
    """What a ping was answered with."""

    #: The HTTP status; None when there was no answer.
    status: int | None
    #: The JSON of the answer; empty when there was none.
    body: Mapping[str, Any]
    #: Why there was no answer, or one that is no tick's.
    problem: str | None = None


def ping(host: str, port: int, secret: str | None, *, timeout_seconds: float) -> Pong:
    """Ping once, and return what came back.

    Args:
        host: Of the server.
        port: Of the server.
        secret: `CRON_SECRET`; None shows none.
        timeout_seconds: For the whole tick.
    """
    headers: dict[str, str | bytes] = {"user-agent": "scheduled-actions-local-cron"}
    if secret is not None:
        headers["x-cron-secret"] = secret.encode()
    connection = http.client.HTTPConnection(host, port, timeout=timeout_seconds)
    try:
        connection.request("GET", PATH, headers=headers)
        response = connection.getresponse()
        text = response.read()
    except (OSError, http.client.HTTPException) as error:
        return Pong(None, {}, f"no answer ({type(error).__name__})")
    finally:
        connection.close()
    try:
        body = json.loads(text)
    except ValueError:
        return Pong(response.status, {}, f"status {response.status}, and not JSON")
    problem = None if response.status == http.HTTPStatus.OK else f"status {response.status}: {body.get('detail')}"
    return Pong(response.status, body, problem)


def seconds_to_next_minute(now: float) -> float:
    """Return how long it is to the next full minute, more than nothing and at most 60; `now` in seconds since 1970."""
    return _MINUTE_SECONDS - now % _MINUTE_SECONDS


def summary(body: Mapping[str, Any]) -> str | None:
    """Return what a tick did as lines for people; None when it did nothing, which most ticks do."""
    done = [f"{body[name]} {name}" for name in _COUNTS if body.get(name)]
    if body.get("remaining"):
        done.append(f"{body['remaining']} more due")
    errors = body.get("errors") or []
    if not done and not errors:
        return None
    lines = [", ".join(done) or "nothing done"]
    lines += [f"  {one['action_type'] or 'tick'} {one['action_id'] or ''}: {one['error']}" for one in errors]
    return "\n".join(lines)
