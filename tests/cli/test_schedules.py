"""`schedules`: list, show, create, update, pause, resume, run, backfill, skip, delete, sync."""

from __future__ import annotations

import getpass
import json
import sys
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from scheduled_actions.operations import registry_build
from tests.factories import NOW, row, set_clock

ANN = ("--payload", '{"name": "Ann"}')
CLOSED = '{"kind": "document_state", "target": {"type": "books", "id": "2026"}, "state": "closed"}'
BY = f"cli:{getpass.getuser()}"
DAY = timedelta(days=1)
UNKNOWN_ID = "00000000-0000-0000-0000-000000000000"

DECLARED = """\
from scheduled_actions import action, next_occurrence, skip_occurrence


@action("report:build", recurrence={"rule": RULE, "timezone": "Europe/Berlin"})
def build(payload: dict):
    print("a handler prints")


@next_occurrence("payday")
def payday(moment):
    print("a rule prints")
    return (moment.replace(day=25) if moment.day < 25 else moment.replace(day=25, month=moment.month % 12 + 1))
"""


@pytest.fixture(autouse=True)
def stopped_clock(connection):
    set_clock(connection, NOW)


@pytest.fixture
def create(run):
    """Return a function that creates a schedule and returns its document."""

    def create_schedule(rule="daily", *options, name="greet"):
        named = ("--name", name) if name else ()
        ran = run("schedules", "create", "greeting:say", rule, *ANN, *named, *options, "--json")
        assert ran.exit_code == 0, ran.stderr
        return ran.json

    return create_schedule


@pytest.fixture
def declare(project):
    """Return a function that replaces the recurrence declared in the code, like a deployment."""

    def deploy(rule):
        for name in [name for name in sys.modules if name.split(".")[0] == "handlers"]:
            del sys.modules[name]
        file = project / "handlers" / "report.py"
        if rule is None:
            file.unlink()
        else:
            file.write_text(DECLARED.replace("RULE", repr(rule)), encoding="utf-8")
        registry_build.write(project)

    return deploy


def at(text):
    return datetime.fromisoformat(text)


def planned(connection, schedule):
    return row(connection, schedule["next_action_id"])


# -- create ------------------------------------------------------------------------------------------------------------


def test_create_returns_the_columns_of_the_schedule_and_a_description(run, connection):
    ran = run("schedules", "create", "greeting:say", "0 9 * * 1-5", *ANN, "--name", "greet", "--json")

    assert ran.exit_code == 0
    created = ran.json
    assert (created["name"], created["action_type"], created["recurrence"], created["kind"]) == (
        "greet", "greeting:say", "0 9 * * 1-5", "cron",
    )  # fmt: skip
    assert (created["status"], created["payload"], created["created_by"]) == ("active", {"name": "Ann"}, BY)
    assert "09:00" in created["description"]
    assert (
        at(created["next_occurrence_at"])
        == at(planned(connection, created)["occurrence_at"])
        == NOW + timedelta(hours=21)
    )


def test_create_stores_every_option(create, project):
    (project / "scheduled_actions.toml").write_text('[limits."api:*"]\nat_once = 3\n\n[limits.reports]\nat_once = 1\n')
    created = create(
        "daily", "--team", "north", "--timezone", "Europe/Berlin", "--at", "2026-03-05T09:00", "--misfire", "catch_up",
        "--grace", "2m", "--catch-up-limit", "7", "--catch-up-age", "P1D", "--overlap", "queue", "--pause-after", "3",
        "--requires-previous",
        "--jitter", "30s", "--until", "2026-04-01T00:00", "--remaining", "5", "--priority", "-3", "--max-attempts", "2",
        "--lock-group", "g", "--limit", "api:acme", "--limit", "reports", "--expires-in", "1h", "--on-expiry", "fail",
        "--metadata", '{"why": "because"}', "--condition", CLOSED, "--wait", "--timeout", "PT1H",
        "--on-success", '{"action_type": "greeting:say", "payload": {"name": "Ben"}}',
    )  # fmt: skip

    named = {
        "team_id": "north", "timezone": "Europe/Berlin", "misfire": "catch_up", "misfire_grace_seconds": 120.0,
        "catch_up_limit": 7, "catch_up_seconds": 86400.0, "overlap": "queue", "pause_after_failures": 3,
        "requires_previous": True,
        "jitter_seconds": 30.0, "remaining": 5, "priority": -3, "max_attempts": 2, "lock_group": "g",
        "limit_keys": ["api:acme", "reports"], "expires_seconds": 3600.0, "on_expiry": "fail",
        "metadata": {"why": "because"}, "recurrence_type": "fixed",
        "condition": {"wait": json.loads(CLOSED), "timeout": 3600.0},
        "on_success": [{"action_type": "greeting:say", "payload": {"name": "Ben"}}],
    }  # fmt: skip
    assert {name: created[name] for name in named} == named
    assert at(created["anchor_at"]) == datetime(2026, 3, 5, 8, tzinfo=UTC)
    assert at(created["until"]) == datetime(2026, 3, 31, 22, tzinfo=UTC)


def test_create_in_counts_from_the_database_clock(create):
    created = create("PT10M", "--in", "1h", "--rolling")

    assert (at(created["anchor_at"]), created["recurrence_type"]) == (NOW + timedelta(hours=1), "rolling")
    assert at(created["next_occurrence_at"]) == NOW + timedelta(hours=1)


@pytest.mark.parametrize(
    ("options", "skip"),
    [
        (["--skip-weekends"], {"weekends": True}),
        (["--holidays", "US", "--adjustment", "following"], {"holidays": "US", "adjustment": "following"}),
        (["--skip-date", "2026-12-24", "--skip-date", "2026-12-31"], {"dates": ["2026-12-24", "2026-12-31"]}),
        (["--skip-range", "2026-12-24..2027-01-02"], {"ranges": [{"from": "2026-12-24", "to": "2027-01-02"}]}),
        (["--skip-window", "22:00-02:00"], {"windows": [{"from": "22:00", "to": "02:00"}]}),
        (
            ["--skip-window", "sat, sun 10:00-14:00"],
            {"windows": [{"from": "10:00", "to": "14:00", "days": ["sat", "sun"]}]},
        ),
        (
            ["--skip-window", "2026-12-24T22:00:00Z..2026-12-25T02:00:00Z"],
            {"windows": [{"from": "2026-12-24T22:00:00Z", "to": "2026-12-25T02:00:00Z"}]},
        ),
    ],
)
def test_create_stores_the_skip_options_as_one_object(create, options, skip):
    assert create("daily", *options)["skip"] == skip


def test_repeating_create_changes_nothing_and_a_different_rule_updates_the_schedule(run, create, connection):
    first = create()
    set_clock(connection, NOW + timedelta(minutes=5))

    again = create()
    other = create("hourly")

    assert again == first
    assert (other["id"], other["recurrence"]) == (first["id"], "hourly")
    assert len(run("schedules", "list", "--json").json["schedules"]) == 1


def test_create_prints_the_next_occurrence_and_warns_of_unusual_rules(run):
    ran = run(
        "schedules", "create", "greeting:say", "0 9 31 * *", *ANN, "--name", "greet", "--timezone", "Europe/Berlin"
    )

    assert ran.stdout == "greet runs greeting:say; next at 2026-03-31 09:00:00+02:00\n"
    assert ran.stderr.startswith("warning: ")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["greeting:say", "every blue moon", *ANN], 'recurrence "every blue moon"'),
        (["greeting:say", "0 25 * * *", *ANN], "25"),
        (["greeting:say", "daily", "--payload", "{}"], 'payload of "greeting:say": name'),
        (["gretting:say", "daily"], 'did you mean "greeting:say"?'),
        (["greeting:say", "daily", *ANN, "--timezone", "Berlin"], "timezone: 'Berlin' is not an IANA time zone"),
        (["greeting:say", "daily", *ANN, "--skip-date", "2026-02-30"], "skip.dates[0]: '2026-02-30' is not a day"),
        (["greeting:say", "daily", *ANN, "--remaining", "0"], "remaining: 0 is not"),
        (["greeting:say", "daily", *ANN, "--until", "2026-01-01T00:00:00Z"], "ends at 2026-01-01"),
    ],
)
def test_an_invalid_schedule_is_rejected_in_one_line_and_not_created(run, connection, arguments, expected):
    ran = run("schedules", "create", *arguments, "--json")

    assert (ran.exit_code, ran.stdout) == (1, "")
    assert ran.stderr.count("\n") == 1
    assert expected in ran.stderr
    assert connection.execute("select count(*) from scheduled_action_schedules").fetchone() == (0,)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--at", "2026-12-01T00:00Z", "--in", "5m"], "--at and --in are mutually exclusive"),
        (["--misfire", "often"], "'often' is not one of 'fire_once', 'skip', 'catch_up'"),
        (["--skip-window", "22:00"], "'22:00' is not a maintenance window"),
        (["--skip-range", "2026-12-24"], "'2026-12-24' is not a range of days"),
        (["--jitter", "soon"], "'soon' is not"),
        (["--metadata", "{"], "write JSON between single quotes"),
    ],
)
def test_an_unparsable_option_is_a_usage_error(run, options, expected):
    ran = run("schedules", "create", "greeting:say", "daily", *ANN, *options)

    assert (ran.exit_code, ran.stdout) == (2, "")
    assert expected in ran.stderr


# -- list and show -----------------------------------------------------------------------------------------------------


def test_list_returns_schedules_newest_first_and_a_cursor_through_all_pages(run, create):
    ids = [create(name=name)["id"] for name in ("one", "two", "three")]

    first = run("schedules", "list", "--limit", "2", "--json").json
    second = run("schedules", "list", "--limit", "2", "--cursor", first["next_cursor"], "--json").json

    assert [schedule["id"] for page in (first, second) for schedule in page["schedules"]] == ids[::-1]
    assert second["next_cursor"] is None


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (["--status", "paused"], ["two"]),
        (["--team", "north"], ["one"]),
        (["--type", "greeting:say"], ["two", "one"]),
        (["--type", "greeting:sing"], []),
    ],
)
def test_list_applies_every_filter(run, create, options, wanted):
    create("daily", "--team", "north", name="one")
    create(name="two")
    run("schedules", "pause", "two")

    assert [schedule["name"] for schedule in run("schedules", "list", *options, "--json").json["schedules"]] == wanted


def test_list_prints_the_next_occurrence_in_the_time_zone_of_the_schedule_and_the_description(run, create):
    create("0 9 * * 1-5", "--timezone", "Asia/Kathmandu")

    heading, line = run("schedules", "list").stdout.splitlines()

    assert heading.split() == ["SCHEDULE", "TYPE", "STATUS", "NEXT", "RULE", "NOTE"]
    assert line.startswith("greet     greeting:say  active  2026-03-05 09:00:00+05:45  At 09:00")
    assert "Asia/Kathmandu" in line


def test_empty_lists_name_the_create_command(run):
    assert run("schedules", "list").stdout.startswith("no schedules yet: `scheduled-actions schedules create")
    assert run("schedules", "list", "--status", "paused").stdout == "no schedule matches\n"


def test_show_prints_the_fields_the_next_occurrences_and_the_last_results(run, create, connection):
    create("daily", "--timezone", "Europe/Berlin")
    run("schedules", "create", "greeting:say", "daily", "--payload", '{"name": "no one"}', "--name", "no one")
    for day in (1, 2):
        set_clock(connection, NOW + day * DAY)
        run("process")

    shown = run("schedules", "show", "greet").stdout

    lines = shown.splitlines()
    assert lines[0] == "rule                   Every day at 13:00 in Europe/Berlin"
    assert "payload                {\n" in shown
    upcoming = lines[lines.index("next") + 1 : lines.index("last") - 1]
    assert upcoming[0] == "  2026-03-07 13:00:00+01:00  (2026-03-07 12:00:00Z)"
    assert len(upcoming) == 5
    last = lines[lines.index("last") + 1 :]
    assert [line.split("  ")[1:3] for line in last] == [
        ["2026-03-06 13:00:00+01:00", "completed"], ["2026-03-05 13:00:00+01:00", "completed"],
    ]  # fmt: skip


def test_show_json_has_the_next_occurrences_and_the_last_outcomes(run, create, connection):
    created = create("daily", "--timezone", "Europe/Berlin")
    set_clock(connection, NOW + DAY)
    run("process")
    by_hand = run("schedules", "run", "greet", "--json").json["id"]
    run("process")

    shown = run("schedules", "show", created["id"], "--json").json

    assert shown["occurrences"][0] == {"at": "2026-03-06T13:00:00+01:00", "utc": "2026-03-06T12:00:00+00:00"}
    assert len(shown["occurrences"]) == 5
    assert [(outcome["status"], outcome["occurrence_at"]) for outcome in shown["outcomes"]] == [
        ("completed", None), ("completed", (NOW + DAY).isoformat()),
    ]  # fmt: skip
    assert shown["outcomes"][0]["id"] == by_hand
    assert shown["description"] == "Every day at 13:00 in Europe/Berlin"


@pytest.mark.parametrize("command", [["show", "greet"], ["skip", "greet"]])
def test_output_of_a_project_rule_goes_to_stderr(run, declare, create, command):
    declare("daily")
    create("custom:payday")

    ran = run("schedules", *command, "--json")

    assert json.loads(ran.stdout)
    assert "a rule prints" in ran.stderr


def test_show_names_the_reason_for_missing_occurrences(run, declare, create):
    declare("daily")
    create("custom:payday")
    declare(None)

    ran = run("schedules", "show", "greet")

    assert ran.exit_code == 0
    assert ran.stdout.splitlines()[0].split() == ["rule", "custom:payday"]
    assert "payday" in ran.stdout.partition("\nnext\n")[2]


def test_a_name_is_searched_in_the_given_team(run, create):
    create("daily", "--team", "north")

    assert run("schedules", "show", "greet", "--team", "north", "--json").exit_code == 0
    ran = run("schedules", "show", "greet")

    assert (ran.exit_code, ran.stderr) == (1, "error: no schedule has the id or name greet\n")


# -- update ------------------------------------------------------------------------------------------------------------


def test_updating_the_rule_replaces_the_planned_occurrence(run, create, connection):
    before = create()

    ran = run("schedules", "update", "greet", "--rule", "0 15 * * *", "--timezone", "Europe/Berlin", "--json")

    after = ran.json
    assert (after["id"], after["recurrence"], after["timezone"]) == (before["id"], "0 15 * * *", "Europe/Berlin")
    assert at(planned(connection, after)["occurrence_at"]) == NOW + timedelta(hours=2)
    assert connection.execute("select count(*) from scheduled_actions").fetchone() == (1,)


def test_updating_the_payload_changes_the_planned_occurrence(run, create, connection):
    before = create()

    after = run("schedules", "update", "greet", "--payload", '{"name": "Bob"}', "--priority", "2", "--json").json

    found = planned(connection, after)
    assert after["next_action_id"] == before["next_action_id"]
    assert (found["payload"], found["priority"]) == ({"name": "Bob"}, 2)


def test_update_reads_times_without_offset_in_the_time_zone_of_the_schedule(run, create):
    create("daily", "--timezone", "Europe/Berlin")

    after = run("schedules", "update", "greet", "--until", "2026-07-01T00:00", "--json").json

    assert at(after["until"]) == datetime(2026, 6, 30, 22, tzinfo=UTC)


def test_until_a_day_includes_the_whole_day(create):
    created = create("daily", "--timezone", "Europe/Berlin", "--until", "2026-06-30")

    assert at(created["until"]) == datetime(2026, 6, 30, 21, 59, 59, tzinfo=UTC)


def test_reset_restores_the_defaults(run, create):
    create("daily", "--until", "2026-07-01T00:00Z", "--skip-weekends", "--jitter", "60s", "--condition", CLOSED)

    options = ("--reset", "until", "--reset", "skip", "--reset", "jitter", "--reset", "condition")
    after = run("schedules", "update", "greet", *options, "--json").json

    assert (after["until"], after["skip"], after["jitter_seconds"], after["condition"]) == (None, None, 0.0, None)


def test_update_changes_the_name_and_the_recurrence_type(run, create):
    create("PT10M")

    run("schedules", "update", "greet", "--name", "salute", "--rolling")

    after = run("schedules", "show", "salute", "--json").json
    assert after["recurrence_type"] == "rolling"


@pytest.mark.parametrize(
    ("options", "code", "expected"),
    [
        ([], 2, "nothing to change"),
        (["--jitter", "5s", "--reset", "jitter"], 2, "--jitter and --reset jitter are mutually exclusive"),
        (["--in", "5m", "--reset", "at"], 2, "--in and --reset at are mutually exclusive"),
        (["--reset", "rule"], 2, "'rule' is not one of"),
        (["--rule", "0 25 * * *"], 1, "25"),
        (["--payload", '{"name": 3}'], 1, 'payload of "greeting:say": name'),
        (["--until", "2026-03-04T13:00Z"], 1, "has no occurrence after 2026-03-04"),
    ],
)
def test_an_invalid_update_changes_nothing(run, create, options, code, expected):
    before = create()

    ran = run("schedules", "update", "greet", *options, "--json")

    assert (ran.exit_code, ran.stdout) == (code, "")
    assert expected in ran.stderr
    assert run("schedules", "list", "--json").json["schedules"] == [before]


# -- pause, resume, run, backfill, skip, delete ------------------------------------------------------------------------


def test_pause_and_resume_print_what_happens_next_and_accumulate_no_occurrences(run, create, connection):
    create()

    paused = run("schedules", "pause", "greet", "--reason", "the printer is away")
    set_clock(connection, NOW + 10 * DAY + timedelta(hours=1))
    resumed = run("schedules", "resume", "greet")

    assert paused.stdout == "greet paused; it is paused: the printer is away\n"
    assert resumed.stdout == "greet resumed; next at 2026-03-15 12:00:00+00:00\n"
    assert connection.execute("select count(*) from scheduled_actions").fetchone() == (1,)
    shown = run("schedules", "show", "greet", "--json").json
    assert (shown["status"], shown["status_by"]) == ("active", BY)


def test_run_adds_an_action_next_to_the_planned_occurrence(run, create, connection):
    created = create()

    ran = run("schedules", "run", "greet", "--json")

    found = row(connection, ran.json["id"])
    assert (found["occurrence_at"], found["schedule_id"], found["created_by"]) == (None, created["id"], BY)
    assert at(found["scheduled_at"]) == NOW
    assert run("schedules", "run", "greet").stdout.endswith(" is due now\n")


def test_backfill_with_an_unknown_time_zone_is_rejected(run, create, connection):
    create("0 9 * * *")
    connection.execute("update scheduled_action_schedules set timezone = 'Europe/Nowhere'")

    refused = run("schedules", "backfill", "greet", "--from", "2026-03-01T09:00", "--to", "2026-03-03T09:00")

    assert refused.exit_code == 1
    assert "timezone: 'Europe/Nowhere' is not an IANA time zone" in refused.stderr


def test_backfill_creates_each_missing_occurrence_once(run, create):
    create("0 9 * * *", "--timezone", "Europe/Berlin")
    wanted = ("schedules", "backfill", "greet", "--from", "2026-03-01T09:00", "--to", "2026-03-03T09:00")

    first = run(*wanted, "--json").json["ids"]
    second = run(*wanted)

    assert len(first) == 3
    assert second.stdout == "no occurrence is missing\n"


def test_skip_marks_the_planned_occurrence_and_plans_the_next(run, create, connection):
    created = create()

    ran = run("schedules", "skip", "greet", "--reason", "a holiday")

    assert ran.stdout == "greet skipped an occurrence; next at 2026-03-06 12:00:00+00:00\n"
    found = row(connection, created["next_action_id"])
    assert (found["status"], found["error_message"]) == ("skipped", "a holiday")


def test_skip_without_a_planned_occurrence_is_rejected(run, create):
    create()
    run("schedules", "pause", "greet")

    ran = run("schedules", "skip", "greet")

    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "has no planned occurrence" in ran.stderr


def test_delete_requires_confirmation_and_deletes_the_planned_occurrence(run, create, connection):
    created = create()

    kept = run("schedules", "delete", "greet", stdin="n\n")
    gone = run("schedules", "delete", "greet", stdin="y\n")

    assert (kept.exit_code, kept.stdout) == (1, "")
    assert "Delete greet (greeting:say)?" in kept.stderr
    assert (gone.exit_code, gone.stdout) == (0, "greet deleted\n")
    assert connection.execute(
        "select count(*) from scheduled_actions where schedule_id = %s", [created["id"]]
    ).fetchone() == (0,)


def test_delete_with_yes_requires_no_confirmation(run, create):
    created = create()

    assert run("schedules", "delete", "greet", "--yes", "--json").json == {"deleted": created["id"]}
    assert run("schedules", "list", "--json").json["schedules"] == []


@pytest.mark.parametrize("command", ["show", "pause", "resume", "run", "skip", "update", "delete", "backfill"])
def test_an_unknown_schedule_is_rejected(run, command):
    options = {
        "update": ["--rule", "daily"],
        "delete": ["--yes"],
        "backfill": ["--from", "2026-03-01T00:00Z", "--to", "2026-03-02T00:00Z"],
    }
    ran = run("schedules", command, UNKNOWN_ID, *options.get(command, []))

    assert (ran.exit_code, ran.stdout, ran.stderr) == (1, "", f"error: no schedule has the id or name {UNKNOWN_ID}\n")


# -- sync --------------------------------------------------------------------------------------------------------------


def test_sync_creates_updates_and_pauses_declared_schedules(run, declare):
    listed = partial(run, "schedules", "list", "--json")
    declare("daily")
    first = run("schedules", "sync", "--json")
    created = listed().json["schedules"]
    declare("0 9 * * *")
    run("schedules", "sync")
    changed = listed().json["schedules"]
    declare(None)
    dropped = run("schedules", "sync", "--json")

    assert first.exit_code == 0
    assert [(item["name"], item["recurrence"], item["is_declared"]) for item in created] == [
        ("report:build", "daily", True)
    ]
    assert [(item["id"], item["recurrence"]) for item in changed] == [(created[0]["id"], "0 9 * * *")]
    assert dropped.json["paused"] == ["report:build"]
    assert listed().json["schedules"][0]["status"] == "paused"


def test_sync_with_a_rejected_schedule_exits_with_1_and_syncs_the_others(run, declare, project):
    declare("daily")
    # The build accepts it: the payload is checked when the schedule is created.
    (project / "handlers" / "greeting.py").write_text(
        (project / "handlers" / "greeting.py").read_text(encoding="utf-8").replace(
            "max_attempts=2", 'max_attempts=2, recurrence="daily"'
        ),
        encoding="utf-8",
    )  # fmt: skip
    registry_build.write(project)

    ran = run("schedules", "sync", "--json")

    assert ran.exit_code == 1
    document = json.loads(ran.stdout)
    assert len(document["refused"]) == 1
    assert "greeting:say" in ran.stderr
    assert [schedule["name"] for schedule in run("schedules", "list", "--json").json["schedules"]] == ["report:build"]


def test_updating_a_declared_schedule_prints_a_warning(run, declare):
    declare("daily")
    run("schedules", "sync")

    ran = run("schedules", "update", "report:build", "--priority", "3", "--json")

    assert ran.exit_code == 0
    assert ran.stderr.startswith("warning: the code declares report:build")


# -- all subcommands ---------------------------------------------------------------------------------------------------

SUBCOMMANDS = ["list", "show", "create", "update", "pause", "resume", "run", "backfill", "skip", "delete", "sync"]


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_every_subcommand_has_help_and_a_json_option(run_anywhere, name):
    shown_help = run_anywhere("schedules", name, "--help")

    assert shown_help.exit_code == 0
    assert "--json" in shown_help.stdout


def test_without_a_registry_schedules_can_be_listed_and_paused(run, create, project):
    create()
    (project / "handlers" / "_registry.py").unlink()

    assert run("schedules", "list").exit_code == run("schedules", "show", "greet").exit_code == 0
    assert run("schedules", "pause", "greet").exit_code == 0
    ran = run("schedules", "resume", "greet")

    assert ran.exit_code == 1
    assert "registry build" in ran.stderr
