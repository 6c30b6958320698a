"""`webhooks listen`: receive, verify and print webhooks on this machine."""

import json
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

import click

from scheduled_actions.cli.output import local, one_line, pretty_json, print_json, wants_json
from scheduled_actions.cli.parameters import WholeNumber, json_option
from scheduled_actions.cli.project import Project, pass_project
from scheduled_actions.core import signing
from scheduled_actions.core.messages import did_you_mean, listed
from scheduled_actions.local.receiver import receiving
from scheduled_actions.webhooks import SignatureInvalid, verify

_INSTRUCTIONS = """\
listening at {url}

  scheduled_actions.toml   [webhooks.endpoints.local]
                           env_var = "LOCAL_WEBHOOK_URL"
                           secret_env_var = "LOCAL_WEBHOOK_SECRET"
  .env                     LOCAL_WEBHOOK_URL={url}
                           LOCAL_WEBHOOK_SECRET={secret}
  then                     scheduled-actions webhooks endpoints test local
"""


@click.command()
@click.option(
    "--port", type=WholeNumber(0, 65535), default=9000, show_default=True, help="Port; 0 chooses a free port."
)
@click.option(
    "--secret",
    metavar="whsec_…",
    envvar="WEBHOOK_SECRET",
    help="Secret that verifies requests. [default: $WEBHOOK_SECRET, or a generated secret]",
)
@click.option("--endpoint", metavar="NAME", help="Use the secret of this endpoint in scheduled_actions.toml.")
@click.option(
    "--answer", type=WholeNumber(200, 599), default=204, show_default=True, help="HTTP status for valid requests."
)
@click.option("--count", type=WholeNumber(1), metavar="N", help="Exit after N requests. [default: run until Ctrl-C]")
@json_option
@pass_project
def listen(
    project: Project, *, port: int, secret: str | None, endpoint: str | None, answer: int, count: int | None
) -> None:
    """Receive webhooks at http://127.0.0.1:PORT; verify and print each request.

    A request with a missing or wrong signature, or a body that is not JSON, is answered with 401. --answer 500
    simulates a failing receiver.
    """
    from scheduled_actions.webhooks.endpoints.service import new_secret  # noqa: PLC0415 - help needs no database driver

    chosen = (_secret_of(project, endpoint) if endpoint else secret) or new_secret()
    signing.keys_of(chosen)
    done, lock, received = threading.Event(), threading.Lock(), 0
    # Requests run on threads without a click context.
    print_request = print_json if wants_json() else _print_as_text

    def receive(_path: str, headers: Mapping[str, str], body: bytes) -> int:
        nonlocal received
        request = _verified(body, headers, chosen)
        with lock:
            received += 1
            if count is None or received <= count:
                print_request(request)
            if received == count:
                done.set()
        return answer if request["is_verified"] else HTTPStatus.UNAUTHORIZED

    with receiving(port, receive) as url:
        click.echo(
            f"listening at {url}" if endpoint or secret else _INSTRUCTIONS.format(url=url, secret=chosen), err=True
        )
        try:
            done.wait()
        except KeyboardInterrupt:
            click.echo(err=True)


def _secret_of(project: Project, name: str) -> str:
    endpoints = project.config.settings.webhooks.endpoints
    declared = endpoints.get(name)
    if declared is None or declared.secret_env_var is None:
        signed = sorted(one for one, endpoint in endpoints.items() if endpoint.secret_env_var is not None)
        hint = did_you_mean(name, signed, otherwise=f"those with one: {listed(signed, most=10)}" if signed else "")
        problem = f"scheduled_actions.toml declares no endpoint {name!r} with a secret_env_var"
        raise click.BadParameter(f"{problem}; {hint}" if hint else problem, param_hint="'--endpoint'")
    project.config.endpoint_keys(declared)
    return project.environ[declared.secret_env_var]


def _verified(body: bytes, headers: Mapping[str, str], secret: str) -> dict[str, Any]:
    """Verify a request, and return it as a document for `--json`."""
    problem, content = None, None
    try:
        verify(body, headers, secret)
    except SignatureInvalid as error:
        problem = str(error)
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        problem = problem or "the body is not JSON"
    return {
        "at": datetime.now(UTC),
        "webhook_id": next((value for name, value in headers.items() if name.lower() == "webhook-id"), None),
        "is_verified": problem is None,
        "problem": problem,
        "body": content,
    }


def _print_as_text(request: dict[str, Any]) -> None:
    body = request["body"]
    event = body.get("event", "") if isinstance(body, dict) else ""
    state = "verified" if request["is_verified"] else f"REJECTED: {request['problem']}"
    webhook_id = one_line(request["webhook_id"] or "no webhook-id")
    lines = [] if body is None else [f"  {one_line(line)}" for line in pretty_json(body).split("\n")]
    click.echo("\n".join([f"{local(request['at'])}  {one_line(str(event))}  {webhook_id}  {state}", *lines]))
