"""`cron-setup`: the snippets work unchanged, ping with the secret header, and contain no secret by default."""

from __future__ import annotations

import configparser
import json
import os
import re
import shutil
import subprocess
import threading
import tomllib
from datetime import UTC, datetime
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer

import psycopg
import pytest
import yaml
from cronsim import CronSim

from scheduled_actions.cli.cron_setup import services
from tests.cli.conftest import CRON_SECRET

BY_NAME = services()
URL = "https://app.example.com/behind"
PING = f"{URL}/cron/process"
#: A secret with characters that have a meaning in a shell, in JSON and in SQL.
AWKWARD = """a 'secret' with $signs and `ticks` \\ enough"""


@pytest.fixture
def run(run_anywhere):
    """Return a function that runs a command in the project with a CRON_SECRET, without a database."""
    return partial(run_anywhere, CRON_SECRET=CRON_SECRET)


@pytest.fixture
def setup(run):
    """Return a function that returns the snippets of a service."""

    def snippets(service, *options, **environ):
        return run("cron-setup", service, "--url", URL, *options, "--json", **environ).json["snippets"]

    return snippets


def _of(snippets, language):
    return [snippet["text"] for snippet in snippets if snippet["language"] == language]


def _next(expression):
    return next(CronSim(expression, datetime(2026, 1, 1, tzinfo=UTC)))


def test_without_a_service_all_services_are_listed(run_anywhere):
    listed = run_anywhere("cron-setup")

    assert listed.exit_code == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()[1 : 1 + len(BY_NAME)]] == list(BY_NAME)
    assert [service["name"] for service in run_anywhere("cron-setup", "--json").json["services"]] == list(BY_NAME)


@pytest.mark.parametrize("service", BY_NAME)
def test_the_text_output_has_every_snippet_unindented_and_every_note(run, service):
    shown = run("cron-setup", service, "--url", URL)

    document = run("cron-setup", service, "--url", URL, "--json").json
    assert shown.exit_code == 0
    assert all(snippet["text"] in shown.stdout for snippet in document["snippets"])
    assert all(f"- {note}\n" in shown.stdout for note in document["notes"])
    assert document["notes"]
    assert not re.search(r"@[A-Z_]+@", shown.stdout)


@pytest.mark.parametrize("service", BY_NAME)
def test_the_output_contains_the_address_but_not_the_secret(run, service):
    shown = run("cron-setup", service, "--url", URL)

    if service != "eventbridge":
        assert ("/behind/cron/process" if service == "vercel" else PING) in shown.stdout
    assert CRON_SECRET not in shown.stdout + shown.stderr


@pytest.mark.parametrize("service", [name for name in BY_NAME if name != "eventbridge"])
def test_show_secret_prints_the_new_secret_of_a_rotation(run, service):
    shown = run(
        "cron-setup", service, "--url", URL, "--show-secret", CRON_SECRET=f"{CRON_SECRET},the-old-one-of-a-rotation"
    )

    assert CRON_SECRET in shown.stdout
    assert "the-old-one" not in shown.stdout


def test_a_secret_that_is_too_short_cannot_be_shown(run):
    rejected = run("cron-setup", "crontab", "--url", URL, "--show-secret", CRON_SECRET="short")

    assert rejected.exit_code == 1
    assert "CRON_SECRET is too short: set it to at least 16 random characters, or omit --show-secret" in rejected.stderr


def test_the_option_url_overrides_the_setting(run):
    by_setting = run("cron-setup", "qstash", SCHEDULED_ACTIONS_URL="https://set.example.com/")
    by_option = run("cron-setup", "qstash", "--url", URL, SCHEDULED_ACTIONS_URL="https://set.example.com/")

    assert "schedules/https://set.example.com/cron/process'" in by_setting.stdout
    assert f"schedules/{PING}'" in by_option.stdout


def test_a_missing_address_is_a_usage_error_that_names_the_option(run):
    rejected = run("cron-setup", "crontab")

    assert rejected.exit_code == 2
    assert "--url https://app.example.com" in rejected.stderr


def test_vercel_needs_no_address(run):
    (text,) = _of(run("cron-setup", "vercel", "--json").json["snippets"], "json")

    assert json.loads(text)["crons"] == [{"path": "/cron/process", "schedule": "* * * * *"}]


@pytest.mark.parametrize(
    "url", ["app.example.com", "https://user:hunter2@app.example.com", "https://a.example/?q=$(id)"]
)
def test_an_invalid_address_is_a_usage_error(run, url):
    rejected = run("cron-setup", "crontab", "--url", url)

    assert rejected.exit_code == 2
    assert "must be a URL such as https://app.example.com" in rejected.stderr


@pytest.mark.parametrize("service", BY_NAME)
@pytest.mark.parametrize("options", [(), ("--show-secret",)], ids=["", "shown"])
def test_every_shell_snippet_can_be_parsed(setup, service, options):
    for text in _of(setup(service, *options, CRON_SECRET=AWKWARD), "sh"):
        checked = subprocess.run(["sh", "-n"], input=text, capture_output=True, text=True, check=False)

        assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize(
    "service", [name for name, service in BY_NAME.items() if any(p["language"] == "sh" for p in service["snippets"])]
)
def test_a_snippet_fails_immediately_without_the_secret_that_it_needs(setup, service):
    for text in _of(setup(service), "sh"):
        if "$CRON_SECRET" in text:
            ended = subprocess.run(
                ["/bin/sh"], input=text, env={"PATH": ""}, capture_output=True, text=True, check=False
            )

            assert ended.returncode != 0
            assert "set it to the CRON_SECRET of the application" in ended.stderr


def test_the_crontab_has_one_line_of_five_fields_and_a_command(setup):
    (text,) = _of(setup("crontab"), "crontab")

    (line,) = text.splitlines()
    fields, command = line.split(None, 5)[:5], line.split(None, 5)[5]
    assert _next(" ".join(fields))
    assert command.startswith("curl ")
    assert "%" not in command


def test_the_command_of_the_crontab_pings_with_the_secret_header(tmp_path, run):
    with _Receiver() as receiver:
        snippets = run("cron-setup", "crontab", "--url", receiver.url, "--json").json["snippets"]
        environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "CRON_SECRET": AWKWARD}
        subprocess.run(["sh"], input=_of(snippets, "sh")[0], env=environ, text=True, check=True)
        command = _of(snippets, "crontab")[0].split(None, 5)[5]
        subprocess.run(["sh", "-c", command], env=environ, check=True)

    assert receiver.seen == [("/cron/process", AWKWARD)]
    assert (tmp_path / ".config/scheduled-actions/cron-header").stat().st_mode & 0o077 == 0


class _Receiver:
    """A server that answers 200 and stores the path and the secret of each request."""

    def __enter__(self):
        seen = self.seen = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                seen.append((self.path, self.headers["x-cron-secret"]))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def test_the_systemd_units_are_well_formed(setup):
    service, timer = (_unit(text) for text in _of(setup("systemd"), "ini"))

    assert service["Service"]["ExecStart"].endswith(f"--header @${{CREDENTIALS_DIRECTORY}}/cron-header {PING}")
    assert timer["Timer"]["OnCalendar"] == "*-*-* *:*:00"


def _unit(text):
    parser = configparser.ConfigParser(interpolation=None, delimiters="=", strict=True)
    parser.optionxform = str
    parser.read_string(text)
    return parser


def test_the_github_workflow_pings_with_the_secret_of_the_repository(setup):
    (text,) = _of(setup("github"), "yaml")

    workflow = yaml.safe_load(text)
    # YAML 1.1 parses the key `on` as true.
    (schedule,) = workflow[True]["schedule"]
    (step,) = workflow["jobs"]["ping"]["steps"]
    assert _next(schedule["cron"])
    assert step["env"] == {"CRON_SECRET": "${{ secrets.CRON_SECRET }}"}
    assert _headers_sent_by(step["run"]) == "x-cron-secret: the secret\n"


def _headers_sent_by(script):
    """Return the standard input that a script passes to `curl --header @-`."""
    stub = "curl() { cat; }\n"
    environ = {"PATH": os.environ["PATH"], "CRON_SECRET": "the secret"}
    return subprocess.run(
        ["sh", "-eu"], input=stub + script, env=environ, capture_output=True, text=True, check=True
    ).stdout


def test_the_kubernetes_cronjob_is_well_formed(setup):
    (text,) = _of(setup("kubernetes"), "yaml")

    document = yaml.safe_load(text)
    pod = document["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert document["kind"] == "CronJob"
    assert _next(document["spec"]["schedule"])
    assert container["args"][-2:] == ["@/etc/scheduled-actions/header", PING]
    assert all(isinstance(argument, str) for argument in container["args"])


def test_the_target_of_eventbridge_is_an_event_that_runs_a_tick(run, tmp_path):
    (text,) = _of(run("cron-setup", "eventbridge", "--json").json["snippets"], "sh")
    called = tmp_path / "called"
    stub = tmp_path / "aws"
    stub.write_text(f"#!/bin/sh\nprintf '%s\\0' \"$@\" >> {called}\necho arn:role\n", encoding="utf-8")
    stub.chmod(0o755)
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "FUNCTION_ARN": "arn:function"}

    subprocess.run(["sh", "-eu"], input=text, env=environ, text=True, check=True)

    arguments = called.read_text(encoding="utf-8").split("\0")
    policy, target = (json.loads(arguments[arguments.index(one) + 1]) for one in ("--policy-document", "--target"))
    assert json.loads(arguments[arguments.index("--assume-role-policy-document") + 1])
    assert policy["Statement"][0]["Resource"] == "arn:function"
    assert (target["Arn"], target["RoleArn"]) == ("arn:function", "arn:role")
    assert json.loads(target["Input"]) == {"source": "aws.scheduler"}


def test_the_cloudflare_worker_pings_each_minute_with_the_secret_of_its_environment(setup):
    snippets = setup("cloudflare")

    settings = tomllib.loads(_of(snippets, "toml")[0])
    (script,) = _of(snippets, "js")
    assert _next(settings["triggers"]["crons"][0])
    assert settings["main"] == "ping.js"
    assert f'fetch("{PING}", {{ method: "POST", headers: {{ "x-cron-secret": env.CRON_SECRET }} }})' in script


def test_the_request_to_cron_job_org_has_well_formed_json(setup):
    (text,) = _of(setup("cron-job.org"), "sh")
    sent = subprocess.run(
        ["sh", "-eu"],
        input="curl() { cat; }\n" + text,
        env={"PATH": os.environ["PATH"], "CRON_SECRET": "the secret", "CRON_JOB_ORG_KEY": "key"},
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip

    job = json.loads(sent)["job"]
    assert job["url"] == PING
    assert job["extendedData"]["headers"] == {"x-cron-secret": "the secret"}


def test_a_service_with_a_short_time_limit_has_a_note_on_max_run_seconds(run):
    def printed(**environ):
        return run("cron-setup", "cron-job.org", "--url", URL, **environ).stdout

    has_room = "With max_run_seconds = 20 or less, as now, the handlers that start last have 9 s to finish"
    assert has_room in printed()
    assert "With max_run_seconds = 20 the handlers" in printed(SCHEDULED_ACTIONS_MAX_RUN_SECONDS="29")
    assert "max_run_seconds" not in printed(SCHEDULED_ACTIONS_MAX_DURATION_SECONDS="25")


@pytest.mark.parametrize("name", ["gcloud", "kubectl", "vercel", "gh"])
def test_other_programs_receive_the_secret_as_one_argument_or_on_standard_input(setup, tmp_path, name):
    service = {"gcloud": "cloud-scheduler", "kubectl": "kubernetes", "gh": "github"}.get(name, name)
    (text,) = _of(setup(service), "sh")
    stub = tmp_path / name
    stub.write_text('#!/bin/sh\nprintf "<%s>" "$@"\n[ -t 0 ] || cat\n', encoding="utf-8")
    stub.chmod(0o755)
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "CRON_SECRET": AWKWARD}
    script = tmp_path / "script"
    script.write_text(text, encoding="utf-8")

    output = subprocess.run(
        ["sh", str(script)], env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    ).stdout

    assert AWKWARD in output
    assert shutil.which(name, path=environ["PATH"]) == str(stub)


#: Replacements for the functions of the extensions that the snippets call.
_FAKE_EXTENSIONS = """
    create schema cron; create schema net; create schema vault;
    create table cron.job (name text, schedule text, command text);
    create table vault.decrypted_secrets (name text, decrypted_secret text);
    create table net.sent (url text, headers jsonb, timeout_milliseconds integer);
    create function cron.schedule(job_name text, schedule text, command text) returns bigint language sql as
      'insert into cron.job values ($1, $2, $3); select 1::bigint';
    create function vault.create_secret(new_secret text, new_name text) returns uuid language sql as
      'insert into vault.decrypted_secrets values ($2, $1); select gen_random_uuid()';
    create function net.http_post(
      url text, body jsonb default '{}', params jsonb default '{}', headers jsonb default '{}',
      timeout_milliseconds integer default 2000
    ) returns bigint language sql as 'insert into net.sent values ($1, $4, $5); select 1::bigint';
"""


def test_the_pg_cron_job_pings_with_the_secret_of_the_vault(setup, database_url):
    extensions, secret, ping = _of(setup("pg_cron", "--show-secret", CRON_SECRET=AWKWARD), "sql")

    with psycopg.connect(database_url) as connection:
        connection.execute(_FAKE_EXTENSIONS)
        connection.execute(secret)
        connection.execute(ping)
        name, schedule, command = connection.execute("select * from cron.job").fetchone()
        connection.execute(command)
        sent = connection.execute("select * from net.sent").fetchone()

    assert (name, schedule) == ("scheduled-actions", "* * * * *")
    assert sent == (PING, {"x-cron-secret": AWKWARD}, 60_000)
    assert "pg_net" in extensions
