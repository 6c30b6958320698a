"""`doctor` finds faults, suggests fixes, and prints no secret."""

from __future__ import annotations

import base64
import sys
from datetime import timedelta
from uuid import uuid4

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.json import Jsonb

from scheduled_actions.operations import registry_build
from tests.cli.conftest import ADMIN_TOKEN, CRON_SECRET
from tests.cli.transaction_pooler import pooling
from tests.factories import a_tick, database_now, due_for, insert, insert_many
from tests.limits.test_claims import limits

WHSEC = "whsec_" + base64.b64encode(b"never printed by anything").decode()
ENDPOINT = """\
[webhooks.endpoints.crm]
env_var = "CRM_URL"
secret_env_var = "CRM_SECRET"
"""


@pytest.fixture
def check(run):
    """Return a function that runs `doctor` and returns one of its checks, and the exit code."""

    def check_one(name, **environ):
        ran = run("doctor", "--json", **environ)
        (found,) = [check for check in ran.json["checks"] if check["name"] == name]
        return found, ran.exit_code

    return check_one


def test_every_check_of_an_installation_without_faults_is_ok(run, connection):
    a_tick(connection)

    ran = run("doctor", "--json")

    assert ran.exit_code == 0
    assert ran.json["status"] == "ok"
    assert [(check["name"], check["status"]) for check in ran.json["checks"]] == [
        (name, "ok")
        for name in (
            "settings", "cron_secret", "admin_token", "email", "registry", "handlers", "database", "server", "defaults",
            "migrations", "clocks", "transactions", "schema", "ticks", "doubled_pings", "hung_up_pings", "lost_ticks",
            "refused_pings", "heartbeat", "backlog", "failed_actions", "returned_failures", "no_action", "schedules",
            "held_up_schedules", "deadlines", "webhook_endpoints", "waiting_cycles", "limit_keys_full",
            "limit_keys_unknown", "limit_slots", "pauses", "doubled_schedules",
            "webhook_filters", "indexes", "functions", "pooler",
        )
    ]  # fmt: skip
    assert all(check.keys() == {"name", "status", "detail", "remedy"} for check in ran.json["checks"])


@pytest.mark.parametrize(("seconds", "status", "starts"), [("31", "warning", False), ("32", "ok", True)])
def test_handlers_with_timeouts_that_exceed_the_length_of_a_tick_are_named(run, seconds, status, starts):
    """A handler without a timeout has the default, 30 seconds."""
    limits = {"SCHEDULED_ACTIONS_MAX_DURATION_SECONDS": seconds}
    run("schedule", "greeting:say", "--payload", '{"name": "Ann"}')

    (check,) = [check for check in run("doctor", "--json", **limits).json["checks"] if check["name"] == "handlers"]
    report = run("process", "--json", **limits).json

    assert check["status"] == status
    assert ("greeting:say (30 s)" in check["detail"]) is not starts
    assert (report["succeeded"] == 1) is starts, report


def test_the_text_output_has_a_line_per_check_and_remedies_below(run, connection):
    a_tick(connection)

    ran = run("doctor", CRON_SECRET="short")

    lines = ran.stdout.splitlines()
    assert ran.exit_code == 1
    assert lines[0] == "ok       settings            valid"
    assert lines[1] == "fault    cron_secret         CRON_SECRET is too short, so /cron/process is closed"
    assert lines[2].strip() == "set CRON_SECRET to at least 16 random characters"
    assert lines[-1] == "1 fault, 0 warnings"


def test_an_invalid_setting_is_a_fault_and_the_registry_is_still_checked(run, project):
    (project / "scheduled_actions.toml").write_text("concurrency = 0\n", encoding="utf-8")

    ran = run("doctor", "--json")

    assert ran.exit_code == 1
    assert [(check["name"], check["status"]) for check in ran.json["checks"]] == [
        ("settings", "fault"),
        ("registry", "ok"),
    ]
    assert "concurrency" in ran.json["checks"][0]["detail"]


def test_an_unparsable_env_file_is_a_fault_that_does_not_contain_its_text(run, project):
    (project / ".env").write_text("hunter2\n", encoding="utf-8")

    ran = run("doctor")

    assert ran.exit_code == 1
    assert ".env: line 1" in ran.stdout
    assert "hunter2" not in ran.stdout + ran.stderr


def test_a_missing_cron_secret_is_a_fault(check):
    found, exit_code = check("cron_secret", CRON_SECRET=None)

    assert (found["status"], exit_code) == ("fault", 1)
    assert "is not set, so /cron/process is closed" in found["detail"]


def test_a_missing_admin_token_is_a_warning(check):
    found, exit_code = check("admin_token", ADMIN_TOKEN=None)

    assert (found["status"], exit_code) == ("warning", 0)


@pytest.mark.parametrize(
    ("environ", "status", "detail"),
    [
        ({"CRM_URL": "https://crm.invalid/in", "CRM_SECRET": WHSEC}, "ok", "has a URL and a secret"),
        ({"CRM_SECRET": WHSEC}, "fault", "CRM_URL is not set"),
        ({"CRM_URL": "ftp://crm.invalid/hunter2", "CRM_SECRET": WHSEC}, "fault", "CRM_URL: the URL"),
        ({"CRM_URL": "https://crm.invalid/in"}, "fault", "CRM_SECRET is not configured"),
        ({"CRM_URL": "https://crm.invalid/in", "CRM_SECRET": "hunter2"}, "fault", "CRM_SECRET is invalid"),
    ],
)
def test_an_endpoint_needs_a_url_and_a_secret(check, project, environ, status, detail):
    (project / "scheduled_actions.toml").write_text(ENDPOINT, encoding="utf-8")

    found, exit_code = check("endpoint:crm", **environ)

    assert (found["status"], exit_code) == (status, 1 if status == "fault" else 0)
    assert detail in found["detail"]
    assert "hunter2" not in str(found)


def test_an_endpoint_without_a_secret_is_a_warning(check, project):
    (project / "scheduled_actions.toml").write_text(ENDPOINT.rpartition("secret_env_var")[0], encoding="utf-8")

    found, exit_code = check("endpoint:crm", CRM_URL="https://crm.invalid/in")

    assert (found["status"], exit_code) == ("warning", 0)


def test_a_disabled_endpoint_is_not_checked(run, project):
    (project / "scheduled_actions.toml").write_text(ENDPOINT + "enabled = false\n", encoding="utf-8")

    names = [check["name"] for check in run("doctor", "--json").json["checks"]]

    assert "endpoint:crm" not in names


def test_a_stale_registry_is_a_fault(check, project):
    (project / "handlers" / "new.py").write_text(
        "from scheduled_actions import action\n@action('new:one')\ndef new(payload: dict): ...\n", encoding="utf-8"
    )

    found, exit_code = check("registry")

    assert (found["status"], exit_code) == ("fault", 1)
    assert found["remedy"] == "run `scheduled-actions registry build`"


def test_a_missing_registry_is_a_fault_and_the_database_is_still_checked(run, project):
    (project / "handlers" / "_registry.py").unlink()

    ran = run("doctor", "--json")

    statuses = {check["name"]: check["status"] for check in ran.json["checks"]}
    assert ran.exit_code == 1
    assert statuses["registry"] == "fault"
    assert "handlers" not in statuses
    assert statuses["database"] == "ok"


def test_a_handler_that_cannot_be_imported_is_a_fault_that_names_it(run, project):
    (project / "handlers" / "broken.py").write_text(
        "import no_such_module\nfrom scheduled_actions import action\n"
        "print('imported')\n@action('broken:one')\ndef broken(payload: dict): ...\n",
        encoding="utf-8",
    )
    run("registry", "build")

    ran = run("doctor", "--json")

    (found,) = [check for check in ran.json["checks"] if check["name"] == "handlers"]
    assert ran.exit_code == 1
    assert found["status"] == "fault"
    assert '"broken:one" (handlers.broken:broken)' in found["detail"]
    assert "no_such_module" in found["detail"]
    assert "greeting:say" not in found["detail"]


def test_an_unreachable_database_is_a_fault_and_the_handlers_are_still_checked(run):
    ran = run("doctor", "--json", DATABASE_URL="postgresql://someone:hunter2@127.0.0.1:1/secret_name")

    statuses = {check["name"]: check["status"] for check in ran.json["checks"]}
    assert ran.exit_code == 1
    assert statuses["database"] == "fault"
    assert (statuses["registry"], statuses["handlers"], statuses["cron_secret"]) == ("ok", "ok", "ok")
    assert "server" not in statuses


def test_no_fault_prints_a_secret(run, project, database_url):
    (project / "scheduled_actions.toml").write_text(ENDPOINT, encoding="utf-8")
    parts = conninfo_to_dict(database_url)
    secrets = [CRON_SECRET, ADMIN_TOKEN, WHSEC, "hunter2", parts["password"], "secret-path"]
    broken = make_conninfo(database_url, password="hunter2", application_name="secret-path")

    printed = ""
    for url in (database_url, broken, "postgres//me:hunter2@db/secret-path", "host=127.0.0.1 port=1 password=hunter2"):
        for arguments in (["doctor"], ["doctor", "--json"], ["counts"]):
            ran = run(*arguments, DATABASE_URL=url, CRM_URL="https://crm.invalid/secret-path", CRM_SECRET=WHSEC)
            printed += ran.stdout + ran.stderr

    assert printed
    assert [secret for secret in secrets if secret in printed] == []


def test_missing_tables_are_a_fault_and_are_not_queried(run, connection):
    connection.execute("drop schema public cascade; create schema public")

    ran = run("doctor", "--json")

    statuses = {check["name"]: check["status"] for check in ran.json["checks"]}
    assert statuses["migrations"] == "fault"
    assert statuses["database"] == "ok"
    assert "ticks" not in statuses


def test_an_old_last_tick_is_a_warning_with_the_number_of_due_actions(check, connection):
    insert(connection)
    tick = a_tick(connection)
    connection.execute(
        "update scheduled_action_ticks set started_at = started_at - interval '3 hours', "
        " finished_at = started_at - interval '3 hours'"
        " where id = %s",
        [tick.id],
    )

    found, exit_code = check("ticks")

    assert (found["status"], exit_code) == ("warning", 0)
    assert (
        found["detail"] == "nothing has called /cron/process for 3 hours (last caller: tests); 1 due action is waiting"
    )


def test_no_tick_yet_is_a_warning(check):
    found, exit_code = check("ticks")

    assert (found["status"], exit_code) == ("warning", 0)
    assert found["detail"] == "nothing has called /cron/process yet"


@pytest.fixture
def pooled_url(database_url):
    with pooling(int(conninfo_to_dict(database_url)["port"])) as port:
        yield make_conninfo(database_url, port=port)


def test_a_transaction_mode_pooler_is_detected_and_ok(check, pooled_url):
    found, exit_code = check("pooler", DATABASE_URL=pooled_url)

    assert (found["status"], exit_code) == ("ok", 0)
    assert "transaction-mode pooler" in found["detail"]


def test_database_direct_behind_a_transaction_mode_pooler_is_a_fault(check, pooled_url):
    found, exit_code = check("pooler", DATABASE_URL=pooled_url, SCHEDULED_ACTIONS_DATABASE_DIRECT="true")

    assert (found["status"], exit_code) == ("fault", 1)
    assert "database_direct = false" in found["remedy"]


def test_changed_defaults_of_the_database_are_named(check, connection, database_url):
    name = conninfo_to_dict(database_url)["dbname"]
    connection.execute(
        f"alter database \"{name}\" set default_transaction_isolation = 'serializable';"
        f" alter database \"{name}\" set datestyle = 'German'"
    )

    found, exit_code = check("defaults")

    assert (found["status"], exit_code) == ("ok", 0)
    assert "datestyle = German" in found["detail"]
    assert "default_transaction_isolation = serializable" in found["detail"]


def test_a_role_with_a_connection_limit_causes_no_traceback(run, connection, database_url):
    name = conninfo_to_dict(database_url)["dbname"]
    role = f"narrow_{name[-12:]}"
    connection.execute(f"create role {role} login password 'narrow' connection limit 2")
    connection.execute(f"grant pg_read_all_data to {role}")
    try:
        ran = run("doctor", "--json", DATABASE_URL=make_conninfo(database_url, user=role, password="narrow"))
    finally:
        connection.execute(f"drop owned by {role}; drop role {role}")

    statuses = {check["name"]: check["status"] for check in ran.json["checks"]}
    assert statuses["migrations"] == "ok"
    assert statuses["pooler"] == "ok"


def test_an_unknown_option_is_a_usage_error(run):
    assert run("doctor", "--fix").exit_code == 2


def test_a_missing_or_wrong_encryption_key_of_stored_secrets_is_a_fault(run, check):
    keys = [base64.b64encode(bytes([number]) * 32).decode() for number in range(2)]
    variable = "SCHEDULED_ACTIONS_ENCRYPTION_KEY"
    before = run("doctor", "--json").json["checks"]
    created = run("webhooks", "endpoints", "create", "--url", "https://hooks.example.org/", **{variable: keys[0]})

    without, code = check("stored_secrets", **{variable: None})
    wrong, _ = check("stored_secrets", **{variable: keys[1]})
    right, _ = check("stored_secrets", **{variable: f"{keys[1]},{keys[0]}"})

    assert created.exit_code == 0
    assert "stored_secrets" not in {found["name"] for found in before}
    assert (without["status"], wrong["status"], right["status"], code) == ("fault", "fault", "ok", 1)
    assert f"1 webhook endpoint in the database: {variable} is not configured" in without["detail"]
    assert "was encrypted with a key that" in wrong["detail"]


def test_functions_that_cannot_be_imported_are_named_like_handlers(project, check):
    calendar = project / "handlers" / "calendar.py"
    calendar.write_text(
        "from scheduled_actions import next_occurrence\n\n@next_occurrence('payday')\ndef payday(moment):\n    ...\n",
        encoding="utf-8",
    )
    registry_build.write(project)

    importable, _ = check("handlers")
    calendar.write_text(f"import no_such_module\n{calendar.read_text()}", encoding="utf-8")
    del sys.modules["handlers.calendar"]
    broken, code = check("handlers")

    assert (importable["status"], importable["detail"]) == ("ok", "1 handler and 1 function can be imported")
    assert (broken["status"], code) == ("fault", 1)
    assert 'the function "next:payday" (handlers.calendar:payday) cannot be used' in broken["detail"]


def test_a_handler_whose_limit_matches_no_pattern_is_named(project, check):
    (project / "handlers" / "crm.py").write_text(
        "from scheduled_actions import action\n\n@action('crm:sync', limit='api:{user_id}')\ndef sync(payload): ...\n",
        encoding="utf-8",
    )
    registry_build.write(project)

    found, _ = check("handlers")

    assert found["status"] == "warning"
    assert found["detail"].endswith("their limit matches no pattern of [limits]: crm:sync (api:{user_id})")


def test_an_invalid_heartbeat_url_is_a_fault_and_is_not_printed(run, check):
    found, exit_code = check("heartbeat", SCHEDULED_ACTIONS_HEARTBEAT_URL="hc-ping.com/secret-uuid")

    assert (found["status"], exit_code) == ("fault", 1)
    assert "http:// or https://" in found["detail"]
    ran = run("doctor", SCHEDULED_ACTIONS_HEARTBEAT_URL="hc-ping.com/secret-uuid")
    assert "secret-uuid" not in ran.stdout + ran.stderr


def test_a_rejected_heartbeat_is_a_warning(check, connection):
    a_tick(connection)
    connection.execute('update scheduled_action_ticks set counts = \'{"heartbeat": "was refused: HTTP 404"}\'')

    found, exit_code = check("heartbeat")

    assert (found["status"], exit_code) == ("warning", 0)
    assert found["detail"].startswith("the last heartbeat was refused: HTTP 404, according to the tick of ")


def test_problems_that_need_a_person_are_named(run, connection):
    a_tick(connection)
    now = database_now(connection)
    insert(connection, **due_for(connection, seconds=540))
    insert(connection, status="failed", completed_at=now - timedelta(hours=1))
    insert(connection, status="no_action", action_type="test:gone")
    insert(connection, status="completed", action_type="test:quiet", result={"success": False, "error": "no"},
           completed_at=now - timedelta(hours=1))  # fmt: skip
    connection.execute(
        "insert into scheduled_action_schedules"
        " (name, action_type, recurrence, kind, recurrence_type, anchor_at, status, consecutive_failures)"
        " values ('nightly', 'test:run', 'daily', 'interval', 'fixed', now(), 'paused', 3)"
    )
    schedule_id, failed = uuid4(), insert(connection, status="failed", completed_at=now - timedelta(days=2))
    connection.execute(
        "insert into scheduled_action_schedules (id, name, action_type, recurrence, kind, recurrence_type, anchor_at,"
        " requires_previous, next_occurrence_at) values (%s, 'import', 'test:run', 'daily', 'interval', 'fixed', now(),"
        " true, now())",
        [schedule_id],
    )
    connection.execute(
        "update scheduled_actions set schedule_id = %s, occurrence_at = now() - interval '2 days',"
        " updated_at = now() - interval '2 days' where id = %s",
        [schedule_id, failed],
    )
    connection.execute(
        "insert into scheduled_action_schedules"
        " (name, action_type, recurrence, kind, anchor_at, status, status_by, status_at)"
        " values ('from-sql', 'test:run', 'no rule', 'interval', now(), 'paused', 'schedule:apply', now()),"
        " ('by-ann', 'test:run', 'daily', 'interval', now(), 'paused', 'ann', now())"
    )
    connection.execute(
        "insert into scheduled_action_schedules (name, action_type, recurrence, kind, anchor_at, requested, updated_at)"
        " values ('waiting', 'test:run', 'daily', 'interval', now(), '{}', now() - interval '10 minutes'),"
        " ('new', 'test:run', 'daily', 'interval', now(), '{}', now())"
    )
    connection.execute(
        "insert into scheduled_action_deadlines"
        " (name, target_type, target_id, due_at, status, closed_at, requested, updated_at)"
        " values ('renewal', 'license', '42', now(), 'open', null, '{}', now() - interval '10 minutes'),"
        " ('new', 'license', '42', now(), 'open', null, '{}', now()),"
        " ('refused', 'license', '42', now(), 'cancelled', now(), '{}', now()),"
        " ('refused-long-ago', 'license', '42', now(), 'cancelled', now() - interval '2 days', '{}', now()),"
        " ('applied', 'license', '42', now(), 'open', null, null, now())"
    )
    connection.execute("insert into webhook_endpoint_states (endpoint, disabled_at) values ('crm', now())")
    for user in ("ann", "ann", "bob"):
        connection.execute(
            "insert into scheduled_action_schedules (action_type, recurrence, kind, anchor_at, definition)"
            " values ('test:run', 'daily', 'interval', now(), jsonb_build_object('user_id', %s::text))",
            [user],
        )

    checks = {check["name"]: check for check in run("doctor", "--json").json["checks"]}

    assert {name: check["detail"] for name, check in checks.items() if check["status"] == "warning"} == {
        "backlog": "1 action due, the oldest for 9 minutes: ticks do not keep up",
        "failed_actions": "1 action failed in the last day",
        "returned_failures": 'completed in the last day although their handler returned {"success": false}: test:quiet',
        "no_action": "the running build has no handler for stored actions of these types: test:gone",
        "schedules": "paused after failures, or a call of schedule_recurring_action from SQL was refused or is not "
        "applied: from-sql, nightly, waiting",
        "held_up_schedules": "skip every occurrence until the previous one has completed (requires_previous): import "
        f"(action {failed}, failed 2 days ago)",
        "deadlines": "a call of set_deadline from SQL was refused or is not applied: refused, renewal",
        "webhook_endpoints": "disabled after failures: crm",
        "doubled_schedules": "equal active schedules without a name run several times: test:run",
    }
    assert 'such as name="test:run"' in checks["doubled_schedules"]["remedy"]


@pytest.mark.parametrize(
    ("columns", "status"),
    [
        ({"result": {"success": False}}, "warning"),
        ({"result": {"success": False, "error": "no", "reason": ["none"]}}, "warning"),
        ({"result": {"success": False, "checked": 7}}, "ok"),
        ({"result": {"success": True}}, "ok"),
        ({"result": {"success": None}}, "ok"),
        ({"result": {"success": "false"}}, "ok"),
        ({"result": {}}, "ok"),
        ({"result": [{"success": False}]}, "ok"),
        ({"result": "success"}, "ok"),
        ({"result": None}, "ok"),
        ({"result": {"success": False}, "status": "failed"}, "ok"),
        ({"result": {"success": False}, "completed_at": timedelta(hours=25)}, "ok"),
    ],
)
def test_types_that_return_failures_instead_of_raising_are_named(check, connection, columns, status):
    age = columns.get("completed_at", timedelta(hours=23))
    columns = {"status": "completed", **columns, "completed_at": database_now(connection) - age}
    insert(connection, **columns)

    assert check("returned_failures")[0]["status"] == status


def endpoint_with(connection, wanted, **columns):
    """Insert a webhook endpoint with a filter; return its id."""
    values = {"patterns": ["order:*"], "team_id": None, "enabled": True} | columns
    (endpoint,) = connection.execute(
        "insert into webhook_endpoints (url, secret, patterns, team_id, enabled, filter)"
        " values ('https://a.example/', 's', %(patterns)s, %(team_id)s, %(enabled)s, %(filter)s) returning id::text",
        values | {"filter": Jsonb(wanted)},
    ).fetchone()
    return endpoint


def an_event(connection, data, event="order:paid", **columns):
    """Insert an event that has been routed to no endpoint."""
    payload = {"event": event, "entity_type": event.partition(":")[0], "entity_id": "1", "data": data}
    now = database_now(connection)
    insert(connection, action_type="webhook:send", payload=payload, status="skipped", completed_at=now, **columns)


def test_a_filter_path_that_no_recent_event_has_is_named_with_a_similar_one(check, connection):
    an_event(connection, {"customer": {"id": 7}})
    an_event(connection, {"customer": None})
    an_event(connection, {"custmer": {"id": 7}}, event="invoice:paid")
    endpoint = endpoint_with(connection, {"$or": [{"data.custmer.id": 7}, {"data.customer.id": {"$gt": 5}}]})

    found, _ = check("webhook_filters")

    assert found["status"] == "warning"
    assert found["detail"] == (
        "filters have paths that none of the latest matching events has: "
        f'{endpoint}: data.custmer.id (2 events), did you mean "data.customer.id"?'
    )
    assert "webhooks endpoints update ID --filter" in found["remedy"]


@pytest.mark.parametrize(
    ("wanted", "columns"),
    [
        ({"data.total": {"$exists": False}}, {}),
        ({"data.state": None, "team_id": "red", "entity": "order"}, {}),
        ({"data.total": 7}, {"patterns": ["invoice:*"]}),
        ({"data.total": 7}, {"team_id": "blue"}),
        ({"data.total": 7}, {"enabled": False}),
    ],
    ids=str,
)
def test_a_filter_whose_paths_exist_or_cannot_be_compared_is_not_named(check, connection, wanted, columns):
    an_event(connection, {"state": None}, team_id="red")
    an_event(connection, {"total": 7}, event="no event", team_id="red")
    endpoint_with(connection, wanted, **columns)

    assert check("webhook_filters")[0]["status"] == "ok"


def test_actions_that_wait_for_each_other_are_named(run, check, connection):
    first, second = insert(connection), insert(connection, status="failed")
    for action_id, after in ((first, second), (second, first)):
        condition = Jsonb({"after": [str(after)]})
        connection.execute("update scheduled_actions set condition = %s where id = %s", [condition, action_id])
    assert check("waiting_cycles")[0]["status"] == "ok"

    # After the retry, each action waits for the other; a tick evaluates both conditions.
    assert run("actions", "retry", second).exit_code == 0
    run("process")
    found, _ = check("waiting_cycles")

    assert found["status"] == "warning"
    assert str(first) in found["detail"]
    assert str(second) in found["detail"]
    assert "--reset after" in found["remedy"]
    assert run("explain", first, "--json").json["code"] == "waiting_cycle"

    assert run("actions", "update", first, "--reset", "after", "--force").exit_code == 0
    assert check("waiting_cycles")[0]["status"] == "ok"
    assert run("explain", second, "--json").json["code"] == "condition_not_met"


def test_long_queues_unknown_keys_stale_slots_and_forgotten_pauses_are_warnings(run, connection):
    a_tick(connection)
    limits(
        connection,
        {"api:*": {"at_once": 2}, "mail": {"rate": "1 per hour"}, "all:*": {"at_once": 1, "across_teams": True}},
    )
    long_due = due_for(connection, seconds=1500) | {"action_type": "greeting:say", "parked_by": "limit"}
    insert_many(connection, 2, **long_due, limit_keys=["api:acme"], team_id="blue")
    insert(connection, **long_due, limit_keys=["mail"], priority=5)
    insert_many(connection, 1, **long_due, limit_keys=["all:x"], team_id="red")
    insert_many(connection, 1, **long_due, limit_keys=["all:x"], team_id="blue")
    insert(connection, **long_due, limit_keys=["api:fast", "gone:second"])
    insert(connection, action_type="greeting:say", limit_keys=["api:new"], parked_by="limit")
    insert(connection, action_type="greeting:say", limit_keys=["gone:first"], parked_by="limit")
    insert(connection, action_type="greeting:say", parked_by="0197a000-0000-7000-8000-000000000001")
    connection.execute(
        "insert into scheduled_action_limit_slots (team_id, limit_key, action_id, claim_token, acquired_at)"
        " select '', 'mail', gen_random_uuid(), gen_random_uuid(), now() - interval '1 hour' * n"
        " from generate_series(0, 1) n"
    )
    connection.execute(
        "insert into scheduled_action_pauses (kind, name, paused_at, ends_at) values"
        " ('team', 'green', now() - interval '2 days', null), ('team', 'grey', now() - interval '2 days', 'tomorrow'),"
        " ('team', 'new', now(), null), ('limit', 'api:paused', now(), 'yesterday')"
    )

    checks = {check["name"]: check for check in run("doctor", "--json").json["checks"]}

    assert {name: check["detail"] for name, check in checks.items() if check["status"] == "warning"} == {
        "limit_keys_full": "due actions have waited for longer than 10 minutes for: "
        "all:x (0 of 1 in use, 2 waiting, the oldest for 25 minutes), "
        "api:acme of team blue (0 of 2 in use, 2 waiting, the oldest for 25 minutes), "
        "api:fast (0 of 2 in use, 1 waiting, the oldest for 25 minutes), "
        "mail (1 per hour, 1 waiting, the oldest for 25 minutes)",
        "limit_keys_unknown": "queued actions have limit keys that match no pattern: gone:first, gone:second",
        "limit_slots": "1 slot of limit keys is in use although the action has not been running for 10 minutes",
        "pauses": "paused for longer than a day, without an end: team green; 1 due action held back",
    }


def test_a_paused_key_is_not_reported_as_full(check, connection):
    a_tick(connection)
    limits(connection, {"api:*": {"at_once": 2}})
    insert(connection, **due_for(connection, seconds=1500), limit_keys=["api:acme"], parked_by="limit")
    connection.execute("insert into scheduled_action_pauses (kind, name) values ('limit', 'api:acme')")

    assert check("limit_keys_full")[0]["status"] == "ok"
    assert check("pauses")[0]["detail"] == "1 active pause, 0 due actions held back"


def test_an_executor_without_workers_is_named_with_the_command_that_starts_one(run, check, project, connection):
    (project / "scheduled_actions.toml").write_text('[executors.media]\ntypes = ["greeting:*"]\n', encoding="utf-8")
    a_tick(connection)
    missing, _ = check("executor_settings")
    run("migrate")
    insert_many(connection, 2, action_type="greeting:say", payload={"name": "Ann"})

    idle, exit_code = check("executors")
    found = {one["name"]: one["status"] for one in run("doctor", "--json").json["checks"] if "executor" in one["name"]}

    assert missing["detail"].endswith("so that ticks run their types: media")
    assert (idle["status"], exit_code) == ("warning", 0)
    assert idle["detail"] == "executor media: no worker has taken an action within the last day (2 due actions)"
    assert "`scheduled-actions executors work media`" in idle["remedy"]
    assert found == {"executors": "warning", "executor_settings": "ok", "executor_types": "ok"}

    run("executors", "work", "media", "--once")

    assert check("executors")[0]["status"] == "ok", "a worker that has just ended was seen, as between two pings"


def test_an_executor_in_the_database_that_the_settings_lack_is_named(check, connection):
    connection.execute("insert into scheduled_action_executors values ('media', '{video:*}', '{video:%}')")

    found, exit_code = check("executor_settings")

    assert (found["status"], exit_code) == ("warning", 0)
    assert found["detail"] == "executors in the database that the settings do not have: media; no tick runs their types"


def test_a_timeout_that_does_not_fit_into_a_tick_is_no_problem_for_a_worker(run, check, project):
    (project / "handlers" / "film.py").write_text(
        "from scheduled_actions import action\n\n"
        "@action('video:cut', timeout_seconds=3600)\ndef cut(payload: dict): ...\n",
        encoding="utf-8",
    )
    registry_build.write(project)
    before, _ = check("handlers")
    (project / "scheduled_actions.toml").write_text('[executors.media]\ntypes = ["video:*"]\n', encoding="utf-8")

    after, _ = check("handlers")

    assert before["detail"] == "never started, because their timeout does not fit into a tick: video:cut (3600 s)"
    assert after["status"] == "ok"
