"""People, channels, quiet hours, severities and progress through channels."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.notifications.rules.people import (
    Person,
    QuietHours,
    as_json,
    available,
    parse_channel,
    parse_person,
)
from scheduled_actions.notifications.rules.reminder import (
    Reminder,
    in_words,
    local_time,
    most_urgent,
    one_line,
    severity,
)
from scheduled_actions.notifications.sending import DELAYS, ChannelProgress
from tests.factories import NOW

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("days", "expected"),
    [(-1, "urgent"), (0, "urgent"), (1, "urgent"), (1.01, "high"), (7, "high"), (8, "medium"), (14, "medium"),
     (14.1, "low"), (60, "low")],
)  # fmt: skip
def test_the_severity_grows_as_the_deadline_approaches(days, expected):
    steps = {"urgent": timedelta(days=1), "high": timedelta(days=7), "medium": timedelta(days=14)}

    assert severity(timedelta(days=days), steps) == expected


def test_the_thresholds_of_severities_can_be_set():
    steps = {"urgent": timedelta(hours=1), "high": timedelta(hours=2), "medium": timedelta(hours=3)}

    assert [severity(timedelta(hours=hours), steps) for hours in (1, 2, 3, 4)] == ["urgent", "high", "medium", "low"]


def test_the_most_urgent_of_several_severities_counts():
    assert most_urgent(["low", None, "high"]) == "high"
    assert most_urgent([None]) is None


# -- quiet hours


@pytest.mark.parametrize(
    ("hours", "wall", "ends"),
    [
        ("20:00-08:00", "2026-03-04T19:59", None),
        ("20:00-08:00", "2026-03-04T20:00", "2026-03-05T08:00"),
        ("20:00-08:00", "2026-03-05T00:00", "2026-03-05T08:00"),
        ("20:00-08:00", "2026-03-05T07:59", "2026-03-05T08:00"),
        ("20:00-08:00", "2026-03-05T08:00", None),
        ("12:00-13:30", "2026-03-05T12:15", "2026-03-05T13:30"),
        ("12:00-13:30", "2026-03-05T13:30", None),
        ("12:00-13:30", "2026-03-05T11:59", None),
        # The clocks skip from 02:00 to 03:00: an end within the gap moves forward by the gap.
        ("22:00-02:30", "2026-03-28T23:00", "2026-03-29T03:30"),
        ("22:00-06:00", "2026-10-24T23:00", "2026-10-25T06:00"),
    ],
)
def test_quiet_hours_end_at_their_wall_clock_time(hours, wall, ends):
    moment = datetime.fromisoformat(wall).replace(tzinfo=BERLIN)

    found = QuietHours.parse(hours).ends_after(moment, BERLIN)

    assert found == (None if ends is None else datetime.fromisoformat(ends).replace(tzinfo=BERLIN).astimezone(UTC))


def test_quiet_hours_that_end_within_a_repeated_hour_never_end_in_the_past():
    again = datetime(2026, 10, 25, 2, 15, tzinfo=BERLIN, fold=1)

    assert QuietHours.parse("22:00-02:30").ends_after(again, BERLIN) is None


@pytest.mark.parametrize("text", ["", "8", "08:00", "08:00-08:00", "20:00-25:00", "20:00 to 08:00"])
def test_quiet_hours_are_two_times_of_day(text):
    with pytest.raises(InvalidArgument, match="different times of day"):
        QuietHours.parse(text)


def test_the_text_of_quiet_hours_parses_to_the_same_hours():
    assert str(QuietHours(time(20), time(8, 30))) == "20:00-08:30"


# -- channels


@pytest.mark.parametrize(
    ("text", "kind", "masked"),
    [
        ("ann@example.org", "email", "a…@example.org"),
        ("Ann Smith <ann@example.org>", "email", "a…@example.org"),
        ("https://hooks.example.org/T123/secret?token=x", "webhook", "https://hooks.example.org/…"),
        ("https://user:pw@hooks.example.org/x", "webhook", "https://hooks.example.org/…"),
        ("slack://TokenA/TokenB/TokenC/#general", "apprise", "slack://…"),
        ("mailto://user:pw@example.org", "apprise", "mailto://…"),
        ("ops-room", "named", "ops-room"),
    ],
)
def test_a_channel_is_recognised_by_its_form_and_masked(text, kind, masked):
    channel = parse_channel(text)

    assert (channel.kind, channel.address, channel.masked) == (kind, text, masked)
    assert text not in repr(channel) or kind == "named"


@pytest.mark.parametrize(
    "text", ["", "a b", "://x", "https://", "https:///x", "x" * 3000, "ann@example.org\nBcc: x", 7]
)
def test_an_invalid_channel_is_rejected(text):
    with pytest.raises(InvalidArgument):
        parse_channel(text)


@pytest.mark.parametrize(
    "text",
    [
        "sl ack://secret-token",
        "secret token://",
        "slack:/secret-token/x",
        "hooks.example.org/secret-token",
        "secret-token\n",
        "secret" * 1000,
        ["secret-token"],
    ],
)
def test_the_error_for_an_invalid_channel_does_not_contain_the_channel(text):
    with pytest.raises(InvalidArgument) as caught:
        parse_channel(text)

    assert "secret" not in str(caught.value)
    assert str(caught.value).startswith("channel must be an email address")


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("https:/user:pw@hooks.example.org/secret", "h…@hooks.example.org"),
        ("https://user:p@ss@hooks.example.org/secret", "https://hooks.example.org/…"),
    ],
)
def test_a_masked_channel_contains_neither_a_password_nor_a_path(text, masked):
    assert parse_channel(text).masked == masked


# -- people


def test_a_person_is_read_from_json_and_written_back():
    given = {
        "id": "u1", "name": "Ann", "channels": ["ann@example.org", "ops"], "timezone": "Asia/Tokyo",
        "quiet_hours": "20:00-08:00", "away_from": "2026-03-04T00:00:00+00:00",
        "away_until": "2026-03-06T00:00:00+00:00", "deputy": {"channels": ["bob@example.org"], "name": "Bob"},
    }  # fmt: skip

    assert as_json(parse_person(given)) == given
    assert parse_person({"email": "ann@example.org"}) == parse_person("ann@example.org")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "who.channels is missing"),
        ({"channels": []}, "who.channels must be a channel, or a list of 1 to 10 channels"),
        (
            {"email": "ann@example.org", "chanels": "x"},
            'who.chanels is not a field of a person; did you mean "channels"?',
        ),
        ({"email": "ann@example.org", "timezone": "Mars/Base"}, "who.timezone: 'Mars/Base' is not an IANA time zone"),
        (
            {"email": "ann@example.org", "quiet_hours": "night"},
            "who.quiet_hours: 'night' is not a pair of different times",
        ),
        ({"email": "ann@example.org", "away_until": "2026-03-04T09:00"}, "who.away_until: "),
        ({"email": "ann@example.org", "away_until": "soon"}, "who.away_until: 'soon' is not an ISO 8601 time"),
        ({"email": "ann@example.org", "deputy": {"email": 7}}, "who.deputy.channels must be a channel"),
        ({"email": "ann@example.org", "deputy": 7}, "who.deputy must be a person"),
        ({"channels": ["ann@example.org", "ops room"]}, "who.channels[1] must be an email address"),
        (7, "who.channels is missing: a person is an address"),
    ],
)
def test_an_invalid_person_is_rejected_by_field(given, expected):
    with pytest.raises(InvalidArgument) as caught:
        parse_person(given, name="who")

    assert str(caught.value).startswith(expected)


def test_neither_a_person_nor_its_key_shows_an_address():
    person = Person(channels="slack://secret-token", name="Ann")

    assert "secret" not in repr(person)
    assert "secret" not in person.key
    assert Person(channels="slack://secret-token").key == person.key != Person(channels="slack://other").key


def away(name, deputy=None, **between):
    between = between or {"away_until": NOW + timedelta(days=1)}
    return Person(channels=f"{name}@example.org", id=name, deputy=deputy, **between)


def here(name):
    return Person(channels=f"{name}@example.org", id=name)


def deputies(person):
    return [person.deputy] if isinstance(person.deputy, Person) else []


@pytest.mark.parametrize(
    ("people", "notified"),
    [
        ([here("ann"), here("bob")], ["ann", "bob"]),
        ([away("ann"), here("bob")], ["bob"]),
        ([away("ann", here("carl")), here("bob")], ["carl", "bob"]),
        ([away("ann", away("carl", here("dora")))], ["dora"]),
        ([away("ann", here("bob")), here("bob")], ["bob"]),
        # Everyone is away: the first person is notified anyway.
        ([away("ann"), away("bob")], ["ann"]),
        ([away("ann", away("carl"))], ["ann"]),
        ([away("ann", away_from=NOW + timedelta(seconds=1))], ["ann"]),
        ([away("ann", here("bob"), away_from=NOW)], ["bob"]),
        ([away("ann", here("bob"), away_until=NOW)], ["ann"]),
    ],
)
def test_an_absent_person_is_replaced_by_their_deputy(people, notified):
    assert [person.id for person in available(people, now=NOW, deputies=deputies)] == notified


def test_a_cycle_of_deputies_ends():
    ann = away("ann", here("bob"))

    assert available([ann], now=NOW, deputies=lambda _: [ann]) == [ann]


# -- content


def test_a_reminder_shows_the_due_instant_in_the_zone_of_each_person():
    reminder = Reminder(
        name="License", due_at=datetime(2027, 1, 15, 8, tzinfo=UTC), now=datetime(2027, 1, 14, tzinfo=UTC),
        next_reminder_at=datetime(2027, 1, 14, 8, tzinfo=UTC),
    )  # fmt: skip

    values = reminder.values(ZoneInfo("Asia/Tokyo"), recipient="Ann")

    assert values["local_time"] == "Friday, 15 January 2027, 17:00 (Asia/Tokyo)"
    assert values["next_reminder"] == "Thursday, 14 January 2027, 17:00 (Asia/Tokyo)"
    assert (values["distance"], values["overdue"]) == ("32 hours", False)
    assert local_time(reminder.due_at, BERLIN) == "Friday, 15 January 2027, 09:00 (Europe/Berlin)"


@pytest.mark.parametrize(
    ("length", "words"),
    [
        (timedelta(days=60), "60 days"), (timedelta(days=2), "2 days"), (timedelta(hours=47), "47 hours"),
        (timedelta(hours=2), "2 hours"), (timedelta(minutes=119), "119 minutes"), (timedelta(minutes=1), "1 minute"),
        (timedelta(0), "less than a minute"), (timedelta(seconds=29), "less than a minute"),
    ],
)  # fmt: skip
def test_a_length_is_written_in_its_largest_unit(length, words):
    assert in_words(length) == words


def test_a_subject_cannot_contain_a_second_header():
    assert one_line("Hi\r\nBcc: eve@example.org =?utf-8?q?x?=") == "Hi Bcc: eve@example.org = ?utf-8?q?x?="
    assert len(one_line("x" * 500)) == 200


# -- progress through channels


FAILURE = {"channel": "email", "address": "a…@example.org", "problem": "failed", "at": "now"}


def test_a_channel_is_retried_after_temporary_failures_before_the_next():
    progress, steps = ChannelProgress(), []
    for _ in range(3):
        next_step, progress = progress.after(FAILURE, is_final=False, channels=2)
        steps.append((next_step, progress.channel, progress.delay))

    assert steps == [("again", 0, DELAYS[0]), ("again", 0, DELAYS[1]), ("next", 1, timedelta(0))]
    assert len(progress.tried) == 3
    assert ChannelProgress.of(progress.as_json()) == progress


def test_a_permanent_failure_is_followed_by_the_next_channel():
    assert ChannelProgress().after(FAILURE, is_final=True, channels=2)[0] == "next"


def test_the_last_channel_is_retried_by_the_policy_of_the_action():
    assert ChannelProgress(channel=1).after(FAILURE, is_final=False, channels=2) == (
        "retry",
        ChannelProgress(1, 0, (FAILURE,)),
    )
    assert ChannelProgress(channel=1).after(FAILURE, is_final=True, channels=2)[0] == "over"


@pytest.mark.parametrize("state", [None, {}, {"channel": "x"}, [1]])
def test_an_invalid_state_gives_the_initial_progress(state):
    assert ChannelProgress.of(state) == ChannelProgress()
