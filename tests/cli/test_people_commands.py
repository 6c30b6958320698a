"""`people notify` and `people schedule`."""

from __future__ import annotations

from pathlib import Path

from tests.factories import NOW, set_clock

NOTIFICATION = Path(__file__).parents[2] / "handlers" / "notification.py"


def test_notify_schedules_a_notification_for_each_recipient(run, project):
    (project / "handlers" / "notification.py").write_text(NOTIFICATION.read_text())
    run("registry", "build")

    urgent = run(
        "people", "notify", "ann@example.org", "bob@example.org", "--text", "Hello", "--severity", "urgent", "--json"
    )
    plain = run("people", "notify", "ann@example.org", "--text", "Hello")
    rejected = run("people", "notify", "ann", "--text", "Hello")

    assert len(urgent.json["action_ids"]) == 2
    shown = run("actions", "show", urgent.json["action_ids"][1], "--json").json
    assert (shown["payload"]["to"], shown["payload"]["severity"]) == ("bob@example.org", "urgent")
    assert len(plain.stdout.split()) == 1
    assert (rejected.exit_code, 'recipients is "ann"' in rejected.stderr) == (1, True)


def test_schedule_uses_the_local_time_of_each_user(run, connection):
    set_clock(connection, NOW)
    given = ("greeting:say", "09:00", "--user", "ann=Europe/Berlin", "--user", "ned", "--payload", '{"name": "x"}')

    single = run("people", "schedule", *given)
    daily = run("people", "schedule", *given, "--rule", "daily", "--name", "greeting", "--json")

    assert [line.split()[:3] for line in single.stdout.splitlines()[1:]] == [
        ["ann", "2026-03-05", "09:00+01:00"], ["ned", "2026-03-05", "09:00+00:00"],
    ]  # fmt: skip
    assert [schedule["timezone"] for schedule in daily.json["scheduled"]] == ["Europe/Berlin", "UTC"]
    assert run("schedules", "show", "greeting:ann", "--json").json["recurrence"] == "daily at 09:00"


def test_an_invalid_local_time_is_rejected(run):
    rejected = run("people", "schedule", "greeting:say", "nine", "--user", "ann")

    assert (rejected.exit_code, "local_time: 'nine'" in rejected.stderr) == (1, True)
