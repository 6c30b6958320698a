"""How soon immediate actions start, in words."""

from __future__ import annotations

import pytest

from scheduled_actions.core import config
from scheduled_actions.operations.immediacy import PingRhythm, describe, ping_rhythm

REMEDY = "Set `url` or `linger_seconds` to start them at once"
QUIET = PingRhythm(has_listener=False, is_lingering=False, interval_seconds=59.96)
URL = "https://app.example.com"


def text(rhythm=QUIET, *, can_ping=False, is_pinged=True, **settings):
    values = config.settings_of({"max_duration_seconds": 120, **settings})
    return describe(rhythm, values, can_ping=can_ping, is_pinged=is_pinged)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (
            text(),
            f"Immediate actions start within 60 seconds, with the next ping. {REMEDY}",
        ),
        (
            text(QUIET._replace(interval_seconds=None)),
            f"Immediate actions start within 60 seconds, with the next ping. {REMEDY}",
        ),
        (
            text(QUIET._replace(interval_seconds=300.2)),
            f"Immediate actions start within 300 seconds, with the next ping. {REMEDY}",
        ),
        (
            text(is_pinged=False),
            f"Immediate actions wait for the next ping. {REMEDY}",
        ),
        (text(can_ping=True), "Immediate actions start at once: `scheduled-actions dev` is running"),
        (text(can_ping=True, is_pinged=False, url=URL), "Immediate actions start at once: scheduling one pings `url`"),
        (
            text(QUIET._replace(has_listener=True), is_pinged=False),
            "Immediate actions start at once: a listener is running",
        ),
        (text(linger_seconds=65), "Immediate actions start at once: ticks wait for them (`linger_seconds`)"),
        (
            text(QUIET._replace(is_lingering=True)),
            "Immediate actions start at once: ticks wait for them (`linger_seconds`)",
        ),
        (
            text(linger_seconds=25),
            (
                "Immediate actions start within 35 seconds: in every 60 seconds, ticks wait for them for 25 "
                "(`linger_seconds`). Set `url` to start them at once"
            ),
        ),
        (
            text(enabled=False, can_ping=True),
            "Immediate actions do not start, because the setting `enabled` is false",
        ),
    ],
)
def test_the_text_follows_from_the_settings_and_from_what_starts_ticks(found, expected):
    assert found == expected


def a_tick(connection, caller, ago, *, is_running=False):
    connection.execute(
        "insert into scheduled_action_ticks (id, started_at, finished_at, lease_expires_at, caller) values"
        " (gen_random_uuid(), now() - %(ago)s::interval, case when not %(is_running)s then now() - %(ago)s::interval"
        " end, now() + interval '1 minute', %(caller)s)",
        {"ago": ago, "is_running": is_running, "caller": caller},
    )


def a_lease(connection, holder, ago):
    connection.execute(
        "insert into scheduled_action_settings (name, value, updated_at)"
        " values ('linger_lease', to_jsonb(%s::text), now() - %s::interval)",
        [holder, ago],
    )


def test_the_interval_is_that_of_crons_and_not_of_the_pings_between_them(connection):
    for minutes in range(5):
        a_tick(connection, "vercel-cron/1.0", f"{minutes} minutes")
        a_tick(connection, "scheduled-actions-wake", f"{minutes} minutes 10 seconds")
        a_tick(connection, "cli:ann", f"{minutes} minutes 20 seconds")

    assert ping_rhythm(connection).interval_seconds == pytest.approx(60, abs=5)


def test_without_ticks_nothing_is_known(connection):
    assert ping_rhythm(connection) == PingRhythm(has_listener=False, is_lingering=False, interval_seconds=None)


@pytest.mark.parametrize(("ago", "is_active"), [("1 second", True), ("6 seconds", False)])
def test_a_listener_that_renews_its_lease_is_active(connection, ago, is_active):
    a_lease(connection, "listen:1", ago)

    assert ping_rhythm(connection).has_listener is is_active


@pytest.mark.parametrize("is_running", [True, False])
def test_a_running_tick_with_the_lease_lingers(connection, is_running):
    a_tick(connection, "a-cron", "20 seconds", is_running=is_running)
    a_lease(connection, "01a2", "19 seconds")

    assert ping_rhythm(connection).is_lingering is is_running
