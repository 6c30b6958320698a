"""`webhooks`: endpoints, deliveries, listen."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from datetime import UTC, datetime

import pytest
from cryptography.fernet import Fernet
from standardwebhooks.webhooks import Webhook

from scheduled_actions.operations import registry_build
from tests.conftest import ROOT
from tests.factories import is_waiting
from tests.faults.serving import wait_until

KEY = Fernet.generate_key().decode()
URL = "https://receiver.example/hook"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
def project(project):
    """Return the project with the handler of webhooks and an endpoint in scheduled_actions.toml."""
    text = (ROOT / "handlers/webhook.py").read_text(encoding="utf-8")
    (project / "handlers" / "webhook.py").write_text(text, encoding="utf-8")
    registry_build.write(project)
    toml = '[webhooks.endpoints.crm]\nenv_var = "CRM_URL"\nsecret_env_var = "CRM_SECRET"\npatterns = ["crm:*"]\n'
    (project / "scheduled_actions.toml").write_text(toml, encoding="utf-8")
    return project


@pytest.fixture
def run(run):
    """Return a function that runs a `webhooks` command with an encryption key."""
    values = {"SCHEDULED_ACTIONS_ENCRYPTION_KEY": KEY, "CRM_URL": "https://crm.example/", "CRM_SECRET": SECRET}
    return lambda *arguments, **environ: run("webhooks", *arguments, **values | environ)


@pytest.fixture
def endpoint(run):
    """Return the id of an endpoint in the database."""
    return run("endpoints", "create", "--url", URL, "--team", "blue", "--json").json["id"]


def test_show_prints_the_queue_of_an_endpoint_and_the_reason_for_deferrals(run, endpoint, connection):
    connection.execute(
        "insert into scheduled_actions (action_type, payload, scheduled_at, team_id, state, history)"
        " values ('webhook:send', jsonb_build_object('endpoint', %s::text), now() + interval '1 hour', 'blue', %s, %s)",
        [endpoint, '{"deferred": "hung"}', '[{"outcome": "snoozed"}]'],
    )

    lines = run("endpoints", "show", endpoint).stdout.splitlines()

    printed = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines if len(line.split()) > 1}
    assert printed["in_flight"] == "0 (at most 1 in each process)"
    assert printed["waiting"].startswith("1, the next 20")
    assert printed["deferred"].startswith("1 until 20")
    assert printed["deferred"].endswith(": a delivery took five seconds or more")
    assert run("endpoints", "show", endpoint, "--json").json["queue"]["deferred_reason"] == "hung"


def test_create_stores_every_option_and_prints_the_secret_once(run):
    ran = run(
        "endpoints", "create", "--url", URL, "--team", "blue", "--pattern", "task:*", "--pattern", "note:*",
        "--filter", '{"data.n": 1}', "--header", "X-Tenant: blue", "--header", "Authorization: Bearer a:b",
        "--rate-limit", "2.5", "--ordering", "fifo", "--retry", "5,60", "--description", "The CRM", "--json",
    )  # fmt: skip

    assert ran.exit_code == 0, ran.stderr
    created = ran.json
    secret = created.pop("secret")
    assert secret.startswith("whsec_")
    assert created["patterns"] == ["task:*", "note:*"]
    assert created["header_names"] == ["authorization", "x-tenant"]
    assert (created["filter"], created["rate_limit"], created["ordering"]) == ({"data.n": 1}, 2.5, "fifo")
    assert created["retry"]["seconds"] == [5, 60]
    assert created["created_by"].startswith("cli:")
    assert run("endpoints", "show", created["id"], "--json").json == created
    listed = run("endpoints", "list", "--json").json
    assert [one["id"] for one in listed["endpoints"]] == ["crm", created["id"]]
    assert listed["next_cursor"] is None
    printed_later = (
        json.dumps(listed) + run("endpoints", "show", created["id"]).stdout + run("endpoints", "list").stdout
    )
    assert secret not in printed_later
    assert "Bearer" not in printed_later
    assert SECRET not in printed_later


def test_the_text_output_warns_that_the_secret_is_not_shown_again(run):
    printed = run("endpoints", "create", "--url", URL).stdout

    assert re.search(r"secret\s+whsec_\S+\n\s+store the secret now: it is not shown again", printed)


def test_without_an_encryption_key_the_error_explains_how_to_create_one(run):
    ran = run("endpoints", "create", "--url", URL, SCHEDULED_ACTIONS_ENCRYPTION_KEY=None)

    assert ran.exit_code == 1
    assert "SCHEDULED_ACTIONS_ENCRYPTION_KEY is not configured: set it to 32 random bytes in base64" in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (["--url", "http://receiver.example/"], 1, "does not use https"),
        (["--url", "https://127.0.0.1/s3cret"], 1, "points to a private or reserved address"),
        (["--url", URL, "--pattern", "task"], 1, "is not a pattern such as task:created"),
        (["--url", URL, "--filter", "{"], 2, "write JSON between single quotes"),
        (["--url", URL, "--header", "s3cret"], 2, "a header has no colon: write NAME:VALUE"),
        (["--url", URL, "--header", "Host: x"], 1, '--header cannot contain "Host"'),
        (["--url", URL, "--retry", "soon"], 2, "is not a list of seconds"),
        ([], 2, "Missing option '--url'"),
    ],
)
def test_invalid_options_are_rejected_without_printing_secrets(run, arguments, exit_code, message):
    ran = run("endpoints", "create", *arguments)

    assert ran.exit_code == exit_code
    assert message in " ".join(ran.stderr.split())
    assert "s3cret" not in ran.stderr


def test_an_endpoint_is_updated_disabled_and_deleted(run, endpoint):
    changed = run(
        "endpoints", "update", endpoint, "--description", "New", "--rate-limit", "5", "--disable", "--json"
    ).json
    assert (changed["description"], changed["rate_limit"], changed["enabled"]) == ("New", 5, False)
    assert "disabled; New" in run("endpoints", "list").stdout
    changed = run("endpoints", "update", endpoint, "--reset", "rate-limit", "--enable", "--json").json
    assert (changed["description"], changed["rate_limit"], changed["enabled"]) == ("New", None, True)

    assert run("endpoints", "update", endpoint).exit_code == 2
    assert run("endpoints", "delete", endpoint, "--team", "red").exit_code == 1
    assert run("endpoints", "delete", endpoint, "--json").json == {"deleted": endpoint}
    assert f"no webhook endpoint has the id or name {endpoint}" in run("endpoints", "show", endpoint).stderr


def test_an_endpoint_in_the_file_can_only_be_enabled(run):
    ran = run("endpoints", "update", "crm", "--description", "x")

    assert ran.exit_code == 1
    assert 'endpoint "crm" is declared in scheduled_actions.toml: change it there' in ran.stderr
    assert run("endpoints", "update", "crm", "--enable").exit_code == 0


def test_a_secret_is_rotated(run, endpoint):
    rotated = run("endpoints", "rotate", endpoint, "--json").json
    assert rotated["secret"].startswith("whsec_")
    assert rotated["previous_secret_until"] is not None

    immediately = run("endpoints", "rotate", endpoint, "--grace", "0s", "--json").json
    assert immediately["previous_secret_until"] is None
    assert immediately["secret"] != rotated["secret"]


def test_a_test_event_is_scheduled_and_shown_as_a_delivery(run, endpoint):
    scheduled = run("endpoints", "test", endpoint, "--json").json["id"]

    shown = run("deliveries", "show", scheduled, "--json").json

    assert (shown["event"], shown["endpoint"], shown["status"], shown["team_id"]) == (
        "webhook:test", endpoint, "pending", "blue",
    )  # fmt: skip
    assert shown["next_attempt_at"] is not None
    assert f"endpoint         {endpoint}" in run("deliveries", "show", scheduled).stdout


def insert_lost_deliveries(connection, count, *, endpoint="crm", status="failed", error="no luck"):
    connection.execute(
        "insert into scheduled_actions"
        " (action_type, payload, status, scheduled_at, completed_at, attempts, error_message, history)"
        " select 'webhook:send', jsonb_build_object('event', 'crm:created', 'entity_type', 'crm', 'entity_id', n::text,"
        "  'data', '{}'::jsonb, 'endpoint', %s::text), %s, scheduled_actions_now(), scheduled_actions_now(), 1, %s,"
        "  jsonb_build_array(jsonb_build_object('attempt', 1, 'outcome', 'failed', 'error',"
        "   'DeliveryFailed: endpoint \"crm\" answered 500: ' || %s::text, 'started_at', scheduled_actions_now(),"
        "   'ended_at', scheduled_actions_now()))"
        " from generate_series(1, %s) n",
        [endpoint, status, error, error, count],
    )


def test_deliveries_are_listed_and_shown_with_their_attempts(run, connection):
    insert_lost_deliveries(connection, 3)
    insert_lost_deliveries(connection, 1, endpoint="other")

    found = run("deliveries", "list", "--endpoint", "crm", "--status", "failed", "--limit", "2", "--json").json
    rest = run("deliveries", "list", "--endpoint", "crm", "--cursor", found["next_cursor"], "--json").json
    shown = run("deliveries", "show", found["deliveries"][0]["id"]).stdout

    assert [one["entity_id"] for one in found["deliveries"]] == ["3", "2"]
    assert [one["entity_id"] for one in rest["deliveries"]] == ["1"]
    assert re.search(r"attempt 1: 500 in 0 ms\n    no luck", shown)
    assert "no luck" in run("deliveries", "list").stdout
    assert run("deliveries", "list", "--event", "x:y").stdout == "no delivery matches\n"


def test_the_list_says_why_a_delivery_is_tried_again_and_when(run, connection):
    insert_lost_deliveries(connection, 1)
    connection.execute("update scheduled_actions set status = 'pending'")

    (line,) = run("deliveries", "list").stdout.splitlines()[1:]

    assert re.search(r"next 2\d{3}-\S+ \S+: no luck", line)


def test_a_delivery_is_replayed(run, connection):
    insert_lost_deliveries(connection, 1)
    (lost,) = run("deliveries", "list", "--json").json["deliveries"]

    assert run("deliveries", "replay", lost["id"], "--json").json == {"id": lost["id"]}
    ran = run("deliveries", "replay", lost["id"])

    assert ran.exit_code == 1
    assert "is pending, not completed, failed, cancelled or skipped" in ran.stderr


def test_ten_thousand_lost_deliveries_are_recovered_with_progress(run, connection):
    insert_lost_deliveries(connection, 10_000)
    insert_lost_deliveries(connection, 5, endpoint="other")

    ran = run("deliveries", "recover", "--from", "1h", "--endpoint", "crm", "--json")

    assert ran.json == {"recovered": 10_000}
    steps = ran.stderr.splitlines()
    assert steps[0] == "500 of 10,000"
    assert steps[-1] == "10,000 of 10,000"
    assert len(steps) == 20
    counts = connection.execute("select status, count(*) from webhook_deliveries group by 1").fetchall()
    assert dict(counts) == {"pending": 10_000, "failed": 5}


def test_an_interrupted_recovery_continues_when_it_is_repeated(run, connection, monkeypatch):
    from scheduled_actions.webhooks.deliveries import Deliveries

    insert_lost_deliveries(connection, 1200)
    recover, calls = Deliveries.recover, []

    def interrupted(self, *arguments, **options):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return recover(self, *arguments, **options)

    monkeypatch.setattr(Deliveries, "recover", interrupted)
    ran = run("deliveries", "recover", "--from", "1h")
    monkeypatch.undo()

    assert ran.exit_code == 1
    assert "error: interrupted with 500 done; run the command again to continue" in ran.stderr
    assert run("deliveries", "recover", "--from", "1h").stdout == "700 deliveries are pending again\n"


def test_commands_warn_that_deliveries_to_a_disabled_endpoint_are_skipped(run, endpoint):
    run("endpoints", "update", endpoint, "--disable")

    warning = (
        f"{endpoint} is disabled, and its deliveries are skipped: run `scheduled-actions webhooks endpoints update"
    )
    assert warning in run("endpoints", "test", endpoint).stderr
    assert warning in run("deliveries", "recover", "--from", "1h", "--endpoint", endpoint).stderr
    run("endpoints", "update", endpoint, "--enable")
    assert run("endpoints", "test", endpoint).stderr == ""


def test_commands_show_why_production_disables_an_endpoint_of_the_file(run):
    production = {"SCHEDULED_ACTIONS_ENV": "production", "CRM_URL": "http://8.8.8.8/t0ken"}
    reason = "CRM_URL is an http URL, but production requires https outside webhooks.private_networks"

    assert f"disabled: {reason[:30]}" in run("endpoints", "list", **production).stdout
    assert reason in run("endpoints", "show", "crm", **production).stdout
    warning = f"crm is disabled, and its deliveries are skipped: {reason}\n"
    assert run("endpoints", "test", "crm", **production).stderr == warning


def test_an_invalid_instant_is_rejected_with_examples_of_durations(run):
    ran = run("deliveries", "recover", "--from", "yesterday")

    assert ran.exit_code == 2
    assert "'yesterday' is not an ISO 8601 time" in ran.stderr
    assert "or a duration before now, such as 90m, 2h or 3d" in " ".join(ran.stderr.split())


@pytest.mark.parametrize("command", [("recover",), ("replay", "--missed", "partner")])
def test_a_duration_that_begins_before_the_year_1_is_a_usage_error(run, command):
    ran = run("deliveries", *command, "--from", "P999999999D")

    assert ran.exit_code == 2
    assert "'P999999999D' ago is before the year 1; give a shorter duration" in " ".join(ran.stderr.split())


@pytest.mark.slow
def test_ctrl_c_during_a_recovery_loses_nothing_and_the_next_run_continues(connection, project, database_url):
    insert_lost_deliveries(connection, 10_000)
    # A lock blocks the recovery in the middle of its tenth batch, where Ctrl-C interrupts it.
    connection.execute(
        "create function wait_for_lock() returns trigger language plpgsql as"
        " $$ begin perform pg_advisory_xact_lock_shared(4711); return new; end $$"
    )
    connection.execute(
        "create trigger wait_for_lock before update on scheduled_actions for each row"
        " when (new.payload ->> 'entity_id' = '5000') execute function wait_for_lock()"
    )
    connection.execute("select pg_advisory_lock(4711)")
    command = [sys.executable, "-m", "scheduled_actions.cli", "webhooks", "deliveries", "recover", "--from", "1h"]
    environ = {**os.environ, "DATABASE_URL": database_url, "SCHEDULED_ACTIONS_PROJECT": str(project)}

    with subprocess.Popen(
        command,
        env=environ,
        stderr=subprocess.PIPE,
        text=True,
        # A shell makes the processes that it runs in the background ignore Ctrl-C; restore the default.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    ) as first:
        wait_until(lambda: is_waiting(connection), within=60, what="the recovery to wait for the lock")
        first.send_signal(signal.SIGINT)
        printed = first.communicate(timeout=60)[1].splitlines()
    connection.execute("select pg_advisory_unlock(4711)")
    recovered = connection.execute("select count(*) from webhook_deliveries where status = 'pending'").fetchone()[0]
    second = subprocess.run(command, env=environ, capture_output=True, text=True, check=True, timeout=60)

    assert first.returncode == 1
    assert printed[0] == "500 of 10,000"
    assert printed[-1] == f"error: interrupted with {recovered:,} done; run the command again to continue"
    assert 0 < recovered < 10_000
    assert second.stderr.splitlines()[-1] == f"{10_000 - recovered:,} of {10_000 - recovered:,}"
    assert connection.execute("select status, count(*) from webhook_deliveries group by 1").fetchall() == [
        ("pending", 10_000)
    ]


def test_events_that_an_endpoint_missed_are_replayed(run, connection, endpoint):
    connection.execute(
        "insert into scheduled_actions (action_type, payload, status, scheduled_at, completed_at, team_id, result)"
        " select 'webhook:send', jsonb_build_object('event', 'task:created', 'entity_type', 'task',"
        "  'entity_id', n::text, 'data', '{}'::jsonb),"
        "  'completed', scheduled_actions_now(), scheduled_actions_now(), 'blue',"
        "  '{\"endpoints\": []}' from generate_series(1, 3) n"
    )
    since = datetime.now(UTC).replace(hour=0, minute=0).isoformat()

    assert run("deliveries", "replay", "--missed", endpoint, "--from", since, "--json").json == {"replayed": 3}
    assert run("deliveries", "replay", "--missed", endpoint, "--from", since).stdout == (
        f"0 events scheduled for {endpoint}\n"
    )
    for arguments in ([], ["--missed", endpoint], ["some-id", "--from", "1h"], ["some-id", "--missed", endpoint]):
        assert run("deliveries", "replay", *arguments).exit_code == 2


@pytest.mark.parametrize("since", ["yesterday", "", "2026-13-01"])
def test_an_unparsable_instant_is_rejected(run, since):
    ran = run("deliveries", "recover", "--from", since)

    assert ran.exit_code == 2
    assert "is not an ISO 8601 time" in ran.stderr


@pytest.fixture
def listening(project):
    """Return a function that starts `webhooks listen` as a process, which ends after `count` requests."""
    started = []

    def start(*options, count):
        command = [sys.executable, "-m", "scheduled_actions.cli", "--project", str(project), "webhooks", "listen"]
        process = subprocess.Popen(
            [*command, "--port", "0", "--count", str(count), *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={"PATH": "/bin", "CRM_SECRET": SECRET},
        )  # fmt: skip
        started.append(process)
        head = process.stderr.readline()
        return process, re.search(r"http://127\.0\.0\.1:\d+", head)[0]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def post(url, body, headers):
    request = urllib.request.Request(url, data=body, headers=headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def signed(body):
    at = datetime.now(UTC)
    headers = {"webhook-id": "msg_1", "webhook-timestamp": str(int(at.timestamp()))}
    return headers | {"webhook-signature": Webhook(SECRET).sign("msg_1", at, body.decode())}


def test_requests_are_verified_and_printed(listening):
    process, url = listening("--secret", SECRET, "--json", count=2)
    body = b'{"event": "task:created"}'

    assert post(url, body, signed(body)) == 204
    assert post(url, body, {"webhook-id": "msg_2"}) == 401

    out, _ = process.communicate(timeout=20)
    verified, rejected = map(json.loads, out.splitlines())
    assert (verified["webhook_id"], verified["is_verified"], verified["body"]) == ("msg_1", True, json.loads(body))
    assert (rejected["is_verified"], rejected["problem"]) == (False, "the request has no webhook-timestamp header")


def test_listen_uses_the_secret_of_an_endpoint_and_answers_with_the_given_status(listening):
    process, url = listening("--endpoint", "crm", "--answer", "500", count=1)
    body = b'{"event": "task:created", "\\u001b[2J": 1}'

    assert post(url, body, signed(body)) == 500

    out, _ = process.communicate(timeout=20)
    assert "task:created  msg_1  verified" in out
    assert "\x1b" not in out


def test_listen_without_a_secret_generates_one_and_prints_the_settings(listening):
    process, url = listening(count=1)
    err = "".join(process.stderr.readline() for _ in range(7))

    post(url, b"no json", {})

    out, _ = process.communicate(timeout=20)
    assert "REJECTED: the request has no webhook-id header" in out
    assert re.search(rf"LOCAL_WEBHOOK_URL={url}\n\s+LOCAL_WEBHOOK_SECRET=whsec_", err)


def test_a_port_in_use_and_an_unknown_endpoint_are_rejected(run, listening):
    _, url = listening("--secret", SECRET, count=1)
    port = url.rpartition(":")[2]

    assert f"cannot listen on port {port}" in run("listen", "--port", port).stderr
    assert "declares no endpoint 'nothing'" in run("listen", "--endpoint", "nothing").stderr


def test_listen_suggests_the_endpoint_whose_name_was_misspelled(run_anywhere, project):
    settings = project / "scheduled_actions.toml"
    endpoint = '[webhooks.endpoints.local]\nenv_var = "LOCAL_URL"\npatterns = ["*:*"]\n'
    settings.write_text(f'{endpoint}secret_env_var = "LOCAL_SECRET"\n')

    misspelled = run_anywhere("webhooks", "listen", "--endpoint", "locall").stderr
    other = run_anywhere("webhooks", "listen", "--endpoint", "crm").stderr
    settings.write_text(endpoint)
    unsigned = run_anywhere("webhooks", "listen", "--endpoint", "local").stderr

    assert "declares no endpoint 'locall' with a secret_env_var; did you mean \"local\"?" in misspelled
    assert "with a secret_env_var; those with one: local" in other
    assert unsigned.rstrip().endswith("with a secret_env_var")


def test_reseal_encrypts_the_secrets_with_the_first_key(run, endpoint):
    new = Fernet.generate_key().decode()

    assert run("endpoints", "reseal", "--json", SCHEDULED_ACTIONS_ENCRYPTION_KEY=f"{new},{KEY}").json == {"resealed": 1}
    assert "was encrypted with a key that" in run("endpoints", "reseal").stderr
    assert run("endpoints", "show", endpoint).exit_code == 0
