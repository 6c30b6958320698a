"""`notify` and `schedule-local`."""

from __future__ import annotations

from pathlib import Path

from tests.factories import NOW, set_clock

NOTIFICATION = Path(__file__).parents[2] / "handlers" / "notification.py"


def test_people_are_told_from_a_shell(run, project):
    (project / "handlers" / "notification.py").write_text(NOTIFICATION.read_text())
    run("registry", "build")

    told = run("notify", "ann@example.org", "bob@example.org", "--text", "Hello", "--severity", "urgent", "--json")
    plain = run("notify", "ann@example.org", "--text", "Hello")
    refused = run("notify", "ann", "--text", "Hello")

    assert len(told.json["action_ids"]) == 2
    shown = run("show", told.json["action_ids"][1], "--json").json
    assert (shown["payload"]["to"], shown["payload"]["severity"]) == ("bob@example.org", "urgent")
    assert len(plain.stdout.split()) == 1
    assert (refused.exit_code, "recipients: 'ann'" in refused.stderr) == (1, True)


def test_everybody_is_scheduled_at_their_own_time(run, connection):
    set_clock(connection, NOW)
    given = ("greeting:say", "09:00", "--user", "ann=Europe/Berlin", "--user", "ned", "--payload", '{"name": "x"}')

    once = run("schedule-local", *given)
    daily = run("schedule-local", *given, "--rule", "daily", "--name", "greeting", "--json")

    assert [line.split()[:3] for line in once.stdout.splitlines()[1:]] == [
        ["ann", "2026-03-05", "09:00+01:00"], ["ned", "2026-03-05", "09:00+00:00"],
    ]  # fmt: skip
    assert [one["timezone"] for one in daily.json["scheduled"]] == ["Europe/Berlin", "UTC"]
    assert run("schedules", "show", "greeting:ann", "--json").json["recurrence"] == "daily at 09:00"


def test_a_time_that_is_none_is_refused(run):
    refused = run("schedule-local", "greeting:say", "nine", "--user", "ann")

    assert (refused.exit_code, "local_time: 'nine'" in refused.stderr) == (1, True)
