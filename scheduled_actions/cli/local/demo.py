"""`scheduled-actions demo`: the whole story on real input, each claim checked."""

from __future__ import annotations

import base64
import os
import secrets
import shutil
import signal
import tempfile
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scheduled_actions import runtime
from scheduled_actions.cli.group import Failure
from scheduled_actions.database import embedded as local_postgres
from scheduled_actions.local import project as local_project
from scheduled_actions.local import project_template
from scheduled_actions.local.demo.receiver import Receiver
from scheduled_actions.local.demo.report import Disappointed, Report
from scheduled_actions.local.demo.story import ACCOUNTS, WAREHOUSE, Story

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: What would lead the demo to somebody's real project.
_NOT_OURS = ("DATABASE_URL", "CRON_SECRET", "ADMIN_TOKEN", "VERCEL", "SCHEDULED_ACTIONS_")


@click.command()
def demo() -> None:
    """Show the whole story on a project of its own, which is gone afterwards: schedule, tick, retry, webhooks."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    report = Report()
    with _temporary_directory() as directory:
        endpoints = {name: _signing_secret() for name in (WAREHOUSE, ACCOUNTS)}
        with Receiver(endpoints, failing_once=ACCOUNTS) as receiver:
            _write_project(report, directory, receiver, endpoints)
            environ = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_OURS)}
            with local_project.running(directory, port=0, environ=environ) as project:
                _tell(report, project, receiver)
    click.echo(f"\n{report.checked} checks hold, after {report.seconds:.1f} seconds.")


@contextmanager
def _temporary_directory() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="scheduled-actions-demo-"))
    try:
        directory.chmod(0o711)  # The account that runs Postgres for root has to pass through.
        yield directory
    finally:
        local_postgres.remove(directory / ".scheduled_actions")
        shutil.rmtree(directory, ignore_errors=True)


def _signing_secret() -> str:
    return f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"


def _write_project(report: Report, directory: Path, receiver: Receiver, endpoints: Mapping[str, str]) -> None:
    report.step("A project with a database and a server of its own")
    report.does(f"scheduled-actions init {directory}")
    project_template.write(directory)
    shop = resources.files("scheduled_actions.local.demo").joinpath("shop.py").read_text(encoding="utf-8")
    (directory / "handlers" / "shop.py").write_text(shop, encoding="utf-8")
    settings, variables = "", ""
    for name, secret in endpoints.items():
        url_name, secret_name = f"{name.upper()}_URL", f"{name.upper()}_SECRET"
        settings += f'\n[webhooks.endpoints.{name}]\npatterns = ["order:*"]\n'
        settings += f'env_var = "{url_name}"\nsecret_env_var = "{secret_name}"\n'
        variables += f"{url_name}={receiver.url(name)}\n{secret_name}={secret}\n"
    report.does(f"a shop's handlers into handlers/shop.py, the endpoints {' and '.join(endpoints)} into its settings")
    with (directory / "scheduled_actions.toml").open("a", encoding="utf-8") as file:
        file.write(settings)
    with (directory / ".env").open("a", encoding="utf-8") as file:
        file.write(variables)
    report.does("registry, Postgres, tables, gunicorn")


def _tell(report: Report, project: local_project.LocalProject, receiver: Receiver) -> None:
    before = runtime.use(project.runtime)
    try:
        Story(report, project, receiver).tell()
    except Disappointed as error:
        words = project.server.last_words()
        message = f"the demo found what it did not expect\n    {error}\nthe server's last words:\n{words}"
        raise Failure(message) from error
    finally:
        runtime.use(before)
