"""When an endpoint has failed for so long that it is disabled, and when its owner is warned before."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from datetime import datetime

#: Two failures so far apart, with no success between them, start the clock: a bad hour starts nothing.
APART = timedelta(hours=12)
#: Nothing but failures for so long after that disables.
DISABLED_AFTER = timedelta(days=5)
#: A warning when the clock starts, and each time so much later.
WARNED_EVERY = timedelta(days=1)

#: Why a delivery is put off for its endpoint's sake, and what that means.
PUT_OFF_BECAUSE = {
    "hung": "one took five seconds or more",
    "slow": "one takes far longer than usual",
    "full": "as many as may be are in flight",
    "team": "others of its team do not answer",
    "rate_limit": "the rate limit is reached",
}

Verdict: TypeAlias = Literal["none", "warn", "disable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What is known of an endpoint's failures since its last success; instants are aware."""

    failing_since: datetime | None = None
    last_failure_at: datetime | None = None
    clock_started_at: datetime | None = None
    warned_at: datetime | None = None


def after_failure(health: Health, now: datetime) -> tuple[Health, Verdict]:
    """Return what is known after a failure at `now`, and what follows from it."""
    failed = replace(health, failing_since=health.failing_since or now, last_failure_at=now)
    assert failed.failing_since is not None  # noqa: S101 - set above
    if failed.clock_started_at is None and now - failed.failing_since >= APART:
        failed = replace(failed, clock_started_at=now)
    if failed.clock_started_at is None:
        return failed, "none"
    if now - failed.clock_started_at >= DISABLED_AFTER:
        return failed, "disable"
    if failed.warned_at is None or now - failed.warned_at >= WARNED_EVERY:
        return replace(failed, warned_at=now), "warn"
    return failed, "none"


def disabled_by(failed: Health) -> datetime | None:
    """Return the instant from which a further failure disables; None while the clock has not started."""
    return None if failed.clock_started_at is None else failed.clock_started_at + DISABLED_AFTER
