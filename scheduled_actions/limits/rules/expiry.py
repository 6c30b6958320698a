"""Decide whether a claimed action has expired, and word the reason."""

from datetime import UTC, datetime

from scheduled_actions.actions.rules.settlement import Expired
from scheduled_actions.core.action import Claimed

#: What an action without attempts was waiting for, by the outcome of its last history entry.
_WAITED: dict[str | None, str] = {
    "waited": "while it waited for its condition",
    "snoozed": "while it was snoozed",
}


def expiry(claimed: Claimed, *, now: float) -> Expired | None:
    """Return the outcome of an action that has expired; None if its attempt may start.

    An action that has used attempts fails: it was not skipped.

    Args:
        claimed: An action with `expires_at`.
        now: The database's time, in epoch seconds.
    """
    expires = claimed.expires_epoch
    if expires is None or (claimed.expired_while is None and now < expires):
        return None
    return Expired(
        f"expired at {_instant(expires)} {_waited_for(claimed)}", fails=claimed.fails_on_expiry or claimed.attempts > 0
    )


def _waited_for(claimed: Claimed) -> str:
    if claimed.attempts > 0:
        failure = f"; the last attempt failed: {claimed.error_message}" if claimed.error_message else ""
        return f"before attempt {claimed.attempts + 1}{failure}"
    if claimed.expired_while == "limit":
        return f"while it was queued by its limit ({', '.join(claimed.limit_keys or ())})"
    if claimed.expired_while and claimed.expired_while.startswith("queue:"):
        return f"while no worker of its executor ({claimed.expired_while.removeprefix('queue:')}) was free"
    if claimed.expired_while:
        return "while it was paused"
    return _WAITED.get(claimed.last_outcome, "before it started")


def _instant(epoch: float) -> str:
    try:
        return datetime.fromtimestamp(epoch, UTC).isoformat().replace("+00:00", "Z")
    except (OverflowError, ValueError):  # outside the range of datetime, or infinite
        return f"{epoch:g} s after 1970"
