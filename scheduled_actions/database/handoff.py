"""Find the `scheduled-actions dev` that serves a project, through the file that `dev` keeps in `.scheduled_actions/`.

`dev` holds a lock on the file. The kernel releases the lock however `dev` ends, so that a file which was left behind is
recognized, even if another process now has the port, and also from another container that shares the directory.
"""

import json
import os
from dataclasses import dataclass
from hashlib import sha256

from psycopg import OperationalError, pq

from scheduled_actions.core.config import Config
from scheduled_actions.core.secret import Secret

#: The path of the file in the project.
NAME = ".scheduled_actions/dev.json"
#: The parameters of a connection string that select the database, with libpq's defaults.
_DATABASE_DEFAULTS = {"service": "", "hostaddr": "", "host": "", "port": "5432", "dbname": ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dev:
    """What a running `dev` offers to the other processes of its project."""

    #: A POST to `/cron/process` below this address, signed with `secret`, starts a tick.
    url: str
    #: Generated at each start of `dev`, and used for nothing else.
    secret: Secret
    #: The port on 127.0.0.1 of the SMTP server that catches mails; None: mails are not caught.
    mail_port: int | None = None


def find(config: Config) -> Dev | None:
    """Return the `dev` that serves this project from the same database; None without one, and in production."""
    if config.is_production:
        return None
    try:
        # A string, because this is called for each action: joining paths takes twice the time of the missing file.
        descriptor = os.open(f"{config.project}/{NAME}", os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(descriptor, encoding="utf-8") as file:
            facts = json.load(file) if _is_locked(descriptor) else None
        if facts is None or facts["database"] != database_of(config):
            return None
        return Dev(url=facts["url"], secret=Secret(NAME, facts["secret"]), mail_port=facts["mail_port"])
    except (OSError, ValueError, KeyError, TypeError):
        # The file is usually missing; a file that cannot be used is no reason to fail an application.
        return None


def database_of(config: Config) -> str:
    """Return a value that differs between databases, and contains no part of a connection string.

    Users and passwords may differ. Without `DATABASE_URL`, the database is the embedded one of the project.
    """
    url = config.database_url.reveal()
    if not url:
        return "embedded"
    try:
        given = {one.keyword.decode(): (one.val or b"").decode() for one in pq.Conninfo.parse(url.encode())}
    except OperationalError:
        return "invalid"
    parts = [given.get(name) or default for name, default in _DATABASE_DEFAULTS.items()]
    return sha256("\0".join("127.0.0.1" if part == "localhost" else part for part in parts).encode()).hexdigest()


def _is_locked(descriptor: int) -> bool:
    """Return whether the process that wrote the file is running."""
    import fcntl  # noqa: PLC0415 - Windows has no such module, and no `dev` that could have written the file

    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
