"""`schedules`: list, show, create, edit, pause, resume, run, backfill, skip, delete, sync."""

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
NOBODY = "00000000-0000-0000-0000-000000000000"

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
    """Return a function that makes a schedule and answers its document."""

    def make(rule="daily", *options, name="greet"):
        named = ("--name", name) if name else ()
        ran = run("schedules", "create", "greeting:say", rule, *ANN, *named, *options, "--json")
        assert ran.exit_code == 0, ran.stderr
        return ran.json

    return make


@pytest.fixture
def declare(project):
    """Return a function that lets the project's code declare a recurrence, as a deployment does."""

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


def test_create_answers_the_schedule_by_its_column_names_and_its_rule_in_words(run, connection):
    ran = run("schedules", "create", "greeting:say", "0 9 * * 1-5", *ANN, "--name", "greet", "--json")

    assert ran.exit_code == 0
    made = ran.json
    assert (made["name"], made["action_type"], made["recurrence"], made["kind"]) == (
        "greet", "greeting:say", "0 9 * * 1-5", "cron",
    )  # fmt: skip
    assert (made["status"], made["payload"], made["created_by"]) == ("active", {"name": "Ann"}, BY)
    assert "09:00" in made["description"]
    assert at(made["next_occurrence_at"]) == at(planned(connection, made)["occurrence_at"]) == NOW + timedelta(hours=21)


def test_create_takes_every_option_it_names(create):
    made = create(
        "daily", "--team", "north", "--timezone", "Europe/Berlin", "--at", "2026-03-05T09:00", "--misfire", "catch_up",
        "--grace", "2m", "--catch-up-limit", "7", "--catch-up-age", "P1D", "--overlap", "queue", "--pause-after", "3",
        "--jitter", "30s", "--until", "2026-04-01T00:00", "--remaining", "5", "--priority", "-3", "--max-attempts", "2",
        "--lock-group", "g", "--metadata", '{"why": "because"}', "--condition", CLOSED, "--wait", "--timeout", "PT1H",
        "--on-success", '{"action_type": "greeting:say", "payload": {"name": "Ben"}}',
    )  # fmt: skip

    named = {
        "team_id": "north", "timezone": "Europe/Berlin", "misfire": "catch_up", "misfire_grace_seconds": 120.0,
        "catch_up_limit": 7, "catch_up_seconds": 86400.0, "overlap": "queue", "pause_after_failures": 3,
        "jitter_seconds": 30.0, "remaining": 5, "priority": -3, "max_attempts": 2, "lock_group": "g",
        "metadata": {"why": "because"}, "recurrence_type": "fixed",
        "condition": {"wait": json.loads(CLOSED), "timeout": 3600.0},
        "on_success": [{"action_type": "greeting:say", "payload": {"name": "Ben"}}],
    }  # fmt: skip
    assert {name: made[name] for name in named} == named
    assert at(made["anchor_at"]) == datetime(2026, 3, 5, 8, tzinfo=UTC)
    assert at(made["until"]) == datetime(2026, 3, 31, 22, tzinfo=UTC)


def test_create_counts_a_start_from_the_databases_now(create):
    made = create("PT10M", "--in", "1h", "--rolling")

    assert (at(made["anchor_at"]), made["recurrence_type"]) == (NOW + timedelta(hours=1), "rolling")
    assert at(made["next_occurrence_at"]) == NOW + timedelta(hours=1)


@pytest.mark.parametrize(
    ("options", "skip"),
    [
        (["--skip-weekends"], {"weekends": True}),
        (["--holidays", "US", "--on-skip", "following"], {"holidays": "US", "then": "following"}),
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
def test_create_hands_on_what_is_skipped_as_one_object(create, options, skip):
    assert create("daily", *options)["skip"] == skip


def test_creating_the_same_again_changes_nothing_and_something_else_changes_it(run, create, connection):
    first = create()
    set_clock(connection, NOW + timedelta(minutes=5))

    again = create()
    other = create("hourly")

    assert again == first
    assert (other["id"], other["recurrence"]) == (first["id"], "hourly")
    assert len(run("schedules", "list", "--json").json["schedules"]) == 1


def test_create_tells_people_when_it_comes_and_warns_of_what_is_often_meant_otherwise(run):
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
def test_what_cannot_be_made_is_refused_in_one_line_and_leaves_nothing(run, connection, arguments, expected):
    ran = run("schedules", "create", *arguments, "--json")

    assert (ran.exit_code, ran.stdout) == (1, "")
    assert ran.stderr.count("\n") == 1
    assert expected in ran.stderr
    assert connection.execute("select count(*) from scheduled_action_schedules").fetchone() == (0,)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--at", "2026-12-01T00:00Z", "--in", "5m"], "--at and --in say the same thing"),
        (["--misfire", "often"], "'often' is not one of 'fire_once', 'skip', 'catch_up'"),
        (["--skip-window", "22:00"], "'22:00' is not a time of day to another"),
        (["--skip-range", "2026-12-24"], "'2026-12-24' is not two days"),
        (["--jitter", "soon"], "'soon' is not"),
        (["--metadata", "{"], "write JSON between single quotes"),
    ],
)
def test_an_option_that_cannot_be_read_is_a_usage_error(run, options, expected):
    ran = run("schedules", "create", "greeting:say", "daily", *ANN, *options)

    assert (ran.exit_code, ran.stdout) == (2, "")
    assert expected in ran.stderr


# -- list and show -----------------------------------------------------------------------------------------------------


def test_list_answers_schedules_the_newest_first_and_a_cursor_through_all_pages(run, create):
    ids = [create(name=name)["id"] for name in ("one", "two", "three")]

    first = run("schedules", "list", "--limit", "2", "--json").json
    second = run("schedules", "list", "--limit", "2", "--cursor", first["next_cursor"], "--json").json

    assert [one["id"] for page in (first, second) for one in page["schedules"]] == ids[::-1]
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
def test_list_narrows_by_every_filter(run, create, options, wanted):
    create("daily", "--team", "north", name="one")
    create(name="two")
    run("schedules", "pause", "two")

    assert [one["name"] for one in run("schedules", "list", *options, "--json").json["schedules"]] == wanted


def test_list_tells_people_the_next_instant_on_the_schedules_own_clock_and_the_rule_in_words(run, create):
    create("0 9 * * 1-5", "--timezone", "Asia/Kathmandu")

    heading, line = run("schedules", "list").stdout.splitlines()

    assert heading.split() == ["SCHEDULE", "TYPE", "STATUS", "NEXT", "RULE", "NOTE"]
    assert line.startswith("greet     greeting:say  active  2026-03-05 09:00:00+05:45  At 09:00")
    assert "Asia/Kathmandu" in line


def test_empty_lists_say_what_to_do(run):
    assert run("schedules", "list").stdout.startswith("no schedules yet: `scheduled-actions schedules create")
    assert run("schedules", "list", "--status", "paused").stdout == "no schedule matches\n"


def test_show_tells_everything_what_comes_next_and_what_came_of_it_last(run, create, connection):
    create("daily", "--timezone", "Europe/Berlin")
    run("schedules", "create", "greeting:say", "daily", "--payload", '{"name": "nobody"}', "--name", "nobody")
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


def test_show_answers_programs_the_next_instants_in_local_time_and_the_last_outcomes(run, create, connection):
    made = create("daily", "--timezone", "Europe/Berlin")
    set_clock(connection, NOW + DAY)
    run("process")
    by_hand = run("schedules", "run", "greet", "--json").json["id"]
    run("process")

    shown = run("schedules", "show", made["id"], "--json").json

    assert shown["occurrences"][0] == {"at": "2026-03-06T13:00:00+01:00", "utc": "2026-03-06T12:00:00+00:00"}
    assert len(shown["occurrences"]) == 5
    assert [(one["status"], one["occurrence_at"]) for one in shown["outcomes"]] == [
        ("completed", None), ("completed", (NOW + DAY).isoformat()),
    ]  # fmt: skip
    assert shown["outcomes"][0]["id"] == by_hand
    assert shown["description"] == "Every day at 13:00 in Europe/Berlin"


@pytest.mark.parametrize("command", [["show", "greet"], ["skip", "greet"]])
def test_what_a_rule_of_the_project_prints_is_kept_apart_from_the_answer(run, declare, create, command):
    declare("daily")
    create("custom:payday")

    ran = run("schedules", *command, "--json")

    assert json.loads(ran.stdout)
    assert "a rule prints" in ran.stderr


def test_show_says_why_there_is_no_further_instant(run, declare, create):
    declare("daily")
    create("custom:payday")
    declare(None)

    ran = run("schedules", "show", "greet")

    assert ran.exit_code == 0
    assert ran.stdout.splitlines()[0].split() == ["rule", "custom:payday"]
    assert "payday" in ran.stdout.partition("\nnext\n")[2]


def test_a_name_is_looked_for_in_the_team_that_is_said(run, create):
    create("daily", "--team", "north")

    assert run("schedules", "show", "greet", "--team", "north", "--json").exit_code == 0
    ran = run("schedules", "show", "greet")

    assert (ran.exit_code, ran.stderr) == (1, "error: no schedule has the id or name greet\n")


# -- edit --------------------------------------------------------------------------------------------------------------


def test_edit_plans_the_waiting_occurrence_anew(run, create, connection):
    before = create()

    ran = run("schedules", "edit", "greet", "--rule", "0 15 * * *", "--timezone", "Europe/Berlin", "--json")

    after = ran.json
    assert (after["id"], after["recurrence"], after["timezone"]) == (before["id"], "0 15 * * *", "Europe/Berlin")
    assert at(planned(connection, after)["occurrence_at"]) == NOW + timedelta(hours=2)
    assert connection.execute("select count(*) from scheduled_actions").fetchone() == (1,)


def test_edit_changes_the_waiting_occurrence_where_it_stands(run, create, connection):
    before = create()

    after = run("schedules", "edit", "greet", "--payload", '{"name": "Bob"}', "--priority", "2", "--json").json

    found = planned(connection, after)
    assert after["next_action_id"] == before["next_action_id"]
    assert (found["payload"], found["priority"]) == ({"name": "Bob"}, 2)


def test_edit_reads_times_without_offset_on_the_schedules_own_clock(run, create):
    create("daily", "--timezone", "Europe/Berlin")

    after = run("schedules", "edit", "greet", "--until", "2026-07-01T00:00", "--json").json

    assert at(after["until"]) == datetime(2026, 6, 30, 22, tzinfo=UTC)


def test_a_day_without_a_time_counts_whole_as_the_last_one(create):
    made = create("daily", "--timezone", "Europe/Berlin", "--until", "2026-06-30")

    assert at(made["until"]) == datetime(2026, 6, 30, 22, tzinfo=UTC) - timedelta(microseconds=1)


def test_edit_takes_what_is_reset_back_to_its_default(run, create):
    create("daily", "--until", "2026-07-01T00:00Z", "--skip-weekends", "--jitter", "60s", "--condition", CLOSED)

    options = ("--reset", "until", "--reset", "skip", "--reset", "jitter", "--reset", "condition")
    after = run("schedules", "edit", "greet", *options, "--json").json

    assert (after["until"], after["skip"], after["jitter_seconds"], after["condition"]) == (None, None, 0.0, None)


def test_edit_renames_and_rolls(run, create):
    create("PT10M")

    run("schedules", "edit", "greet", "--name", "salute", "--rolling")

    after = run("schedules", "show", "salute", "--json").json
    assert after["recurrence_type"] == "rolling"


@pytest.mark.parametrize(
    ("options", "code", "expected"),
    [
        ([], 2, "nothing to change"),
        (["--jitter", "5s", "--reset", "jitter"], 2, "--jitter and --reset jitter exclude each other"),
        (["--in", "5m", "--reset", "at"], 2, "--at and --reset at exclude each other"),
        (["--reset", "rule"], 2, "'rule' is not one of"),
        (["--rule", "0 25 * * *"], 1, "25"),
        (["--payload", '{"name": 3}'], 1, 'payload of "greeting:say": name'),
        (["--until", "2026-03-04T13:00Z"], 1, "names no occurrence after 2026-03-04"),
    ],
)
def test_an_edit_that_cannot_be_changes_nothing(run, create, options, code, expected):
    before = create()

    ran = run("schedules", "edit", "greet", *options, "--json")

    assert (ran.exit_code, ran.stdout) == (code, "")
    assert expected in ran.stderr
    assert run("schedules", "list", "--json").json["schedules"] == [before]


# -- operate -----------------------------------------------------------------------------------------------------------


def test_pause_and_resume_tell_what_happens_next_and_pile_nothing_up(run, create, connection):
    create()

    paused = run("schedules", "pause", "greet", "--note", "the printer is away")
    set_clock(connection, NOW + 10 * DAY + timedelta(hours=1))
    resumed = run("schedules", "resume", "greet")

    assert paused.stdout == "greet plans no more; it is paused: the printer is away\n"
    assert resumed.stdout == "greet goes on; next at 2026-03-15 12:00:00+00:00\n"
    assert connection.execute("select count(*) from scheduled_actions").fetchone() == (1,)
    shown = run("schedules", "show", "greet", "--json").json
    assert (shown["status"], shown["status_by"]) == ("active", BY)


def test_run_adds_one_beside_the_planned_one(run, create, connection):
    made = create()

    ran = run("schedules", "run", "greet", "--json")

    found = row(connection, ran.json["id"])
    assert (found["occurrence_at"], found["schedule_id"], found["created_by"]) == (None, made["id"], BY)
    assert at(found["scheduled_at"]) == NOW
    assert run("schedules", "run", "greet").stdout.endswith(" is due now\n")


def test_backfill_in_a_zone_that_is_unknown_here_is_refused(run, create, connection):
    create("0 9 * * *")
    connection.execute("update scheduled_action_schedules set timezone = 'Europe/Nowhere'")

    refused = run("schedules", "backfill", "greet", "--from", "2026-03-01T09:00", "--to", "2026-03-03T09:00")

    assert refused.exit_code == 1
    assert "timezone: 'Europe/Nowhere' is not an IANA time zone" in refused.stderr


def test_backfill_creates_what_is_missing_once(run, create):
    create("0 9 * * *", "--timezone", "Europe/Berlin")
    wanted = ("schedules", "backfill", "greet", "--from", "2026-03-01T09:00", "--to", "2026-03-03T09:00")

    first = run(*wanted, "--json").json["ids"]
    second = run(*wanted)

    assert len(first) == 3
    assert second.stdout == "nothing was missing\n"


def test_skip_leaves_one_out_and_plans_the_next(run, create, connection):
    made = create()

    ran = run("schedules", "skip", "greet", "--reason", "a holiday")

    assert ran.stdout == "greet leaves one out; next at 2026-03-06 12:00:00+00:00\n"
    found = row(connection, made["next_action_id"])
    assert (found["status"], found["error_message"]) == ("skipped", "a holiday")


def test_what_has_nothing_planned_cannot_be_skipped(run, create):
    create()
    run("schedules", "pause", "greet")

    ran = run("schedules", "skip", "greet")

    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "has no occurrence that waits" in ran.stderr


def test_delete_asks_first_and_takes_the_planned_occurrence_with_it(run, create, connection):
    made = create()

    kept = run("schedules", "delete", "greet", stdin="n\n")
    gone = run("schedules", "delete", "greet", stdin="y\n")

    assert (kept.exit_code, kept.stdout) == (1, "")
    assert "Delete greet (greeting:say)?" in kept.stderr
    assert (gone.exit_code, gone.stdout) == (0, "greet is gone\n")
    assert connection.execute(
        "select count(*) from scheduled_actions where schedule_id = %s", [made["id"]]
    ).fetchone() == (0,)


def test_delete_does_not_ask_where_it_was_told_yes(run, create):
    made = create()

    assert run("schedules", "delete", "greet", "--yes", "--json").json == {"deleted": made["id"]}
    assert run("schedules", "list", "--json").json["schedules"] == []


@pytest.mark.parametrize("command", ["show", "pause", "resume", "run", "skip", "edit", "delete", "backfill"])
def test_an_unknown_schedule_is_refused_by_name(run, command):
    options = {
        "edit": ["--rule", "daily"],
        "delete": ["--yes"],
        "backfill": ["--from", "2026-03-01T00:00Z", "--to", "2026-03-02T00:00Z"],
    }
    ran = run("schedules", command, NOBODY, *options.get(command, []))

    assert (ran.exit_code, ran.stdout, ran.stderr) == (1, "", f"error: no schedule has the id or name {NOBODY}\n")


# -- in step with the code ---------------------------------------------------------------------------------------------


def test_sync_makes_what_the_code_declares_and_follows_it(run, declare):
    listed = partial(run, "schedules", "list", "--json")
    declare("daily")
    first = run("schedules", "sync", "--json")
    made = listed().json["schedules"]
    declare("0 9 * * *")
    run("schedules", "sync")
    changed = listed().json["schedules"]
    declare(None)
    dropped = run("schedules", "sync", "--json")

    assert first.exit_code == 0
    assert [(one["name"], one["recurrence"], one["is_declared"]) for one in made] == [("report:build", "daily", True)]
    assert [(one["id"], one["recurrence"]) for one in changed] == [(made[0]["id"], "0 9 * * *")]
    assert dropped.json["paused"] == ["report:build"]
    assert listed().json["schedules"][0]["status"] == "paused"


def test_sync_prints_nothing_of_what_handlers_print_and_exits_1_where_one_was_refused(run, declare, project):
    declare("daily")
    # The build lets it pass: its payload is checked when the schedule is made.
    (project / "handlers" / "greeting.py").write_text(
        (project / "handlers" / "greeting.py").read_text(encoding="utf-8").replace(
            "max_attempts=2", 'max_attempts=2, recurrence="daily"'
        ),
        encoding="utf-8",
    )  # fmt: skip
    registry_build.write(project)

    ran = run("schedules", "sync", "--json")

    assert ran.exit_code == 1
    answered = json.loads(ran.stdout)
    assert len(answered["refused"]) == 1
    assert "greeting:say" in ran.stderr
    assert [one["name"] for one in run("schedules", "list", "--json").json["schedules"]] == ["report:build"]


def test_a_change_by_hand_of_what_the_code_declares_is_warned_about(run, declare):
    declare("daily")
    run("schedules", "sync")

    ran = run("schedules", "edit", "report:build", "--priority", "3", "--json")

    assert ran.exit_code == 0
    assert ran.stderr.startswith("warning: the code declares report:build")


# -- everywhere --------------------------------------------------------------------------------------------------------

SUBCOMMANDS = ["list", "show", "create", "edit", "pause", "resume", "run", "backfill", "skip", "delete", "sync"]


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_every_command_explains_itself_and_answers_in_json(run_anywhere, name):
    told = run_anywhere("schedules", name, "--help")

    assert told.exit_code == 0
    assert "--json" in told.stdout


def test_without_a_registry_schedules_can_be_seen_and_stopped(run, create, project):
    create()
    (project / "handlers" / "_registry.py").unlink()

    assert run("schedules", "list").exit_code == run("schedules", "show", "greet").exit_code == 0
    assert run("schedules", "pause", "greet").exit_code == 0
    ran = run("schedules", "resume", "greet")

    assert ran.exit_code == 1
    assert "registry build" in ran.stderr
