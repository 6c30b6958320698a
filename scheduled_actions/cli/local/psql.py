"""`psql`: the project's database in PostgreSQL's own client."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys

import click

from scheduled_actions.cli.group import Failure
from scheduled_actions.cli.project import Project, pass_project


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[PSQL'S OPTIONS]...")
@pass_project
def psql(project: Project, *, arguments: tuple[str, ...]) -> None:
    """Open the project's database in psql, the embedded Postgres, too; the address and the password go along unseen.

    Everything else is psql's own: `psql -c 'select 1'`.
    """
    program = shutil.which("psql")
    if program is None:
        message = "no program here is called psql: PostgreSQL's client packages have it (postgresql-client)"
        raise Failure(message)
    # Held until psql has ended: the embedded server stops with the last who uses it.
    variables = _variables(project.open_without_handlers().find_dsn())
    # Ctrl-C is psql's, where it ends a statement. A handler, and not an order to ignore: that would be psql's, too.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        ran = subprocess.run([program, *arguments], env={**os.environ, **variables}, check=False)  # noqa: S603
    finally:
        signal.signal(signal.SIGINT, before)
    sys.exit(ran.returncode)


def _variables(dsn: str) -> dict[str, str]:
    """Return what a data source name says as the variables of libpq: no list of processes shows these."""
    from psycopg import OperationalError, pq  # noqa: PLC0415 - help needs no database driver

    try:
        options = pq.Conninfo.parse(dsn.encode())
    except OperationalError:
        message = "DATABASE_URL cannot be read: it must be postgresql://…"
        raise Failure(message) from None
    return {one.envvar.decode(): one.val.decode() for one in options if one.envvar and one.val}
