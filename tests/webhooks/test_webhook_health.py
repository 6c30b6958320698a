from __future__ import annotations

from datetime import timedelta

import pytest

from scheduled_actions.webhooks.rules.health import Health, after_failure, auto_disable_at
from tests.factories import NOW


def decisions(*hours):
    """Return the decisions after failures at these numbers of hours."""
    health, found = Health(), []
    for hour in hours:
        health, decision = after_failure(health, NOW + timedelta(hours=hour))
        found.append(decision)
    return found


@pytest.mark.parametrize(
    ("hours", "expected"),
    [
        ((0,), ["none"]),
        ((0, 11.9), ["none", "none"]),
        ((0, 12), ["none", "warn"]),
        ((0, 12, 13, 35, 36), ["none", "warn", "none", "none", "warn"]),
        ((0, 12, 12 + 119), ["none", "warn", "warn"]),
        ((0, 12, 12 + 120), ["none", "warn", "disable"]),
        # A single failure does not start the clock, no matter how long ago it was.
        ((0, 24 * 10), ["none", "warn"]),
        ((0, 24 * 10, 24 * 15), ["none", "warn", "disable"]),
    ],
)
def test_a_failure_five_days_after_the_start_of_the_clock_disables_the_endpoint(hours, expected):
    assert decisions(*hours) == expected


def test_two_failures_twelve_hours_apart_start_the_clock():
    health, _ = after_failure(Health(), NOW)
    assert auto_disable_at(health.clock_started_at) is None

    health, _ = after_failure(health, NOW + timedelta(hours=14))

    assert health.failing_since == NOW
    assert health.clock_started_at == NOW + timedelta(hours=14)
    assert auto_disable_at(health.clock_started_at) == NOW + timedelta(hours=14, days=5)
