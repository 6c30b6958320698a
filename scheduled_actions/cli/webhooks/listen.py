"""`webhooks listen`: a receiver on this machine that verifies what arrives and prints it."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import click

from scheduled_actions.cli.group import Failure
from scheduled_actions.cli.output import local, one_line, pretty_json, print_json
from scheduled_actions.cli.parameters import WholeNumber, as_json_option
from scheduled_actions.cli.project import Project, pass_project

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: Bytes of a delivery; ours are never larger than a payload.
_BODY_LIMIT = 1024 * 1024
_HOW_TO = """\
listening at {url}

  scheduled_actions.toml   [webhooks.endpoints.local]
                           env_var = "LOCAL_WEBHOOK_URL"
                           secret_env_var = "LOCAL_WEBHOOK_SECRET"
  .env                     LOCAL_WEBHOOK_URL={url}
                           LOCAL_WEBHOOK_SECRET={secret}
  then                     scheduled-actions webhooks endpoints test local
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One request."""

    at: datetime
    webhook_id: str | None
    #: Why it is not believed; None when it is.
    problem: str | None
    content: Any


@click.command()
@click.option("--port", type=WholeNumber(0, 65535), default=9000, show_default=True, help="0 takes a free one.")
@click.option("--secret", metavar="whsec_…", envvar="WEBHOOK_SECRET", help="[default: $WEBHOOK_SECRET, or a new one]")
@click.option("--endpoint", metavar="NAME", help="With the secret of this endpoint of scheduled_actions.toml.")
@click.option("--answer", type=WholeNumber(200, 599), default=204, show_default=True, help="To what is believed.")
@click.option("--count", type=WholeNumber(1), metavar="N", help="End after so many. [default: at Ctrl-C]")
@as_json_option
@pass_project
def listen(
    project: Project,
    *,
    port: int,
    secret: str | None,
    endpoint: str | None,
    answer: int,
    count: int | None,
    as_json: bool,
) -> None:
    """Receive webhooks at http://127.0.0.1:PORT, verify each, and print what it says.

    What is not signed with the secret is answered 401. --answer 500 shows what happens when a receiver fails.
    """
    from scheduled_actions.core import signing  # noqa: PLC0415 - as above
    from scheduled_actions.webhooks.endpoints.service import new_secret  # noqa: PLC0415 - help needs no database driver

    chosen = (_secret_of(project, endpoint) if endpoint else secret) or new_secret()
    signing.keys_of(chosen)
    done = threading.Event()
    heard = answered = 0
    lock = threading.Lock()

    def hear(one: Received) -> bool:
        nonlocal heard
        with lock:
            if count is not None and heard >= count:
                return False
            heard += 1
            _print(one, as_json=as_json)
        return True

    def close() -> None:
        """Count an answer that has gone out: to end before would make a failure of the last delivery."""
        nonlocal answered
        with lock:
            answered += 1
            if answered == count:
                done.set()

    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), _handler_of(chosen, answer, hear, close))
    except OSError as error:
        message = f"port {port} cannot be listened at: {error.strerror}; --port 0 takes a free one"
        raise Failure(message) from None
    url = f"http://127.0.0.1:{server.server_port}"
    is_ours = endpoint is None and secret is None
    click.echo(_HOW_TO.format(url=url, secret=chosen) if is_ours else f"listening at {url}", err=True)
    threading.Thread(target=server.serve_forever, args=[0.05], daemon=True).start()
    try:
        done.wait()
    except KeyboardInterrupt:
        click.echo(err=True)
    finally:
        server.shutdown()
        server.server_close()


def _secret_of(project: Project, name: str) -> str:
    declared = project.config.settings.webhooks.endpoints.get(name)
    if declared is None or declared.secret_env_var is None:
        message = f"scheduled_actions.toml declares no endpoint {name!r} with a secret_env_var"
        raise click.BadParameter(message, param_hint="'--endpoint'")
    project.config.endpoint_keys(declared)
    return project.environ[declared.secret_env_var]


def _handler_of(
    secret: str, answer: int, hear: Callable[[Received], bool], close: Callable[[], None]
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30

        def do_POST(self) -> None:
            length = self.headers.get("content-length") or "0"
            if not length.isdecimal() or int(length) > _BODY_LIMIT:
                self._answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
                return
            received = _received(self.rfile.read(int(length)), dict(self.headers.items()), secret)
            hear(received)
            try:
                self._answer(answer if received.problem is None else HTTPStatus.UNAUTHORIZED)
            finally:
                close()

        def _answer(self, status: int) -> None:
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing: what was received is printed."""

    return Handler


def _received(body: bytes, headers: Mapping[str, str], secret: str) -> Received:
    from scheduled_actions.webhooks import SignatureInvalid, verify  # noqa: PLC0415 - help needs no signatures

    problem = None
    try:
        verify(body, headers, secret)
    except SignatureInvalid as error:
        problem = str(error)
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        content, problem = None, problem or "the body is no JSON"
    lowered = {name.lower(): value for name, value in headers.items()}
    return Received(at=datetime.now(UTC), webhook_id=lowered.get("webhook-id"), problem=problem, content=content)


def _print(one: Received, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "at": one.at,
                "webhook_id": one.webhook_id,
                "is_verified": one.problem is None,
                "problem": one.problem,
                "body": one.content,
            }
        )
        return
    state = "verified" if one.problem is None else f"REFUSED: {one.problem}"
    event = one.content.get("event", "") if isinstance(one.content, dict) else ""
    click.echo(f"{local(one.at)}  {one_line(str(event))}  {one_line(one.webhook_id or 'no webhook-id')}  {state}")
    if one.content is not None:
        for line in pretty_json(one.content).split("\n"):
            click.echo(f"  {one_line(line)}")
