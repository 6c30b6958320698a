"""Fixtures: the examples as a project, on a clock that begins on a Monday at midnight."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import examples
from handlers import billing, deadline, email, exchange_rates, for_each, notification, webhook

MONDAY = datetime(2026, 3, 2, tzinfo=UTC)


@pytest.fixture
def scheduled_actions_database_url(database_url):
    return database_url


@pytest.fixture
def scheduled_actions_project():
    return Path(examples.__file__).parent


@pytest.fixture
def own_handlers():
    """Return the handlers that a test needs besides those of a new project; tests override it with `handlers(…)`."""
    return []


def handlers(*functions):
    """Mark a test as one that needs these handlers."""
    return pytest.mark.parametrize("own_handlers", [functions], ids=[""])


@pytest.fixture
def scheduled_actions_handlers(own_handlers):
    return [
        billing.check_renewals,
        deadline.send_reminder,
        deadline.send_escalation,
        deadline.mark_missed,
        deadline.create_next,
        email.send_email,
        exchange_rates.fetch_rates,
        for_each.run,
        notification.send,
        webhook.send,
        *own_handlers,
    ]


@pytest.fixture(autouse=True)
def clock(scheduled_actions_clock):
    scheduled_actions_clock.set(MONDAY)
    return scheduled_actions_clock


@pytest.fixture
def mails_until(scheduled_actions_kit, clock, run_until):
    """Return a function that lets time pass until a day, and returns the mails of each day: day, recipient, subject."""

    def pass_time(end):
        sent = []
        while (day := clock.now()) < end:
            before = len(scheduled_actions_kit.mails)
            run_until(min(day + timedelta(days=1), end))
            new = scheduled_actions_kit.mails[before:]
            sent += sorted((f"{day:%d %B}", mail["To"], mail["Subject"]) for mail in new)
        return sent

    return pass_time
