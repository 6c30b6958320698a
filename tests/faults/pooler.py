"""PgBouncer in transaction mode, as a real process in front of one database."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.faults.serving import a_port, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVER_CONNECTIONS = 2
_HOW_TO_INSTALL = (
    "PgBouncer is not installed. Debian and Ubuntu: apt-get install pgbouncer. macOS: brew install pgbouncer."
)
#: Directories of PgBouncer that are not in the PATH of ordinary users.
_MORE_PATH = ("/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin")
#: PgBouncer refuses to run as root: then it runs as the first of these accounts that exists.
_ACCOUNTS = ("pgbouncer", "postgres", "nobody")


@contextmanager
def pooled(url: str) -> Iterator[str]:
    """Yield the address of a pooler in front of the database, in transaction mode with two server connections."""
    program = shutil.which("pgbouncer", path=os.pathsep.join([os.environ.get("PATH", ""), *_MORE_PATH]))
    assert program is not None, _HOW_TO_INSTALL
    to = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    port = a_port()
    directory = Path(tempfile.mkdtemp(prefix="scheduled-actions-pooler-"))
    account = _account()
    (directory / "users.txt").write_text(f'"{to["user"]}" "{to["password"]}"\n', encoding="utf-8")
    (directory / "pgbouncer.ini").write_text(_configuration(to, port, directory), encoding="utf-8")
    if account is not None:
        for path in (directory, *directory.iterdir()):
            os.chown(path, account.pw_uid, account.pw_gid)
    log = directory / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [program, directory / "pgbouncer.ini"], stdout=out, stderr=out, cwd=directory, **_identity(account)
        )
    try:
        address = make_conninfo(url, host="127.0.0.1", port=str(port))
        wait_until(lambda: _answers(process, address, log), within=20, what="the pooler answers")
        yield address
    finally:
        process.kill()
        process.wait(timeout=10)
        shutil.rmtree(directory)


def _account() -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    for name in _ACCOUNTS:
        with suppress(KeyError):
            return pwd.getpwnam(name)
    message = f"PgBouncer refuses to run as root, and there is no account {' or '.join(_ACCOUNTS)}"
    raise AssertionError(message)


def _identity(account: pwd.struct_passwd | None) -> dict[str, Any]:
    return {} if account is None else {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def _configuration(to: dict[str, str], port: int, directory: Path) -> str:
    return f"""
[databases]
{to["dbname"]} = host={to["host"]} port={to["port"]} dbname={to["dbname"]}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = plain
auth_file = {directory / "users.txt"}
pool_mode = transaction
default_pool_size = {SERVER_CONNECTIONS}
max_db_connections = {SERVER_CONNECTIONS}
max_client_conn = 200
log_connections = 0
log_disconnections = 0
"""


def _answers(process: subprocess.Popen[bytes], address: str, log: Path) -> bool:
    assert process.poll() is None, f"PgBouncer ended: {log.read_text(errors='replace')}"
    with suppress(psycopg.OperationalError):
        psycopg.connect(address, connect_timeout=5).close()
        return True
    return False
