"""What a server's directory holds, and what is remembered between two starts.

`data` is the cluster, `postgres.json` its port and password (for its owner alone), `postgres.log` what it
said. Where the account that runs the server for root cannot enter the directory, `data` lies in a home of its
own below `/var/lib/scheduled-actions`; no permission of any other directory is touched.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import tempfile
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from scheduled_actions.core.errors import EmbeddedPostgresFailed

if TYPE_CHECKING:
    from scheduled_actions.database.embedded.programs import Account

#: Of the role and of the database.
NAME = "scheduled_actions"
#: Where clusters go whose directory is closed to the account.
HOMES = Path("/var/lib/scheduled-actions")
REMEMBERED = "postgres.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One server's place, port and password."""

    directory: Path
    port: int
    password: str = field(repr=False)
    #: Its home when the directory cannot be.
    elsewhere: Path | None

    @property
    def home(self) -> Path:
        """Where the data are."""
        return self.elsewhere or self.directory

    @property
    def data(self) -> Path:
        """What Postgres calls the data directory."""
        return self.home / "data"

    @property
    def log(self) -> Path:
        """What the server said."""
        return self.directory / "postgres.log"

    @property
    def dsn(self) -> str:
        """Address of the database for everybody's use."""
        return self.dsn_of(NAME)

    def dsn_of(self, database: str) -> str:
        """Return the address of one of its databases."""
        return f"postgresql://{NAME}:{self.password}@127.0.0.1:{self.port}/{database}"


def recall(directory: Path) -> Cluster | None:
    """Return what is remembered in `directory`; written in another one if the project was moved or copied."""
    path = directory / REMEMBERED
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        return Cluster(
            directory=Path(facts["directory"]),
            port=int(facts["port"]),
            password=facts["password"],
            elsewhere=Path(facts["elsewhere"]) if facts["elsewhere"] else None,
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        problem = f"{path} cannot be understood"
        raise EmbeddedPostgresFailed(problem, f"delete {directory} to begin with an empty database") from None


def conceive(directory: Path, account: Account | None) -> Cluster:
    """Return a new cluster, so far a home, a port and a password."""
    if (directory / "data").exists():
        problem = f"{directory / 'data'} is there, but not {REMEMBERED} with its password"
        raise EmbeddedPostgresFailed(problem, f"bring it back, or delete {directory} to begin empty")
    elsewhere = None if account is None or account.can_enter(directory) else _home_of_its_own(directory)
    password = secrets.token_urlsafe(24)
    return remember(Cluster(directory=directory, port=free_port(), password=password, elsewhere=elsewhere))


def _home_of_its_own(directory: Path) -> Path:
    if not HOMES.exists():
        HOMES.mkdir(parents=True, exist_ok=True)
        HOMES.chmod(0o711)
    # A second cluster for the same path never takes the first one's place: a moved project keeps its own.
    prefix = sha256(os.fsencode(directory)).hexdigest()[:16]
    home = Path(tempfile.mkdtemp(prefix=f"{prefix}-", dir=HOMES))
    home.chmod(0o711)
    write_private(home / "project", f"{directory}\n")
    return home


def adopt(cluster: Cluster, directory: Path) -> Cluster | None:
    """Return the cluster of a project moved or copied to `directory`; None: it is still the original's."""
    if cluster.elsewhere is not None:
        original = recall(cluster.directory)
        if original is not None and original.elsewhere == cluster.elsewhere:
            return None
    return remember(replace(cluster, directory=directory, port=free_port()))


def remember(cluster: Cluster) -> Cluster:
    """Write the cluster down, whole or not at all, and return it."""
    path = cluster.directory / REMEMBERED
    facts = {
        "directory": str(cluster.directory),
        "port": cluster.port,
        "password": cluster.password,
        "elsewhere": str(cluster.elsewhere or ""),
    }
    fresh = path.with_suffix(".new")
    write_private(fresh, json.dumps(facts))
    fresh.replace(path)
    return cluster


def delete(cluster: Cluster) -> None:
    """Delete the data and what is remembered of them."""
    (cluster.directory / REMEMBERED).unlink(missing_ok=True)
    for path in (
        [cluster.elsewhere] if cluster.elsewhere else [*cluster.home.glob("data*"), *cluster.home.glob("programs*")]
    ):
        shutil.rmtree(path, ignore_errors=True)


def write_private(path: Path, text: str) -> None:
    """Write a new file for the directory's owner alone, to stay even if the machine stops now."""
    path.unlink(missing_ok=True)
    with os.fdopen(open_private(path, os.O_WRONLY | os.O_EXCL), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    if os.geteuid() == 0:  # Root visiting a user's project must not lock the user out.
        owner = path.parent.stat()
        os.chown(path, owner.st_uid, owner.st_gid)


def open_private(path: Path | str, flags: int) -> int:
    """Return a descriptor of a file that others may not read, created when missing."""
    return os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW, 0o600)


def free_port() -> int:
    """Return a port nobody listened on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def is_free(port: int) -> bool:
    """Whether nobody listens on the port just now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
