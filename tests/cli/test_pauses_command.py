"""`pauses list`, `pauses create` and `pauses resume`."""

from __future__ import annotations

from datetime import UTC, datetime


def test_a_type_is_paused_and_resumed_and_its_actions_run_afterwards(run):
    run("migrate")
    for _ in range(3):
        run("schedule", "greeting:say", "--payload", '{"name": "ann"}', "--dedup-window", "0")
    created = run(
        "pauses", "create", "--action-type", "greeting:say", "--note", "too loud", "--until", "2099-12-01T12:00+01:00"
    )

    assert created.exit_code == 0, created.stderr
    assert created.stdout.startswith('paused the action type "greeting:say" until 2099-12-01')
    assert created.stdout.endswith("; 3 due actions held back\n")
    assert run("process", "--json").json["succeeded"] == 0
    (listed,) = run("pauses", "list", "--json").json["pauses"]
    assert (listed["note"], listed["parked"], listed["kind"]) == ("too loud", 3, "action_type")
    assert datetime.fromisoformat(listed["ends_at"]) == datetime(2099, 12, 1, 11, tzinfo=UTC)
    assert "too loud" in run("pauses", "list").stdout

    resumed = run("pauses", "resume", "--action-type", "greeting:say")

    assert resumed.stdout == 'resumed the action type "greeting:say"; 3 due actions returned\n'
    assert run("process", "--json").json["succeeded"] == 3
    assert "nothing is paused" in run("pauses", "list").stdout


def test_a_pause_is_resumed_by_its_id(run):
    run("migrate")
    made = run("pauses", "create", "--lock-group", "g", "--team", "red", "--for", "PT2H", "--json").json

    resumed = run("pauses", "resume", made["id"], "--json")

    assert (resumed.json["id"], resumed.json["team_id"], made["parked"]) == (made["id"], "red", 0)
    again = run("pauses", "resume", made["id"])
    assert (again.exit_code, again.stderr) == (1, f"error: no active pause has the id {made['id']}\n")


def test_mistakes_are_reported_in_one_line(run):
    run("migrate")
    run("pauses", "create", "--team", "red")

    for arguments, code, text in (
        (["create"], 2, "give --action-type, --team, --lock-group or --limit"),
        (["create", "--lock-group", "g", "--limit", "a"], 2, "--lock-group and --limit are mutually exclusive"),
        (["resume"], 2, "give the ID of a pause, or --action-type, --team, --lock-group or --limit"),
        (["create", "--action-type", "greeting:sey"], 1, 'did you mean "greeting:say"?'),
        (["create", "--lock-group", "g", "--until", "2020-01-01"], 1, "--until: 2020-01-01 23:59:59"),
        (["create", "--lock-group", "g", "--until", "2099-01-01", "--for", "1h"], 2, "mutually exclusive"),
        (
            ["create", "--limit", "api:*"],
            1,
            '--limit is the pattern "api:*"; pause each of its keys, such as "api:acme"',
        ),
        (["resume", "--team", "blue"], 1, 'no active pause of the team "blue"; paused are the team "red"'),
        (["resume", "x"], 1, "error: no active pause has the id x"),
        (["resume", "x", "--team", "red"], 2, "give either the ID of a pause, or what is paused"),
    ):
        ran = run("pauses", *arguments)
        assert (ran.exit_code, ran.stdout) == (code, ""), arguments
        assert text in ran.stderr
