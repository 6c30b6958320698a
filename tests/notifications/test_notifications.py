"""Notify people by role or address, outside quiet hours, in digests, through the first working channel."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import pytest

from scheduled_actions import Person, action, notify, resolve_recipients, schedule_action
from scheduled_actions.core.errors import InvalidArgument, PayloadInvalid
from scheduled_actions.notifications.rules.reminder import Reminder
from tests.factories import database_now, move_clock, set_clock
from tests.mail_server import Mailbox
from tests.notifications.notice_project import a_receiver, mails, notice_project, text_of

MORNING = datetime(2026, 3, 4, 9, 0, tzinfo=UTC)
NIGHT = datetime(2026, 3, 4, 22, 0, tzinfo=UTC)
PEOPLE = {}


@resolve_recipients("role")
def role(name, team_id):
    return PEOPLE.get(f"{team_id}/{name}" if team_id else name, [])


@action("test:remind")
def remind(payload: dict, context) -> None:
    from scheduled_actions import runtime

    now = MORNING
    reminder = Reminder(name=payload["name"], now=now, due_at=now + timedelta(days=payload["days"]))
    notifications = runtime.current().notifications
    notifications.remind(
        payload["to"], reminder, schedule=context.schedule, severity=notifications.severity(reminder.distance),
        guard=payload.get("guard"), team_id=context.action.team_id,
    )  # fmt: skip


@pytest.fixture
def mailbox():
    return Mailbox()


@pytest.fixture
def a_project(tmp_path, database_url, mailbox):
    PEOPLE.clear()
    with ExitStack() as projects:

        def make(toml="", **environ):
            return projects.enter_context(
                notice_project(tmp_path, database_url, mailbox, role, remind, toml=toml, **environ)
            )

        yield make


@pytest.fixture
def project(a_project):
    return a_project()


def found(project, scheduled):
    return [project.scheduler.get_action(one.id) for one in scheduled]


# -- email


def test_a_person_is_notified_by_mail_and_the_result_contains_the_receipt(project, mailbox):
    [scheduled] = notify("Ann <ann@example.org>", "The contract is signed.\nWell done.", severity="urgent")
    assert project.processor.tick().succeeded == 1

    [mail] = mails(mailbox)
    assert (mail["To"], mail["Subject"], mail["Importance"]) == (
        "Ann <ann@example.org>",
        "The contract is signed.",
        "high",
    )
    assert text_of(mail) == "The contract is signed.\nWell done.\n"
    [done] = found(project, [scheduled])
    assert done.result["sent"] == {
        "channel": "email", "address": "a…@example.org", "message_id": f"<{done.id}@localhost>",
        "at": done.result["sent"]["at"], "to": None,
    }  # fmt: skip
    assert done.result["notices"] == [{"subject": "The contract is signed."}]
    assert (done.result["tried"], done.result["left_out"]) == ([], [])


def test_html_is_sent_as_an_alternative_to_the_text(project, mailbox):
    notify("ann@example.org", "Hello", subject="Hi", html="<p>Hello</p>")
    project.processor.tick()

    [mail] = mails(mailbox)
    assert mail.get_body(("html",)).get_content().strip() == "<p>Hello</p>"


# -- recipients


def test_a_role_resolves_to_all_people_of_its_resolver(project, mailbox):
    PEOPLE["cfo"] = [Person(channels="ann@example.org", id="u1", name="Ann"), {"email": "bob@example.org", "id": "u2"}]

    scheduled = notify(["role:cfo", "ann@example.org", "carl@example.org"], "Hello", target={"type": "t", "id": "1"})
    project.processor.tick()

    # Ann is a recipient twice: as a person with an id, and as an address without one.
    assert sorted(mail["To"] for mail in mails(mailbox)) == [
        "ann@example.org", "ann@example.org", "bob@example.org", "carl@example.org",
    ]  # fmt: skip
    actions = found(project, scheduled)
    assert [(one.user_id, one.payload["to"], one.target_id) for one in actions[:2]] == [
        ("u1", "role:cfo", "1"), ("u2", "role:cfo", "1"),
    ]  # fmt: skip


def test_a_resolver_is_called_with_the_team(project, mailbox):
    PEOPLE["blue/cfo"] = ["blue@example.org"]
    PEOPLE["cfo"] = ["unused@example.org"]

    notify("role:cfo", "Hello", team_id="blue")
    project.processor.tick()

    assert [mail["To"] for mail in mails(mailbox)] == ["blue@example.org"]


def test_deputies_are_resolved_again_when_a_notification_is_sent(project, mailbox, connection):
    now = database_now(connection)
    ann = {"email": "ann@example.org", "id": "u1", "deputy": "bob@example.org"}
    PEOPLE["cfo"] = [ann]
    notify("role:cfo", "Hello")
    PEOPLE["cfo"] = [{**ann, "away_until": now + timedelta(days=1)}]

    project.processor.tick()

    assert [mail["To"] for mail in mails(mailbox)] == ["bob@example.org"]


def test_an_absent_inline_person_is_replaced_by_their_deputy(project, mailbox, connection):
    later = (database_now(connection) + timedelta(days=1)).isoformat()
    notify({"email": "ann@example.org", "away_until": later, "deputy": {"email": "bob@example.org"}}, "Hello")
    project.processor.tick()

    assert [mail["To"] for mail in mails(mailbox)] == ["bob@example.org"]


@pytest.mark.parametrize(
    ("recipients", "expected"),
    [
        (
            "role:missing",
            "recipients: 'role:missing' is not a known recipient: the resolver \"role\" returned no people",
        ),
        ("rol:cfo", 'recipients has no resolver for "rol:cfo": did you mean "role:cfo"? Otherwise, register one'),
        (
            ["ann@example.org", "ann"],
            'recipients[1] is "ann", which is neither an address nor a channel of [notifications.channels]',
        ),
        ("ann@", 'recipients is "a…@", which is not a single email address'),
        ("slack://tokenA/tokenB", 'recipients is "slack://…", which must not be stored with an action'),
        ([], "recipients has 0 entries; 1 to 1,000 are allowed"),
        ({"name": "Ann"}, "recipients.channels is missing"),
    ],
)
def test_an_invalid_recipient_is_rejected_and_nothing_is_scheduled(project, connection, recipients, expected):
    with pytest.raises(InvalidArgument) as caught:
        notify(recipients, "Hello")

    assert str(caught.value).startswith(expected)
    assert "token" not in str(caught.value)
    assert connection.execute("select count(*) from scheduled_actions").fetchone() == (0,)


def test_a_tenants_webhook_must_be_on_the_public_internet(project):
    with pytest.raises(InvalidArgument, match="https"):
        notify("http://127.0.0.1/hook", "Hello", team_id="blue")


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({"to": "ann@example.org", "subject": "Hi"}, "notice.text: Field required"),
        ({"to": {"name": "Ann"}, "subject": "Hi", "text": ""}, "notice.to: channels is missing"),
        *[
            ({"to": to, "subject": "Hi", "text": "x"}, "notice.to: must not be stored with an action")
            for to in (
                "json://10.0.0.1/secret-token",
                {"channels": ["ann@example.org", "json://10.0.0.1/secret-token"]},
                {"channels": "ann@example.org", "deputy": {"channels": ["json://10.0.0.1/secret-token"]}},
                {"channels": "ann@example.org", "deputy": "json://10.0.0.1/secret-token"},
            )
        ],
        ({"to": "x", "subject": "", "text": ""}, "notice.subject: String should have at least 1 character"),
    ],
)
def test_a_notification_payload_is_validated(project, payload, expected):
    with pytest.raises(PayloadInvalid) as caught:
        schedule_action("notification:send", payload)

    assert expected in str(caught.value)
    assert "secret-token" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"text": ""}, "text"), ({"text": 7}, "text"), ({"subject": " \n"}, "subject"),
        ({"severity": "loud"}, "severity"), ({"html": 7}, "html"),
        ({"scheduled_at": datetime(2026, 1, 1)}, "scheduled_at"),  # noqa: DTZ001
    ],
)  # fmt: skip
def test_an_invalid_argument_of_notify_is_rejected_by_name(project, arguments, expected):
    with pytest.raises(InvalidArgument) as caught:
        notify("ann@example.org", **{"text": "Hello", **arguments})

    assert caught.value.name == expected


# -- quiet hours and delays


QUIET = '[notifications]\ntimezone = "Europe/Berlin"\nquiet_hours = "20:00-08:00"\n'


def test_a_notification_waits_for_the_end_of_quiet_hours(a_project, mailbox, connection):
    project = a_project(QUIET)
    set_clock(connection, NIGHT)
    tokyo = {"email": "tokyo@example.org", "timezone": "Asia/Tokyo"}  # The local time is 07:00.
    never = {"email": "never@example.org", "quiet_hours": ""}

    scheduled = notify(["berlin@example.org", tokyo, never], "Hello")
    project.processor.tick()

    assert [mail["To"] for mail in mails(mailbox)] == ["never@example.org"]
    assert [one.scheduled_at for one in found(project, scheduled)] == [
        datetime(2026, 3, 5, 7, tzinfo=UTC), datetime(2026, 3, 4, 23, tzinfo=UTC), NIGHT,
    ]  # fmt: skip


def test_an_urgent_notification_ignores_quiet_hours_by_default(a_project, mailbox, connection):
    set_clock(connection, NIGHT)
    a_project(QUIET).notifications  # noqa: B018 - created with the first settings
    urgent = notify("ann@example.org", "Fire", severity="urgent")
    project = a_project(f"{QUIET}urgent_passes_quiet_hours = false\n")
    waiting = notify("ann@example.org", "Fire", severity="urgent")

    assert [one.scheduled_at for one in found(project, urgent + waiting)] == [
        NIGHT,
        datetime(2026, 3, 5, 7, tzinfo=UTC),
    ]


def test_quiet_hours_that_began_after_planning_defer_a_notification_without_an_attempt(a_project, mailbox, connection):
    project = a_project(QUIET)
    set_clock(connection, MORNING)
    scheduled = notify("ann@example.org", "Hello")
    set_clock(connection, NIGHT)

    assert project.processor.tick().snoozed == 1

    [waiting] = found(project, scheduled)
    assert (waiting.scheduled_at, waiting.attempts, mails(mailbox)) == (datetime(2026, 3, 5, 7, tzinfo=UTC), 0, [])


def test_a_notification_can_be_scheduled_for_later(project, mailbox, connection):
    now = database_now(connection)
    [one, other] = notify("ann@example.org", "A", scheduled_at=timedelta(hours=1)) + notify(
        "ann@example.org", "B", scheduled_at=now + timedelta(hours=2)
    )

    waiting = found(project, [one, other])
    assert abs(waiting[0].scheduled_at - now - timedelta(hours=1)) < timedelta(minutes=1)
    assert waiting[1].scheduled_at == now + timedelta(hours=2)


def test_remind_returns_the_notified_and_the_absent_people(project, connection):
    now = database_now(connection)
    PEOPLE["cfo"] = [
        {"email": "ann@example.org", "id": "ann", "away_until": now + timedelta(days=1), "deputy": "role:deputy"},
        {"email": "bob@example.org", "id": "bob"},
    ]
    PEOPLE["deputy"] = [{"email": "carl@example.org", "id": "carl"}]
    scheduled = []

    notified, away = project.notifications.remind(
        ["role:cfo"], Reminder(name="x", now=now, due_at=now), severity="low",
        schedule=lambda action_type, payload, **options: scheduled.append(payload),
    )  # fmt: skip

    assert ([one.id for one in notified], [one.id for one in away]) == (["carl", "bob"], ["ann"])
    assert {one["severity"] for one in scheduled} == {"low"}


# -- digests


def test_simultaneous_reminders_to_one_person_become_one_mail(project, mailbox, connection):
    PEOPLE["cfo"] = [{"email": "ann@example.org", "name": "Ann", "id": "u1"}]
    for number in range(20):
        schedule_action("test:remind", {"name": f"License {number}", "days": number % 10 + 0.5, "to": "role:cfo"})
    schedule_action("test:remind", {"name": "Other", "days": 5, "to": "bob@example.org"})
    assert project.processor.tick().succeeded == 21
    move_clock(connection, timedelta(minutes=1))

    assert project.processor.tick().succeeded == 2

    digest, single = sorted(mails(mailbox), key=lambda mail: mail["To"])
    assert digest["Subject"] == "20 notifications, 2 of them urgent"
    words = text_of(digest)
    assert words.startswith("Hello Ann,\n\nYou have 20 notifications:\n\n1. Urgent: License 0 is due in 12 hours\n")
    assert all(f"License {number} " in words for number in range(20))
    assert single["Subject"] == "Due soon: Other in 5 days"


def test_reminders_of_two_teams_are_never_combined(project, mailbox, connection):
    for team_id in ("blue", "red"):
        schedule_action("test:remind", {"name": team_id, "days": 5, "to": "ann@example.org"}, team_id=team_id)
    project.processor.tick()
    move_clock(connection, timedelta(minutes=1))
    project.processor.tick()

    assert sorted(mail["Subject"] for mail in mails(mailbox)) == ["Due soon: blue in 5 days", "Due soon: red in 5 days"]


def test_notifications_in_quiet_hours_become_a_digest_without_the_urgent_ones(a_project, mailbox, connection):
    project = a_project(QUIET)
    set_clock(connection, NIGHT)
    for text in ("one", "two"):
        notify("ann@example.org", text, digest=True)
    notify("ann@example.org", "fire", digest=True, severity="urgent")
    set_clock(connection, NIGHT + timedelta(minutes=1))
    project.processor.tick()
    set_clock(connection, NIGHT + timedelta(hours=9))
    project.processor.tick()

    assert [mail["Subject"] for mail in mails(mailbox)] == ["fire", "2 notifications"]


def test_digests_can_be_disabled(a_project, mailbox):
    project = a_project("[notifications]\ndigest_seconds = 0\n")
    for text in ("one", "two"):
        notify("ann@example.org", text, digest=True)
    project.processor.tick()

    assert sorted(mail["Subject"] for mail in mails(mailbox)) == ["one", "two"]


# -- guards


def test_a_notification_with_an_invalid_guard_is_left_out(project, mailbox, connection):
    gone, planned_again = [], []
    project.sender.valid_guards = lambda _, guards, team_id: [guard["stage"] not in gone for guard in guards]
    project.sender.plan_again = lambda _, guard, team_id: planned_again.append(guard["stage"])
    for stage in ("first", "second", "third"):
        guard = {"deadline_id": "d", "stage": stage}
        schedule_action("test:remind", {"name": stage, "days": 5, "to": "ann@example.org", "guard": guard})
    project.processor.tick()
    gone += ["first", "third"]
    move_clock(connection, timedelta(minutes=1))
    project.processor.tick()

    [mail] = mails(mailbox)
    assert mail["Subject"] == "Due soon: second in 5 days"
    [sent] = project.scheduler.list_actions(action_type="notification:send")
    assert [one["guard"]["stage"] for one in sent.result["left_out"]] == ["first", "third"] == planned_again


def test_an_action_with_only_invalid_guards_is_skipped(project, mailbox, connection):
    project.sender.valid_guards = lambda _, guards, team_id: [False for _ in guards]
    project.sender.plan_again = None
    guard = {"deadline_id": "d", "stage": "first"}
    schedule_action("test:remind", {"name": "x", "days": 5, "to": "ann@example.org", "guard": guard})
    project.processor.tick()
    move_clock(connection, timedelta(minutes=1))

    assert project.processor.tick().skipped == 1
    [skipped] = project.scheduler.list_actions(status="skipped")
    assert skipped.error_message == "its deadline does not exist, was changed, or is closed, paused or acknowledged"
    assert mails(mailbox) == []


# -- channels


def tick_later(project, connection, minutes):
    move_clock(connection, timedelta(minutes=minutes))
    return project.processor.tick()


def test_the_next_channel_is_used_immediately_after_a_permanent_failure(project, mailbox):
    mailbox.replies["ann@example.org"] = "550 5.1.1 no such user"
    with a_receiver() as (place, posts):
        [scheduled] = notify({"channels": ["ann@example.org", f"http://{place}/secret"], "name": "Ann"}, "Hello")
        assert project.processor.tick().succeeded == 1

    [done] = found(project, [scheduled])
    assert posts == [{"subject": "Hello", "text": "Hello", "severity": None, "id": str(done.id)}]
    assert done.result["sent"]["address"] == "http://127.0.0.1/…" or done.result["sent"]["address"].endswith("/…")
    [tried] = done.result["tried"]
    assert (tried["channel"], tried["address"]) == ("email", "a…@example.org")
    assert "no such user" in tried["problem"]
    assert "secret" not in str(done.result)


def test_a_temporarily_failing_channel_is_tried_three_times(project, mailbox, connection):
    mailbox.replies["ann@example.org"] = "451 4.7.1 greylisted"
    [scheduled] = notify({"channels": ["ann@example.org", "bob@example.org"]}, "Hello")

    assert project.processor.tick().snoozed == 1
    assert tick_later(project, connection, 2).snoozed == 1
    assert tick_later(project, connection, 8).succeeded == 1

    [mail] = mails(mailbox)
    assert mail["To"] == "bob@example.org"
    [done] = found(project, [scheduled])
    assert [one["address"] for one in done.result["tried"]] == ["a…@example.org"] * 3


def test_the_last_channel_is_retried_like_any_action(project, mailbox, connection):
    mailbox.replies["ann@example.org"] = "451 4.7.1 greylisted"
    [scheduled] = notify("ann@example.org", "Hello")

    assert project.processor.tick().retried == 1
    [waiting] = found(project, [scheduled])
    assert waiting.error_message.startswith("NoChannelYet: every channel failed: email a…@example.org failed: the mail")
    mailbox.replies.clear()
    assert tick_later(project, connection, 10).succeeded == 1


def test_a_notification_that_every_channel_refuses_fails(project, mailbox):
    mailbox.replies["ann@example.org"] = "550 5.1.1 no such user"
    [scheduled] = notify("ann@example.org", "Hello")

    assert project.processor.tick().failed == 1
    [failed] = found(project, [scheduled])
    assert "no such user" in failed.error_message
    assert "ann@" not in failed.error_message


@pytest.mark.parametrize(
    ("status", "outcome"), [(204, "succeeded"), (404, "failed"), (503, "retried"), (429, "retried")]
)
def test_the_status_of_a_webhook_decides_about_retries(project, status, outcome):
    with a_receiver(status) as (place, _):
        notify(f"http://{place}/", "Hello")

        assert getattr(project.processor.tick(), outcome) == 1


CHANNELS = """
[notifications.channels]
ops = "OPS_URL"
mail = "MAIL_URL"
missing = "MISSING_URL"
odd = "ODD_URL"
nested = "NESTED_URL"
"""


def test_a_channel_of_the_settings_is_an_apprise_url_in_the_environment(a_project, connection, caplog):
    caplog.set_level(logging.DEBUG)
    with a_receiver() as (place, posts):
        project = a_project(CHANNELS, OPS_URL=f"json://user:secret-token@{place}/path")
        [scheduled] = notify("ops", "Hello there", subject="Hi", severity="high")
        assert project.processor.tick().succeeded == 1

    [post] = posts
    assert (post["title"], post["message"], post["type"]) == ("Hi", "Hello there", "warning")
    [done] = found(project, [scheduled])
    assert (done.result["sent"]["channel"], done.result["sent"]["address"]) == ("named", "ops")
    row = connection.execute("select a::text from scheduled_actions a").fetchone()
    assert "secret-token" not in str(row) + caplog.text


def test_logs_of_apprise_contain_no_address(a_project, caplog):
    """The HTTP client of apprise logs the path of each post at DEBUG; for many services, the path is a secret."""
    caplog.set_level(logging.DEBUG)
    with a_receiver() as (place, posts):
        project = a_project(CHANNELS, OPS_URL=f"json://{place}/secret-token")
        notify("ops", "Hello")
        assert project.processor.tick().succeeded == 1
    logging.getLogger("urllib3.connectionpool").debug("of the application itself")

    assert len(posts) == 1
    assert "secret-token" not in caplog.text
    assert "of the application itself" in caplog.text


def test_a_failing_apprise_service_is_retried_without_showing_its_url(a_project, caplog):
    caplog.set_level(logging.DEBUG)
    with a_receiver(500) as (place, _):
        project = a_project(CHANNELS, OPS_URL=f"json://user:secret-token@{place}/path")
        [scheduled] = notify("ops", "Hello")
        assert project.processor.tick().retried == 1

    [waiting] = found(project, [scheduled])
    assert waiting.error_message == "NoChannelYet: every channel failed: named ops did not accept the message"
    assert "secret-token" not in caplog.text


def test_apprise_urls_of_a_resolver_are_not_stored(project, connection):
    with a_receiver() as (place, posts):
        PEOPLE["ops"] = [Person(channels=f"json://user:secret-token@{place}/path", id="ops")]
        notify("role:ops", "Hello")
        assert project.processor.tick().succeeded == 1

    assert len(posts) == 1
    assert "secret-token" not in str(connection.execute("select a::text from scheduled_actions a").fetchone())


@pytest.mark.parametrize(
    ("name", "outcome", "message"),
    [
        ("missing", "retried", "MISSING_URL is not configured"),
        ("nested", "retried", "NESTED_URL is invalid: set it to an apprise URL"),
        ("odd", "failed", "is not a valid apprise URL"),
    ],
)
def test_an_unusable_channel_of_the_settings_fails_with_the_reason(a_project, name, outcome, message):
    project = a_project(CHANNELS, ODD_URL="nosuch://secret-token", NESTED_URL="ops")
    [scheduled] = notify(name, "Hello")

    assert getattr(project.processor.tick(), outcome) == 1
    [ended] = found(project, [scheduled])
    assert message in ended.error_message
    assert "secret" not in ended.error_message


def test_a_channel_of_the_settings_can_be_a_mail_address(a_project, mailbox):
    project = a_project(CHANNELS, MAIL_URL="ops@example.org")
    notify("mail", "Hello")
    project.processor.tick()

    assert [mail["To"] for mail in mails(mailbox)] == ["ops@example.org"]
