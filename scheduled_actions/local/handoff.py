"""Let the other processes of a project find its running `dev`, and receive their pings.

`database/handoff.py` has the other side.
"""

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http import HTTPStatus

from scheduled_actions.core import signing
from scheduled_actions.core.config import Config
from scheduled_actions.core.errors import ProjectUnusable, SignatureInvalid
from scheduled_actions.core.secret import Secret
from scheduled_actions.database import handoff
from scheduled_actions.database.embedded.cluster import write_private
from scheduled_actions.local.receiver import receiving


@contextmanager
def published(config: Config, dev: handoff.Dev) -> Iterator[None]:
    """Let the processes of the project find this `dev` until the block ends; a `dev` that starts later replaces it.

    Raises:
        ProjectUnusable: The file cannot be written or locked.
    """
    path = config.project / handoff.NAME
    fresh = path.with_suffix(".new")
    facts = {"url": dev.url, "secret": dev.secret.reveal(), "mail_port": dev.mail_port}
    try:
        path.parent.mkdir(mode=0o711, parents=True, exist_ok=True)
        write_private(fresh, json.dumps(facts | {"database": handoff.database_of(config)}))
        lock = os.open(fresh, os.O_RDWR)
        # Locked before it has its name, so that no process takes it for a file that was left behind.
        fcntl.flock(lock, fcntl.LOCK_EX)
        fresh.replace(path)
    except OSError as error:
        raise ProjectUnusable(config.project, f"{handoff.NAME} cannot be written: {error.strerror}") from error
    try:
        yield
    finally:
        with suppress(OSError):
            if os.path.samestat(os.fstat(lock), path.stat()):
                path.unlink()
        os.close(lock)


@contextmanager
def receiving_pings(secret: Secret, ping: Callable[[], object]) -> Iterator[str]:
    """Call `ping` for each signed POST until the block ends, on the thread of that request; yield the address.

    The end of the block waits for calls in progress.
    """

    def receive(_path: str, headers: Mapping[str, str], body: bytes) -> int:
        try:
            signing.verify(body, headers, secret.accepted, now=time.time())
        except SignatureInvalid:
            return HTTPStatus.UNAUTHORIZED
        ping()
        return HTTPStatus.OK

    with receiving(0, receive) as url:
        yield url
