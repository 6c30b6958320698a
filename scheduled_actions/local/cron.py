"""Ping the local server as an external cron pings a deployment, and summarise the result."""

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PATH = "/cron/process"
#: The headers of the pings of the minute cron.
HEADERS = {"user-agent": "scheduled-actions-local-cron"}
#: The counts of a tick, the most important first.
_COUNTS = ("succeeded", "failed", "retried", "snoozed", "skipped", "rescued", "pruned")


@dataclass(frozen=True, slots=True)
class PingResult:
    """The response to a ping, or the reason why there was none."""

    #: The HTTP status; None if there was no response.
    status: int | None
    #: The JSON object of the response; empty if there was none.
    body: Mapping[str, Any]
    #: The reason why no tick answered; None if a tick answered.
    problem: str | None = None


def ping(
    host: str, port: int, secret: str | None, *, timeout_seconds: float, headers: Mapping[str, str] = HEADERS
) -> PingResult:
    """Ping once, and return the answer; a failed request is returned as a problem, not raised.

    Args:
        host: The server's host.
        port: The server's port.
        secret: The value of `CRON_SECRET`; None: no secret is sent.
        timeout_seconds: How long to wait for the response, which a tick sends when it ends.
        headers: Headers that name the caller.
    """
    own: dict[str, str | bytes] = {} if secret is None else {"x-cron-secret": secret.encode()}
    status = None
    connection = http.client.HTTPConnection(host, port, timeout=timeout_seconds)
    try:
        connection.request("GET", PATH, headers={**headers, **own})
        response = connection.getresponse()
        status, text = response.status, response.read()
        body = json.loads(text)
    except (OSError, http.client.HTTPException) as error:
        return PingResult(None, {}, f"no answer ({type(error).__name__})")
    except ValueError:
        return PingResult(status, {}, f"status {status}, but the body is not JSON")
    finally:
        connection.close()
    return PingResult(status, body, None if status == http.HTTPStatus.OK else f"status {status}: {body.get('detail')}")


def seconds_to_next_minute(now: float) -> float:
    """Return the time to the next full minute, more than 0 and at most 60; `now` is in seconds since 1970."""
    return 60 - now % 60


def summary(body: Mapping[str, Any]) -> str | None:
    """Return the result of a tick as lines of text; None if all its counts are 0 and there are no errors."""
    done = [f"{body[name]} {name}" for name in _COUNTS if body.get(name)]
    if body.get("remaining"):
        done.append(f"{body['remaining']} more due")
    errors = [
        f"  {one['action_type'] or 'tick'}{f' {one_id}' if (one_id := one['action_id']) else ''}: {one['error']}"
        for one in body.get("errors") or []
    ]
    return "\n".join([", ".join(done) or "nothing done", *errors]) if done or errors else None
