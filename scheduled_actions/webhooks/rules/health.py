"""Decide when the owner of a failing endpoint is warned, and when the endpoint is disabled."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

#: The clock starts at the first failure this long or longer after `failing_since`; a short outage does not start it.
APART = timedelta(hours=12)
#: A failure this long or longer after the start of the clock disables the endpoint.
DISABLED_AFTER = timedelta(days=5)
#: The failure that starts the clock sends a warning; later failures send at most one per interval.
WARNED_EVERY = timedelta(days=1)

#: Why deliveries are deferred, by `deferred_reason`.
DEFERRAL_REASONS = {
    "hung": "a delivery took five seconds or more",
    "slow": "a delivery takes much longer than usual",
    "full": "the maximum number of deliveries is in flight",
    "team": "other endpoints of the team do not respond",
    "rate_limit": "the rate limit is reached",
}

HealthDecision: TypeAlias = Literal["none", "warn", "disable"]


@dataclass(frozen=True, slots=True)
class Health:
    """The failures of an endpoint since its last success. Each instant is aware; None: there has been none."""

    #: The first failure.
    failing_since: datetime | None = None
    last_failure_at: datetime | None = None
    #: The failure that started the clock.
    clock_started_at: datetime | None = None
    #: The last warning.
    warned_at: datetime | None = None


def after_failure(health: Health, now: datetime) -> tuple[Health, HealthDecision]:
    """Return the health after a failure at `now`, and whether to warn the owner or disable the endpoint."""
    failing_since, started_at = health.failing_since or now, health.clock_started_at
    if started_at is None and now - failing_since >= APART:
        started_at = now
    failed = replace(health, failing_since=failing_since, last_failure_at=now, clock_started_at=started_at)
    if started_at is None:
        return failed, "none"
    if now - started_at >= DISABLED_AFTER:
        return failed, "disable"
    if failed.warned_at is None or now - failed.warned_at >= WARNED_EVERY:
        return replace(failed, warned_at=now), "warn"
    return failed, "none"


def auto_disable_at(clock_started_at: datetime | None) -> datetime | None:
    """Return the instant from which a further failure disables the endpoint; None before the clock starts."""
    return None if clock_started_at is None else clock_started_at + DISABLED_AFTER
