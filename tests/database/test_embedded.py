"""The embedded server, with real processes and kills: all holders share one server."""

from __future__ import annotations

import fcntl
import functools
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from scheduled_actions.core.errors import EmbeddedPostgresFailed, NotConfigured
from scheduled_actions.database.embedded import attach, cluster, dsn_if_running, remove
from scheduled_actions.database.embedded.cluster import free_port
from tests.faults.serving import has_ended

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has to lend the server to another account")

#: The uid and gid of an ordinary user.
ORDINARY = pwd.getpwnam("nobody").pw_uid

#: Holds the server of the given directory, as the given user if any, until its input ends.
HOLDER = """
import os, sys
from pathlib import Path
from scheduled_actions.database.embedded import attach

if len(sys.argv) > 2:
    os.setgroups([])
    os.setgid(int(sys.argv[2]))
    os.setuid(int(sys.argv[2]))
with attach(Path(sys.argv[1])) as server:
    print(server.dsn, flush=True)
    sys.stdin.read()
"""

#: The child closes the handle and exits; the parent prints the address while it holds the server.
FORKING_HOLDER = """
import os, sys
from pathlib import Path
from scheduled_actions.database.embedded import attach

server = attach(Path(sys.argv[1]))
child = os.fork()
if child == 0:
    server.close()
    sys.exit()
os.waitpid(child, 0)
print(server.dsn, flush=True)
sys.stdin.read()
"""

#: The parent closes its handle; parent and child continue to run.
CLOSED_WITH_A_CHILD = """
import os, sys
from pathlib import Path
from scheduled_actions.database.embedded import attach

server = attach(Path(sys.argv[1]))
if os.fork() == 0:
    sys.stdin.read()
    os._exit(0)
server.close()
print("closed", flush=True)
sys.stdin.read()
os.wait()
"""

#: The parent forks a child that waits for the end of the input, then kills itself.
KILLED_WITH_A_CHILD = """
import os, signal, sys
from pathlib import Path
from scheduled_actions.database.embedded import attach

server = attach(Path(sys.argv[1]))
if os.fork() == 0:
    sys.stdin.read()
    os._exit(0)
print(server.dsn, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


#: Options of `unshare` by the namespaces in which a process cannot see, or cannot reach, the server of another one.
NAMESPACES = {
    "network": ["--net"],
    "processes and network": ["--net", "--pid", "--fork", "--mount-proc", "--kill-child"],
}


@functools.cache
def can_unshare() -> bool:
    command = ["unshare", *NAMESPACES["processes and network"], "true"]
    return shutil.which("unshare") is not None and subprocess.run(command, check=False).returncode == 0


needs_namespaces = pytest.mark.skipif(not can_unshare(), reason="this machine does not permit other namespaces")


@pytest.fixture
def place() -> Iterator[Path]:
    """Yield an empty directory that all users may enter."""
    with open_directory() as directory:
        yield directory


@pytest.fixture(scope="module")
def used() -> Iterator[Path]:
    """Yield the directory of a server that has run before; each test leaves the server stopped."""
    with open_directory() as directory:
        home = directory / ".scheduled_actions"
        with attach(home) as server, psycopg.connect(server.dsn) as connection:
            connection.execute("create table notes (text text)")
        yield home


@contextmanager
def open_directory() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp()).resolve()
    directory.chmod(0o755)
    yield directory
    for remembered in list(directory.rglob("postgres.json")):
        assert remove(remembered.parent), "a test left its server running"
    shutil.rmtree(directory)


@contextmanager
def holder(
    directory: Path,
    script: str = HOLDER,
    *,
    uid: int | None = None,
    wait: bool = True,
    within: Sequence[str] = (),
    **arguments,
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a process that holds the server; yield the process and the address that it printed.

    `within` is a command that runs the process elsewhere.
    """
    process = subprocess.Popen(
        [*within, sys.executable, "-c", script, directory, *([] if uid is None else [str(uid)])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        **arguments,
    )
    with process:
        yield process, process.stdout.readline().strip() if wait else ""
        process.stdin.close()


def ask(dsn: str, question: str) -> object:
    with psycopg.connect(dsn, connect_timeout=5) as connection:
        return connection.execute(question).fetchone()[0]


def port_of(dsn: str) -> int:
    return int(psycopg.conninfo.conninfo_to_dict(dsn)["port"])


def give_port(directory: Path, port: int) -> None:
    remembered = directory / "postgres.json"
    remembered.write_text(json.dumps(json.loads(remembered.read_text()) | {"port": port}))


def postmaster(dsn: str) -> int:
    return int(ask(dsn, "select split_part(pg_read_file('postmaster.pid'), E'\\n', 1)"))


def data_of(directory: Path) -> Path:
    remembered = json.loads((directory / "postgres.json").read_text())
    return Path(remembered["elsewhere"] or directory) / "data"


def copy_of(directory: Path, place: Path) -> Path:
    subprocess.run(["cp", "-a", directory, place / "copy"], check=True)
    return place / "copy"


def wait_until(is_so: Callable[[], bool], seconds: float = 15) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.01)


def test_the_first_attach_creates_a_loopback_server_with_an_empty_database(place):
    directory = place / ".scheduled_actions"

    with attach(directory) as server, psycopg.connect(server.dsn) as connection:
        shown = {
            name: connection.execute("select current_setting(%s)", [name]).fetchone()[0]
            for name in (
                "listen_addresses", "unix_socket_directories", "shared_buffers", "max_connections", "fsync",
                "TimeZone", "server_encoding", "lc_messages", "scram_iterations",
            )
        }  # fmt: skip
        collation = connection.execute("select datcollate from pg_database where datname = current_database()")
        tables = connection.execute("select count(*) from pg_tables where schemaname = 'public'")

        assert shown == {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "shared_buffers": "128MB",
            "max_connections": "200",
            "fsync": "on",
            "TimeZone": "UTC",
            "server_encoding": "UTF8",
            "lc_messages": "C",
            "scram_iterations": "4096",
        }
        assert connection.info.dbname == "scheduled_actions"
        assert collation.fetchone() == ("C",)
        assert tables.fetchone() == (0,)


def test_a_restart_keeps_data_and_address(used):
    with attach(used) as server, psycopg.connect(server.dsn) as connection:
        connection.execute("insert into notes values ('kept')")

    with attach(used) as again:
        assert again.dsn == server.dsn
        assert ask(again.dsn, "select count(*) from notes where text = 'kept'") == 1


def test_the_server_stops_only_with_its_last_holder(used):
    first = attach(used)
    second = attach(used)

    first.close()
    after_the_first = dsn_if_running(used)
    second.close()
    after_the_last = dsn_if_running(used)

    assert after_the_first == second.dsn
    assert after_the_last is None


def test_closing_twice_releases_only_one_handle(used):
    with attach(used) as kept:
        other = attach(used)

        other.close()
        other.close()

        assert ask(kept.dsn, "select 1") == 1


@pytest.mark.parametrize("password", ["guessed", None])
def test_the_server_requires_its_password(used, password):
    with attach(used) as server:
        address = {"host": "127.0.0.1", "port": port_of(server.dsn), "dbname": "postgres"}

        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(**address, user="scheduled_actions", password=password)


def test_only_the_owner_can_read_the_password(used):
    with attach(used) as server:
        password = psycopg.conninfo.conninfo_to_dict(server.dsn)["password"]

    assert (used / "postgres.json").stat().st_mode & 0o777 == 0o600
    assert data_of(used).stat().st_mode & 0o777 == 0o700
    assert (used / "postgres.log").stat().st_mode & 0o777 == 0o600
    assert password not in repr(server)
    assert password not in (used / "postgres.log").read_text()


def test_the_log_contains_no_statements_or_values(used):
    with attach(used) as server, psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("create table once (word text primary key)")
        connection.execute("insert into once values ('confidential')")
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute("insert into once values ('confidential')")

    log = (used / "postgres.log").read_text()
    assert "duplicate key" in log
    assert "confidential" not in log


def test_options_are_passed_to_the_server_at_its_start(used):
    with attach(used, options=("-c", "fsync=off")) as server:
        assert ask(server.dsn, "show fsync") == "off"


def test_six_processes_that_attach_concurrently_share_one_new_server(place):
    directory = place / ".scheduled_actions"
    command = [sys.executable, "-c", HOLDER, directory]

    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(6)]
    addresses = {process.stdout.readline().strip() for process in processes}
    running = dsn_if_running(directory)
    statuses = [process.communicate() and process.returncode for process in processes]

    assert addresses == {running}
    assert statuses == [0] * 6
    assert dsn_if_running(directory) is None


def test_the_server_of_a_killed_holder_stops_by_itself(used):
    with holder(used) as (process, dsn):
        pid = postmaster(dsn)
        process.kill()
        process.wait()

    wait_until(lambda: has_ended(pid))
    assert "database system is shut down" in (used / "postgres.log").read_text().splitlines()[-1]


def test_the_next_holder_joins_and_stops_the_server_of_a_killed_holder(used):
    with holder(used) as (process, dsn):
        before = postmaster(dsn)
        with attach(used) as server:
            process.kill()
            process.wait()
            joined = postmaster(server.dsn)

    assert joined == before
    assert dsn_if_running(used) is None


def test_a_killed_server_restarts_with_the_committed_data(used):
    with attach(used) as server:
        with psycopg.connect(server.dsn) as connection:
            connection.execute("insert into notes values ('committed')")
        os.kill(postmaster(server.dsn), signal.SIGKILL)
        wait_until(lambda: dsn_if_running(used) is None)
        give_port(used, server_port := free_port())

        with attach(used) as recovered:
            found = ask(recovered.dsn, "select count(*) from notes where text = 'committed'")

    assert found == 1
    assert port_of(recovered.dsn) == server_port
    assert dsn_if_running(used) is None  # The handle that stopped the server was opened with another port.


def test_a_server_that_does_not_respond_is_waited_for_and_not_replaced(used):
    with attach(used) as server:
        pid, port = postmaster(server.dsn), port_of(server.dsn)
        os.kill(pid, signal.SIGSTOP)
        try:
            with holder(used, wait=False) as (process, _):
                # The first attempt asks whether the server is running, the second one follows the refusal to start it.
                wait_until(lambda: unanswered(port) >= 2)
                os.kill(pid, signal.SIGCONT)
                joined = process.stdout.readline().strip()
        finally:
            os.kill(pid, signal.SIGCONT)

        assert joined == server.dsn
        assert postmaster(joined) == pid


def unanswered(port: int) -> int:
    """Return the number of connections to a local port, including those that the client has given up."""
    table = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(line[1] == f"0100007F:{port:04X}" and line[3] in {"01", "08"} for line in table)


def test_a_pid_file_with_the_id_of_an_unrelated_process_does_not_prevent_a_start(used):
    data = data_of(used)
    owner = data.stat().st_uid
    stranger = subprocess.Popen(["/bin/sleep", "60"], user=owner if os.geteuid() == 0 else None)
    stale = data / "postmaster.pid"
    stale.write_text(f"{stranger.pid}\n{data}\n1\n1\n\n127.0.0.1\n")
    shutil.chown(stale, owner)

    try:
        with attach(used) as server:
            found = ask(server.dsn, "select 1")
        is_unharmed = stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()

    assert found == 1
    assert is_unharmed


def test_a_port_that_is_in_use_is_replaced_by_a_free_port(used):
    with socket.socket() as squatter:
        squatter.bind(("127.0.0.1", 0))
        taken = squatter.getsockname()[1]
        give_port(used, taken)

        with attach(used) as moved:
            found = ask(moved.dsn, "select count(*) >= 0 from notes")

    with attach(used) as again:
        assert found
        assert port_of(moved.dsn) != taken
        assert again.dsn == moved.dsn


def test_a_forked_child_that_closes_its_handle_does_not_stop_the_server(used):
    with holder(used, FORKING_HOLDER) as (_, dsn):
        assert ask(dsn, "select 1") == 1

    assert dsn_if_running(used) is None


def test_a_forked_child_blocks_no_other_process_after_its_parent_closed_the_handle(used):
    with holder(used, CLOSED_WITH_A_CHILD):
        joining = [sys.executable, "-c", HOLDER, used]
        done = subprocess.run(joining, stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=True)

    assert done.stdout.startswith(b"postgresql://")
    assert dsn_if_running(used) is None


def test_the_children_of_a_killed_holder_keep_the_server_running(used):
    with holder(used, KILLED_WITH_A_CHILD) as (process, dsn):
        process.wait()
        attach(used).close()
        while_the_child_lives = dsn_if_running(used)

    assert while_the_child_lives == dsn
    wait_until(lambda: dsn_if_running(used) is None)


def test_the_server_is_not_a_child_and_has_its_own_session(used):
    with holder(used) as (process, dsn):
        pid = postmaster(dsn)
        session = os.getsid(pid)
        children = subprocess.run(["ps", "-o", "ppid=", "-p", str(pid)], capture_output=True, text=True, check=True)

    assert session not in {os.getsid(0), os.getsid(os.getpid())}
    assert int(children.stdout) != process.pid


def test_the_error_of_a_failed_start_quotes_the_log_and_no_handle_remains(used):
    settings = data_of(used) / "postgresql.conf"
    sound = settings.read_text()
    settings.write_text(f"{sound}\nno_such_setting = 1\n")
    (used / "postgres.log").write_text("an old line\n" * 100_000)

    with pytest.raises(EmbeddedPostgresFailed, match=r"no_such_setting.*postgres\.log.*DATABASE_URL"):
        attach(used)
    settings.write_text(sound)
    with attach(used) as repaired:
        found = ask(repaired.dsn, "select 1")

    assert found == 1
    assert dsn_if_running(used) is None
    assert "an old line" not in (used / "postgres.log").read_text()


def test_data_of_a_version_that_is_not_installed_is_not_changed(used):
    version = data_of(used) / "PG_VERSION"
    real = version.read_text()
    version.write_text("13\n")

    try:
        with pytest.raises(EmbeddedPostgresFailed, match=r"PostgreSQL 13 created the data, but is not .*install"):
            attach(used)
    finally:
        version.write_text(real)


def test_a_copied_project_gets_a_separate_server(used, place):
    with attach(used) as original:
        copy = copy_of(used, place)

        with attach(copy) as copied:
            assert copied.dsn != original.dsn
            assert postmaster(copied.dsn) != postmaster(original.dsn)

        assert ask(original.dsn, "select 1") == 1


def test_a_cluster_that_was_not_asked_for_is_not_created(place):
    (place / "empty").mkdir()

    for directory in (place / "missing", place / "empty"):
        with pytest.raises(NotConfigured, match=r"DATABASE_URL.*`scheduled-actions dev`.*SCHEDULED_ACTIONS_EMBEDDED=1"):
            attach(directory, may_create=False)

    assert [path.name for path in place.rglob("*")] == ["empty"]


def test_an_existing_cluster_is_always_joined(used):
    with attach(used, may_create=False) as server:
        assert ask(server.dsn, "select 1") == 1


def test_a_server_that_has_ended_is_started_again_by_a_holder(used):
    with attach(used) as server:
        before = server.dsn
        while_running = server.restart_if_ended()
        os.kill(postmaster(server.dsn), signal.SIGKILL)
        wait_until(server.restart_if_ended)

        assert not while_running
        assert server.dsn == before
        assert ask(server.dsn, "select count(*) >= 0 from notes")


def test_data_without_a_password_is_not_overwritten(used):
    remembered = used / "postgres.json"
    remembered.rename(used / "lost.json")

    try:
        with pytest.raises(EmbeddedPostgresFailed, match=r"postgres\.json with its password is missing; restore it"):
            attach(used)
    finally:
        (used / "lost.json").rename(remembered)


def test_only_an_unused_cluster_is_removed(used, place):
    directory = copy_of(used, place)

    with attach(directory):
        while_held = remove(directory)
    afterwards = remove(directory)

    assert not while_held
    assert afterwards
    assert not directory.exists()
    assert not remove(directory)


def test_removing_a_copy_that_was_never_started_keeps_the_original(used, place):
    directory = copy_of(used, place)

    is_removed = remove(directory)
    shutil.rmtree(directory)

    assert not is_removed
    assert (used / "data").exists()
    assert (used / "postgres.json").exists()


@pytest.mark.slow
def test_a_process_waiting_for_a_removed_directory_creates_the_directory_again(used, place):
    directory = copy_of(used, place)
    lock = directory / "start.lock"

    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with holder(directory, wait=False) as (waiting, _):
            wait_until(lambda: is_waiting_for(lock, waiting))
            shutil.rmtree(directory)
            fcntl.flock(held, fcntl.LOCK_UN)
            answer = ask(waiting.stdout.readline().strip(), "select to_regclass('notes') is null")
            is_removed = remove(directory)

    assert answer is True
    assert not is_removed, "another process holds it"
    assert remove(directory)
    assert not directory.exists()


def is_waiting_for(lock: Path, process: subprocess.Popen[str]) -> bool:
    locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return any(
        words[1] == "->" and words[5] == str(process.pid) and words[6].endswith(f":{lock.stat().st_ino}")
        for words in locks
    )


def test_the_error_names_a_path_that_cannot_be_a_directory(place):
    (place / "file").touch()

    with pytest.raises(EmbeddedPostgresFailed, match=r"/file is writable and belongs.*DATABASE_URL"):
        attach(place / "file")


def test_without_programs_the_error_explains_how_to_install_them(place):
    with pytest.raises(
        EmbeddedPostgresFailed, match=r'pip install "scheduled-actions\[embedded\]", or set DATABASE_URL'
    ):
        cluster.pick([place / "nowhere"], None)


def test_the_version_that_created_the_data_is_preferred_to_newer_versions(place):
    for major in (18, 16):
        for name in ("initdb", "postgres"):
            program = place / str(major) / name
            program.parent.mkdir(exist_ok=True)
            program.write_text(f"#!/bin/sh\necho 'postgres (PostgreSQL) {major}.3'\n")
            program.chmod(0o755)
    places = [place / "18", place / "16"]

    assert cluster.pick(places, None) == place / "18"
    assert cluster.pick(places, 16) == place / "16"


@needs_root
def test_for_root_an_unprivileged_account_runs_the_server(used):
    with attach(used) as server:
        status = Path(f"/proc/{postmaster(server.dsn)}/status").read_text()
        surroundings = Path(f"/proc/{postmaster(server.dsn)}/environ").read_text()

    ids = {line.split()[0]: line.split()[1:] for line in status.splitlines() if line}
    assert "0" not in ids["Uid:"] + ids["Gid:"] + ids["Groups:"]
    assert data_of(used).stat().st_uid == int(ids["Uid:"][0])
    assert {pair.partition("=")[0] for pair in surroundings.split("\0")} >= {"LC_ALL", "PATH"}
    assert "HOME=" not in surroundings


@needs_root
def test_a_private_project_of_root_stays_private_and_gets_a_server(place):
    place.chmod(0o700)
    directory = place / "project" / ".scheduled_actions"

    with attach(directory) as server, psycopg.connect(server.dsn) as connection:
        connection.execute("create table notes as select 'kept' as text")
    with attach(directory) as again:
        found = ask(again.dsn, "select text from notes")
    home = data_of(directory).parent

    assert found == "kept"
    assert place.stat().st_mode & 0o777 == 0o700
    assert home.parent == Path("/var/lib/scheduled-actions")
    assert (home.stat().st_uid, home.stat().st_mode & 0o777) == (0, 0o711)
    assert (data_of(directory).stat().st_uid == 0, data_of(directory).stat().st_mode & 0o777) == (
        False,
        0o700,
    )
    assert remove(directory)
    assert not home.exists()


@needs_root
def test_a_moved_private_project_keeps_its_data_and_a_copy_starts_empty(place):
    place.chmod(0o700)
    with attach(place / "before") as server, psycopg.connect(server.dsn) as connection:
        connection.execute("create table notes ()")

    (place / "before").rename(place / "moved")
    with attach(place / "moved") as moved:
        shutil.copytree(place / "moved", place / "copy")
        with attach(place / "copy") as copied:
            tables = [
                ask(server.dsn, "select count(*) from pg_tables where schemaname = 'public'")
                for server in (moved, copied)
            ]

    assert tables == [1, 0]


@needs_root
def test_programs_that_the_account_cannot_reach_are_copied(used, place):
    wheel = next(cluster.candidates()).parent.parent
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    for part in (wheel, wheel.with_name(f"{wheel.name}.libs")):
        shutil.copytree(part, closed / part.name, ignore=shutil.ignore_patterns("*.a", "include", "pginstall"))
    directory = copy_of(used, place)

    with holder(directory, env={**os.environ, "PYTHONPATH": str(closed)}) as (_, dsn):
        program = Path(f"/proc/{postmaster(dsn)}/exe").readlink()

    assert directory in program.parents
    assert closed.stat().st_mode & 0o777 == 0o700


@needs_root
def test_an_owner_without_a_user_name_does_not_run_the_server_for_root(place):
    os.chown(place, 54321, 54321)

    account = cluster.account_for(place)

    assert account.uid not in {0, 54321}


@needs_root
def test_root_can_attach_to_the_server_of_an_ordinary_user(place):
    directory = place / ".scheduled_actions"
    os.chown(place, ORDINARY, ORDINARY)

    with holder(directory, uid=ORDINARY) as (_, dsn), attach(directory) as joined:
        run_by = Path(f"/proc/{postmaster(dsn)}").stat().st_uid
        joined_dsn = joined.dsn
    with socket.socket() as squatter:
        squatter.bind(("127.0.0.1", 0))
        give_port(directory, squatter.getsockname()[1])  # So that root has to store another port.
        started_by_root = attach(directory)
    with started_by_root:
        run_by_then = Path(f"/proc/{postmaster(started_by_root.dsn)}").stat().st_uid

    assert (run_by, run_by_then) == (ORDINARY, ORDINARY)
    assert joined_dsn == dsn
    assert directory.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_uid for path in directory.iterdir()} == {ORDINARY}


@needs_root
def test_the_server_of_another_user_is_refused_with_a_remedy(used):
    with holder(used, uid=ORDINARY, stderr=subprocess.PIPE) as (process, dsn):
        said = process.stderr.read()

    assert dsn == ""
    assert "is writable and belongs to the current user, or set DATABASE_URL" in said


# -- containers --------------------------------------------------------------------------------------------------------


#: Sets up loopback, then runs the holder. The server listens on loopback, which is down in a new namespace.
WITH_LOOPBACK = """
import fcntl, socket, struct, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as loopback:
    fcntl.ioctl(loopback, 0x8914, struct.pack("16sh", b"lo", 1))  # SIOCSIFFLAGS, IFF_UP
"""

#: A holder that also answers: for each line of its input, it prints the texts of all notes.
ANSWERING = (
    WITH_LOOPBACK
    + """
from pathlib import Path
import psycopg
from scheduled_actions.database.embedded import attach
from scheduled_actions.core.errors import ScheduledActionsError

try:
    server = attach(Path(sys.argv[1]))
except ScheduledActionsError as error:
    sys.exit(f"refused: {error}")
with server:
    print("attached", flush=True)
    for line in sys.stdin:
        with psycopg.connect(server.dsn) as connection:
            connection.execute("create table if not exists notes (text text)")
            connection.execute("insert into notes values (%s)", [line.strip()])
            rows = connection.execute("select text from notes").fetchall()
        print(",".join(text for text, in rows), flush=True)
"""
)


def note(process: subprocess.Popen[str], text: str) -> str:
    """Make a holder write a note; return all notes."""
    process.stdin.write(f"{text}\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


@needs_namespaces
@pytest.mark.slow
@pytest.mark.parametrize("path", ["the same path", "another path"])
@pytest.mark.parametrize("second_is_inside", [True, False], ids=["first outside", "first inside"])
@pytest.mark.parametrize("namespaces", NAMESPACES)
def test_a_second_server_in_other_namespaces_is_refused(place, namespaces, second_is_inside, path):
    directory, mounted = place / "project" / ".scheduled_actions", place / "workspace"
    directory.mkdir(parents=True)
    directory.chmod(0o755)
    mounted.mkdir()
    seen = directory if path == "the same path" else mounted / ".scheduled_actions"
    inside = ["unshare", *NAMESPACES[namespaces]]
    elsewhere = [*inside, "--mount", "sh", "-c", f'mount --bind {place}/project {mounted} && exec "$@"', "sh"]
    first, second = ([], elsewhere) if second_is_inside else (elsewhere, [])
    paths = (directory, seen) if second_is_inside else (seen, directory)

    def attempt() -> subprocess.CompletedProcess[str]:
        command = [*second, sys.executable, "-c", ANSWERING, paths[1]]
        return subprocess.run(command, input="second\n", capture_output=True, text=True, timeout=100, check=False)

    with holder(paths[0], ANSWERING, within=first) as (process, _):
        before = note(process, "first")
        refused = attempt()
        after = note(process, "still here")
    after_its_end = attempt()
    attach(directory).close()  # The project is here again, so that it can be removed.

    assert before == "first"
    assert after == "first,still here"
    assert refused.returncode == 1
    assert "its server runs in another container or network namespace" in refused.stderr
    assert "stop that process" in refused.stderr
    assert after_its_end.stdout.splitlines() == ["attached", "first,still here,second"], after_its_end.stderr


@needs_namespaces
@pytest.mark.slow
def test_a_server_whose_holders_and_watchdog_were_killed_is_not_joined_by_a_second_one(place):
    """`pkill python` leaves a server without holders."""
    directory = place / ".scheduled_actions"
    with holder(directory) as (process, dsn):
        pid = postmaster(dsn)
        os.kill(parent_of(pid), signal.SIGKILL)
        process.kill()
        process.wait()

    command = ["unshare", "--net", "--pid", "--fork", "--mount-proc", sys.executable, "-c", ANSWERING, directory]
    refused = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)

    assert "another container or network namespace" in refused.stderr
    assert ask(dsn, "select 1") == 1
    assert remove(directory)


@needs_namespaces
@pytest.mark.slow
def test_a_last_holder_that_cannot_see_the_server_leaves_its_end_to_the_watchdog(used):
    """Both processes use the same network, but process ids of one mean nothing to the other."""
    with holder(used) as (process, dsn):
        pid = postmaster(dsn)
        within = ["unshare", "--pid", "--fork", "--mount-proc"]
        with holder(used, within=within) as (_, joined):
            process.kill()
            process.wait()
            is_removed = remove(used)
            answer = ask(joined, "select 1")

    assert (joined, answer, is_removed) == (dsn, 1, False)
    wait_until(lambda: has_ended(pid))


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
