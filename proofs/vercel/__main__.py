"""Build, serve and ping the project as Vercel does: `python -m proofs.vercel`.

Exit codes: 0 all checks passed, 1 a check failed or could not run.
"""

from __future__ import annotations

import secrets
import shutil
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from proofs.vercel import checks
from proofs.vercel.building import build
from proofs.vercel.host import Host
from proofs.vercel.tools import ProofFailedError, tools
from scheduled_actions.database import embedded as local_postgres
from scheduled_actions.database.migrate import migrate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from proofs.vercel.building import Built


def main() -> int:
    """Run and print all checks; return the exit code."""
    began = time.monotonic()
    directory = Path(tempfile.mkdtemp(prefix="vercel-proof-"))
    directory.chmod(0o711)  # Under root the database runs as another account, which needs access.
    try:
        _print("tools: installing the Vercel CLI and uv if they are missing")
        found = tools()
        _print(f"vercel build, offline, with Python {found.python_version}")
        built = build(found, directory / "build")
        for line in checks.of_the_build(built):
            _print(f"  ok  {line}")
        with _database(directory / "postgres") as url:
            for about, chosen, settings in (
                ("the function on a simulated host, shipped settings", checks.AS_SHIPPED, {}),
                ("the function with lingering ticks", checks.LINGERING, checks.LINGERING_SETTINGS),
            ):
                _print(about)
                _check(built, url, directory, chosen, settings)
    except ProofFailedError as error:
        sys.stderr.write(f"FAILED: {error}\n")
        return 1
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    _print(f"all checks passed; {time.monotonic() - began:.0f} s")
    return 0


def _check(
    built: Built,
    url: str,
    directory: Path,
    chosen: Sequence[Callable[[checks.Running], str]],
    settings: Mapping[str, str],
) -> None:
    secret = secrets.token_urlsafe(24)
    environ = {"DATABASE_URL": url, "CRON_SECRET": secret, **settings}
    with Host(built, environ, directory) as host, psycopg.connect(url, autocommit=True) as connection:
        running = checks.Running(host, secret, connection)
        try:
            for check in chosen:
                _print(f"  ok  {check(running)}")
        except (ProofFailedError, OSError) as error:
            message = f"{error}\nlog of the function:\n{host.logged()[-3000:]}"
            raise ProofFailedError(message) from error
        if secret in host.logged():
            raise ProofFailedError("the function logged its secret")


@contextmanager
def _database(directory: Path) -> Iterator[str]:
    """Yield the DSN of a new, migrated database on a temporary server."""
    with local_postgres.attach(directory) as server:
        try:
            with psycopg.connect(server.dsn, autocommit=True) as connection:
                migrate(connection)
            yield server.dsn
        finally:
            server.close()
            local_postgres.remove(directory)


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
