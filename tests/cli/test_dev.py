"""`scheduled-actions dev`: the errors that it reports, the processes that it starts, and their end."""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import closing, suppress
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner

from scheduled_actions.cli import main
from scheduled_actions.core import config
from scheduled_actions.database import embedded as local_postgres
from scheduled_actions.local import environment
from scheduled_actions.runtime import Runtime
from tests.faults.serving import has_ended, processes_of, wait_until

HANDLER = """
import os, time
from scheduled_actions import action

@action("test:work")
def work(payload: dict) -> int:
    time.sleep(payload.get("seconds", 0))
    return os.getpid()
"""
SECRET = "a-cron-secret-of-these-tests"


@pytest.fixture
def project(tmp_path):
    """Return a project directory with one handler and nothing else."""
    (tmp_path / "handlers").mkdir()
    (tmp_path / "handlers" / "__init__.py").touch()
    (tmp_path / "handlers" / "work.py").write_text(HANDLER)
    return tmp_path


# -- errors: one line, exit code 1, and nothing written or started -----------------------------------------------------


def error_of_dev(project, *arguments, **environ):
    """Run `dev`, check that it fails without a trace, and return its error."""
    before = sorted(project.rglob("*"))
    signals = signal.getsignal(signal.SIGTERM)
    values = dict.fromkeys(("DATABASE_URL", "CRON_SECRET", "ADMIN_TOKEN", "PORT", "SCHEDULED_ACTIONS_PROJECT"))
    answer = CliRunner().invoke(main, ["--project", str(project), "dev", *arguments], env=values | environ)

    assert answer.exit_code == 1, answer.output
    assert answer.stderr.startswith("error: ")
    assert sorted(project.rglob("*")) == before
    assert signal.getsignal(signal.SIGTERM) == signals
    return answer.stderr


def test_a_port_in_use_is_an_error_with_a_remedy(project):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        error = error_of_dev(project, PORT=str(port))

    assert f"127.0.0.1:{port}" in error
    assert "--port or PORT" in error


def test_a_directory_without_handlers_is_not_a_project(tmp_path):
    error = error_of_dev(tmp_path, "--port", "0")

    assert "no handlers/" in error
    assert "scheduled-actions init" in error


def test_an_invalid_setting_is_a_one_line_error(project):
    (project / "scheduled_actions.toml").write_text("batch_size = 0\n")

    assert "batch_size" in error_of_dev(project, "--port", "0")


def test_an_unparsable_env_file_is_a_one_line_error(project):
    (project / ".env").write_text("what is this\n")

    assert ".env: line 1" in error_of_dev(project, "--port", "0")


def test_a_name_with_two_values_in_the_env_file_is_a_one_line_error(project):
    (project / ".env").write_text("KEY=1\n\nKEY=2\n")

    error = error_of_dev(project, "--port", "0")

    assert error == "error: .env: line 3 sets KEY again, to another value than line 1: remove one of them\n"


def test_a_short_secret_is_rejected(project):
    error = error_of_dev(project, "--port", "0", CRON_SECRET="short", ADMIN_TOKEN="short")

    assert "CRON_SECRET" in error
    assert "16 random characters" in error


def test_a_syntax_error_in_a_handler_is_a_one_line_error_with_its_position(project):
    (project / ".env").write_text(f"CRON_SECRET={SECRET}\nADMIN_TOKEN={SECRET}\n")
    (project / "handlers" / "oops.py").write_text("def broken(\n")

    assert "handlers/oops.py:1" in error_of_dev(project, "--port", "0")


def test_a_failed_env_command_is_a_one_line_error(project):
    error = error_of_dev(project, "--port", "0", SCHEDULED_ACTIONS_ENV_COMMAND="false")

    assert "SCHEDULED_ACTIONS_ENV_COMMAND: false failed with exit code 1" in error


# -- real processes ----------------------------------------------------------------------------------------------------


class Dev:
    """`scheduled-actions dev` as a process, and its output."""

    def __init__(self, project, *, waits=True, **environ):
        outer = {name: value for name, value in os.environ.items() if not name.startswith("SCHEDULED_ACTIONS_")}
        self.project = project
        self.printed = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "scheduled_actions.cli", "dev", "--port", "0"],
            cwd=project,
            env={**outer, **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # So that a test can signal the process group.
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.processes = [self.process.pid]
        if not waits:
            return
        self.wait_for("/cron/process\n")
        self.port = int(re.search(r"http://127\.0\.0\.1:(\d+)", self.printed)[1])
        self.processes = [self.process.pid, *self.descendants()]

    def _read(self):
        for line in self.process.stdout:
            self.printed += line

    def wait_for(self, text):
        wait_until(lambda: text in self.printed, within=120, what=f"{text!r} is printed; so far: {self.printed!r}")

    def descendants(self):
        listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], check=True, capture_output=True, text=True).stdout
        children = [tuple(map(int, line.split())) for line in listed.splitlines()]
        found = [self.process.pid]
        for parent in found:
            found += [pid for pid, of in children if of == parent]
        return found[1:]

    def request(self, path, secret=None):
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)) as connection:
            connection.request("GET", path, headers={"x-cron-secret": secret} if secret else {})
            response = connection.getresponse()
            return response.status, json.loads(response.read())

    def printed_secret(self):
        quoted = re.search(r'curl -H ("x-cron-secret: .*") http', self.printed)[1]
        echoed = subprocess.run(
            ["sh", "-c", f"printf %s {quoted}"], cwd=self.project, check=True, capture_output=True, text=True
        )
        return echoed.stdout.removeprefix("x-cron-secret: ")

    def stop(self, number):
        self.process.send_signal(number)
        code = self.process.wait(timeout=120)
        for pid in self.processes:
            wait_until(lambda pid=pid: has_ended(pid), within=15, what=f"process {pid} is gone")
        self._reader.join(timeout=10)
        return code


@pytest.fixture
def start():
    """Return a function that starts `dev`; all of its processes are killed after the test."""
    started = []

    def start(project, **options):
        started.append(Dev(project, **options))
        return started[-1]

    yield start
    for dev in started:
        for pid in dev.processes:
            if not has_ended(pid):
                os.kill(pid, signal.SIGKILL)
        dev.process.wait(timeout=10)
        dev.process.stdout.close()


@pytest.fixture
def own_postgres(project):
    """Return a project in a directory that the account that runs Postgres for root can enter; delete it afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="scheduled-actions-dev-"))
    directory.chmod(0o711)
    shutil.copytree(project / "handlers", directory / "handlers")
    yield directory
    local_postgres.remove(directory / ".scheduled_actions")
    shutil.rmtree(directory)


def has_stopped(project):
    return local_postgres.dsn_if_running(project / ".scheduled_actions") is None


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_dev_creates_secrets_and_a_database_and_a_signal_stops_every_process(own_postgres, start, number):
    dev = start(own_postgres)
    status, report = dev.request("/cron/process", dev.printed_secret())
    running = not has_stopped(own_postgres)

    code = dev.stop(number)

    assert (status, report["success"]) == (200, True)
    assert running
    assert code == 0
    assert has_stopped(own_postgres)
    assert "(generated CRON_SECRET" in dev.printed
    secrets = config.load(own_postgres, environment.load(own_postgres, {}))
    assert secrets.cron_secret.reveal() not in dev.printed


INT, TERM, HUP = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
#: Signals, each with the seconds until the next one.
RUNNING = [
    *[[(TERM, 0), (INT, 0)], [(TERM, 0), (TERM, 0)], [(INT, 0), (TERM, 0)]] * 4,
    [(TERM, 0.002), (TERM, 0.02), (INT, 0.2), (TERM, 0)],
    [(INT, 0.1), (INT, 0.1), (INT, 0)],
    [(HUP, 0.01), (TERM, 0.4), (INT, 0.1), (HUP, 0)],
]


def send(dev, signals, *, to=os.kill):
    """Send the signals with pauses to the process, or to its group."""
    for number, pause in signals:
        with suppress(ProcessLookupError):
            to(dev.process.pid, number)
        if pause:
            with suppress(subprocess.TimeoutExpired):
                dev.process.wait(timeout=pause)


def assert_no_process_remains(dev, project):
    dev.process.wait(timeout=30)
    wait_until(lambda: not processes_of(project), within=60, what=f"all processes end: {processes_of(project)}")


@pytest.mark.slow
def test_no_number_of_stop_signals_leaves_a_process_running(own_postgres, start):
    for turn, signals in enumerate(RUNNING):
        dev = start(own_postgres)
        with suppress(subprocess.TimeoutExpired):
            dev.process.wait(timeout=turn % 3 * 0.4)  # During the first ping, and while `dev` waits for the next one.

        send(dev, signals, to=os.killpg if turn % 4 == 3 else os.kill)

        assert_no_process_remains(dev, own_postgres)
        assert "Traceback" not in dev.printed, f"{signals}: {dev.printed}"


@pytest.mark.slow
def test_stop_signals_during_the_start_leave_no_process_running(own_postgres, start):
    """Each round waits a little longer, until the project has started."""
    for turn in range(12):
        dev = start(own_postgres, waits=False)
        with suppress(subprocess.TimeoutExpired):
            dev.process.wait(timeout=0.3 + turn * 0.25)

        send(dev, [(TERM, 0.003 * turn), (INT, 0.01), (TERM, 0)])

        assert_no_process_remains(dev, own_postgres)


@pytest.mark.slow
def test_a_second_signal_stops_a_long_wait_for_handlers_and_the_database(own_postgres, start):
    dev = start(own_postgres, SCHEDULED_ACTIONS_DEFAULT_TIMEOUT_SECONDS="30")
    scheduled = [sys.executable, "-m", "scheduled_actions.cli", "schedule", "test:work", "--payload"]
    subprocess.run([*scheduled, '{"seconds": 25}'], cwd=own_postgres, check=True, capture_output=True)
    threading.Thread(target=_ping_until_the_end, args=[dev, dev.printed_secret()], daemon=True).start()
    dsn = local_postgres.dsn_if_running(own_postgres / ".scheduled_actions")
    with psycopg.connect(dsn, autocommit=True) as connection:
        wait_until(lambda: _statuses(connection) == ["processing"], within=10, what="the handler is running")

    dev.process.send_signal(INT)
    dev.wait_for("Press Ctrl-C again to stop immediately")
    send(dev, [(INT, 0), (TERM, 0)])

    dev.wait_for("Stopped immediately")
    assert_no_process_remains(dev, own_postgres)


def _ping_until_the_end(dev, secret):
    with suppress(OSError, http.client.HTTPException):
        dev.request("/cron/process", secret)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("is_port_taken", [False, True], ids=["same port", "other port"])
def test_a_database_that_ends_is_started_again_with_its_data(own_postgres, start, number, is_port_taken):
    dev = start(own_postgres)
    directory = own_postgres / ".scheduled_actions"
    secret = dev.printed_secret()
    schedule = [sys.executable, "-m", "scheduled_actions.cli", "schedule", "test:work", "--payload", "{}"]
    subprocess.run(schedule, cwd=own_postgres, check=True, capture_output=True)
    before = local_postgres.dsn_if_running(directory)
    with psycopg.connect(before) as connection:
        pid = connection.execute("select split_part(pg_read_file('postmaster.pid'), E'\\n', 1)::integer").fetchone()[0]

    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        os.kill(pid, number)
        if is_port_taken:
            wait_until(lambda: _is_bound(other, before), within=10, what="the port is free")
            other.listen()
        dev.wait_for("the embedded Postgres had ended and was started again")
    after = local_postgres.dsn_if_running(directory)
    subprocess.run(schedule, cwd=own_postgres, check=True, capture_output=True)

    def are_done():
        status, _ = dev.request("/cron/process", secret)
        with psycopg.connect(after, autocommit=True) as connection:
            return status == 200 and _statuses(connection) == ["completed"] * 2

    wait_until(are_done, within=15, what="the actions before and after have completed")
    assert (after == before) is not is_port_taken
    assert dev.stop(INT) == 0
    assert_no_process_remains(dev, own_postgres)


def _is_bound(listening, dsn):
    with suppress(OSError):
        listening.bind(("127.0.0.1", int(psycopg.conninfo.conninfo_to_dict(dsn)["port"])))
        return True
    return False


@pytest.mark.slow
def test_the_server_and_the_database_stop_when_dev_is_killed(own_postgres, start):
    dev = start(own_postgres)

    dev.stop(signal.SIGKILL)

    wait_until(lambda: has_stopped(own_postgres), within=15, what="Postgres has stopped")


@pytest.mark.slow
def test_a_signal_lets_running_handlers_finish(project, start, connection, database_url):
    dev = start(project, DATABASE_URL=database_url, CRON_SECRET=SECRET, ADMIN_TOKEN=SECRET)
    connection.execute("select schedule_action('test:work', '{\"seconds\": 1.5}')")
    tick = threading.Thread(target=dev.request, args=["/cron/process", SECRET])
    tick.start()
    wait_until(lambda: _statuses(connection) == ["processing"], within=10, what="the handler is running")

    code = dev.stop(signal.SIGTERM)

    tick.join(timeout=10)
    assert code == 0
    assert _statuses(connection) == ["completed"]


def _statuses(connection):
    return [row[0] for row in connection.execute("select status from scheduled_actions order by id")]


@pytest.mark.slow
def test_a_changed_handler_is_loaded_and_a_syntax_error_is_reported(project, start, connection, database_url):
    dev = start(project, DATABASE_URL=database_url, CRON_SECRET=SECRET, ADMIN_TOKEN=SECRET)

    (project / "handlers" / "oops.py").write_text("def broken(\n")
    dev.wait_for("handlers/oops.py:1")
    (project / "handlers" / "oops.py").write_text(HANDLER.replace("test:work", "test:more"))
    dev.wait_for("reloaded, 2 action types")
    connection.execute("select schedule_action('test:more', '{}')")

    def is_done():
        dev.request("/cron/process", SECRET)  # Repeated until the last worker with the old handlers has ended.
        return _statuses(connection) == ["completed"]

    wait_until(is_done, within=15, what="the new handler runs")
    assert dev.stop(signal.SIGINT) == 0


def command(project, *arguments, **environ):
    """Run a command in another process of the project, and return its standard output; it prints nothing else."""
    outer = {name: value for name, value in os.environ.items() if not name.startswith("SCHEDULED_ACTIONS_")}
    values = {**outer, **environ}
    ran = subprocess.run(arguments, cwd=project, env=values, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stderr) == (0, ""), ran
    return ran.stdout


CLI = (sys.executable, "-m", "scheduled_actions.cli")
SCHEDULE = (*CLI, "schedule", "test:work", "--payload", "{}")
SCRIPT = 'from scheduled_actions import schedule_action; schedule_action("test:work", {})'


@pytest.mark.slow
def test_due_actions_of_other_processes_start_at_once(project, start, connection, database_url):
    dev = start(project, DATABASE_URL=database_url, CRON_SECRET=SECRET, ADMIN_TOKEN=SECRET)
    wait_until(lambda: _callers(connection), within=30, what="the first ping of the minute cron has ended")
    pings = _callers(connection).count(CRON)

    # Other secrets, or none, as in an application that does not read `.env`.
    command(project, *SCHEDULE, DATABASE_URL=database_url)
    wait_until(lambda: _statuses(connection) == ["completed"], within=20, what="the action of the command has run")
    command(project, sys.executable, "-c", SCRIPT, DATABASE_URL=database_url)
    wait_until(lambda: _statuses(connection) == ["completed"] * 2, within=20, what="the action of the script has run")
    schedule_over_http(dev)
    wait_until(lambda: _statuses(connection) == ["completed"] * 3, within=20, what="the action of the API has run")

    delays = [row[0] for row in connection.execute(DELAYS)]
    # A minute may have ended meanwhile, but the cron started none of the actions.
    assert _callers(connection).count(WAKE) >= 3
    assert _callers(connection).count(CRON) - pings <= 1
    assert max(delays) < 10, delays
    wait_until(lambda: dev.printed.count("1 succeeded") == 3, within=10, what="the result of each tick is printed")
    assert dev.stop(signal.SIGINT) == 0


CRON, WAKE = "scheduled-actions-local-cron", "scheduled-actions-wake"
DELAYS = "select extract(epoch from started_at - created_at)::float8 from scheduled_actions"


def schedule_over_http(dev):
    with closing(http.client.HTTPConnection("127.0.0.1", dev.port, timeout=120)) as connection:
        body = json.dumps({"action_type": "test:work", "payload": {}})
        headers = {"authorization": f"Bearer {SECRET}", "content-type": "application/json"}
        connection.request("POST", "/api/v1/actions", body=body, headers=headers)
        assert connection.getresponse().status == 201


def _callers(connection):
    return [row[0] for row in connection.execute("select caller from scheduled_action_ticks")]


@pytest.mark.slow
def test_a_process_with_another_database_does_not_wake_dev(project, start, connection, database_url):
    dev = start(project, DATABASE_URL=database_url, CRON_SECRET=SECRET, ADMIN_TOKEN=SECRET)
    code = "from scheduled_actions import runtime; print(runtime.current().wake.is_on)"

    def is_on(url):
        return command(project, sys.executable, "-c", code, DATABASE_URL=url)

    assert is_on(database_url) == "True\n"
    assert is_on("postgresql://127.0.0.1/another") == "False\n"
    assert dev.stop(signal.SIGINT) == 0
    assert not (project / ".scheduled_actions" / "dev.json").exists()


@pytest.mark.slow
def test_a_command_after_a_killed_dev_prints_nothing_more_and_does_not_wait(project, start, connection, database_url):
    dev = start(project, DATABASE_URL=database_url, CRON_SECRET=SECRET, ADMIN_TOKEN=SECRET)
    dev.stop(signal.SIGKILL)
    assert (project / ".scheduled_actions" / "dev.json").exists()

    printed = command(project, *SCHEDULE, DATABASE_URL=database_url)

    assert printed.startswith("scheduled ")
    assert len(printed.splitlines()) == 1
    assert _statuses(connection) == ["pending"]


@pytest.mark.slow
def test_an_action_of_a_new_handler_starts_as_soon_as_the_handler_is_loaded(project, start, connection, database_url):
    dev = start(project, DATABASE_URL=database_url, CRON_SECRET=SECRET, ADMIN_TOKEN=SECRET)
    connection.execute("select schedule_action('test:more', '{}')")

    def has_no_handler():
        dev.request("/cron/process", SECRET)  # Repeated, because the first ping of the minute cron may be running.
        return _statuses(connection) == ["no_action"]

    wait_until(has_no_handler, within=15, what="the action was found to have no handler")
    (project / "handlers" / "more.py").write_text(HANDLER.replace("test:work", "test:more"))
    dev.wait_for("reloaded, 2 action types")
    wait_until(lambda: _statuses(connection) == ["completed"], within=20, what="the new handler has run")
    # Scheduled while the old worker may still answer.
    (project / "handlers" / "most.py").write_text(HANDLER.replace("test:work", "test:most"))
    dev.wait_for("reloaded, 3 action types")
    command(project, *CLI, "schedule", "test:most", "--payload", "{}", DATABASE_URL=database_url)

    wait_until(lambda: _statuses(connection) == ["completed"] * 2, within=20, what="the newest handler has run")
    assert dev.stop(signal.SIGINT) == 0


MAILER = """
from email.message import EmailMessage
from scheduled_actions import Context, action, runtime
from scheduled_actions.notifications.channels import mail

@action("test:mail")
def send(payload: dict, context: Context) -> None:
    message = EmailMessage()
    message["To"] = "ann@example.org"
    message["Subject"] = payload["subject"]
    message.set_content("Hello Ann!")
    mail.submit(message, runtime.current().config, name=str(context.id), timeout=10)
"""


@pytest.mark.slow
def test_mails_of_the_server_and_of_commands_are_caught_and_kept(project, start, connection, database_url):
    (project / "handlers" / "mailer.py").write_text(MAILER)
    dev = start(project, DATABASE_URL=database_url, CRON_SECRET=SECRET, ADMIN_TOKEN=SECRET)
    assert f"mail      caught, see http://127.0.0.1:{dev.port}/dashboard/mail\n" in dev.printed
    schedule = (*CLI, "schedule", "test:mail", "--payload")

    command(project, *schedule, '{"subject": "first"}', DATABASE_URL=database_url)
    dev.wait_for('mail to ann@example.org: "first" (see ')
    connection.execute("select schedule_action('test:mail', '{\"subject\": \"second\"}')")
    command(project, *CLI, "process", DATABASE_URL=database_url)

    dev.wait_for('mail to ann@example.org: "second" (see ')
    wait_until(lambda: _statuses(connection) == ["completed"] * 2, within=20, what="both mails were sent")
    assert "Hello Ann!" not in dev.printed
    assert dev.stop(signal.SIGINT) == 0
    assert len(list((project / ".scheduled_actions" / "mail").glob("*.eml"))) == 2


@pytest.mark.slow
def test_dev_without_the_mail_library_says_how_to_install_it(project, start, database_url, tmp_path_factory):
    blocked = tmp_path_factory.mktemp("blocked")
    (blocked / "sitecustomize.py").write_text(
        "import importlib.util\n"
        "find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *rest: None if name == 'aiosmtpd' else find(name, *rest)\n"
    )

    dev = start(project, DATABASE_URL=database_url, CRON_SECRET=SECRET, ADMIN_TOKEN=SECRET, PYTHONPATH=str(blocked))

    assert "mail      not caught: pip install 'scheduled-actions[local]', or set host under [email]\n" in dev.printed
    assert dev.stop(signal.SIGINT) == 0


@pytest.mark.slow
def test_a_changed_env_file_is_read_again(project, start, database_url):
    (project / ".env").write_text(f"CRON_SECRET={SECRET}\nDATABASE_URL={database_url}\nGONE=1\n")
    dev = start(project, ADMIN_TOKEN=SECRET)
    assert dev.request("/cron/process", SECRET)[0] == 200

    other = f"{SECRET}-that-is-another"
    (project / ".env").write_text(f"CRON_SECRET={other}\nDATABASE_URL={database_url}\n")
    dev.wait_for("reloaded, 1 action type")
    wait_until(lambda: dev.request("/cron/process", other)[0] == 200, within=15, what="the new secret is accepted")
    wait_until(lambda: dev.request("/cron/process", SECRET)[0] == 401, within=15, what="the old secret is rejected")

    (project / ".env").write_text(f"CRON_SECRET={other}\nDATABASE_URL=postgresql://127.0.0.1/another\n")
    dev.wait_for("DATABASE_URL has changed: restart the server to use it")
    (project / ".env").write_text(f"CRON_SECRET={other}\nDATABASE_URL={database_url}\n\nCRON_SECRET={SECRET}\n")
    dev.wait_for("  .env: line 4 sets CRON_SECRET again, to another value than line 1: remove one of them\n")
    assert dev.request("/cron/process", other)[0] == 200
    assert dev.stop(signal.SIGINT) == 0


@pytest.mark.slow
def test_a_changed_encryption_key_of_stored_secrets_is_a_warning(project, start, database_url):
    key, other = (base64.b64encode(bytes([number]) * 32).decode() for number in range(2))
    values = {"DATABASE_URL": database_url, "CRON_SECRET": SECRET, "ADMIN_TOKEN": SECRET}
    name = "SCHEDULED_ACTIONS_ENCRYPTION_KEY"
    with closing(Runtime(config.load(project, values | {name: key}))) as runtime:
        runtime.endpoints.create(url="https://hooks.example.org/")
    (project / ".env").write_text(f"{name}={other}\n")

    dev = start(project, **values)

    dev.wait_for(
        f"Warning: the secret of 1 of 1 webhook endpoint was encrypted with a key that {name} does not contain"
    )
    dev.wait_for("tick: secrets: SecretUnreadable: the secret of 1 of 1 webhook endpoint")
    (project / ".env").write_text(f"{name}={other},{key}\n")
    dev.wait_for("reloaded, 1 action type")
    (project / ".env").write_text(f"{name}={other}\n")
    wait_until(lambda: dev.printed.count("Warning: ") == 2, within=30, what="the warning is printed again")
    assert dev.request("/cron/process", SECRET)[0] == 200
    assert dev.stop(signal.SIGINT) == 0


@pytest.mark.slow
def test_an_unexpected_end_of_the_server_is_reported_with_its_log(project, start, database_url):
    dev = start(project, DATABASE_URL=database_url, CRON_SECRET=SECRET, ADMIN_TOKEN=SECRET)

    os.kill(dev.descendants()[0], signal.SIGKILL)

    assert dev.process.wait(timeout=120) == 1
    dev.wait_for("local server: ended unexpectedly")
    dev.wait_for("Booting worker")
