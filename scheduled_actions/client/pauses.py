"""Pause and resume action types, teams, lock groups and limit keys from application code."""

from datetime import date, datetime, timedelta

from scheduled_actions import runtime
from scheduled_actions.core.messages import suggests_keywords
from scheduled_actions.limits.model import Pause
from scheduled_actions.limits.pauses import Subject


@suggests_keywords
def pause(
    *,
    action_type: str | None = None,
    team_id: str | None = None,
    lock_group: str | None = None,
    limit: str | None = None,
    note: str | None = None,
    by: str | None = None,
    until: datetime | date | str | timedelta | None = None,
) -> Pause:
    """Pause actions: no tick claims them until the pause ends or is resumed; return the pause.

    Give one of `action_type`, `lock_group` and `limit`, or `team_id` alone. Actions that a tick has already claimed
    still run. A pause of the same subject keeps its id, and gets this note, author and end.

    Args:
        action_type: Pause the actions of this type.
        team_id: Pause only actions of this team; None: of all teams.
        lock_group: Pause the members of this lock group.
        limit: Pause the actions with this limit key.
        note: Why, at most 1,000 characters.
        by: Who pauses them.
        until: When the pause ends: a datetime or string with an offset, a day (its last second in UTC), or a timedelta
            from now. None: when it is resumed.

    Raises:
        RequestError: The action type or limit key is unknown, or an argument is invalid; nothing was changed.
        DatabaseUnavailable: The database cannot be reached.
    """
    subject = Subject.of(action_type=action_type, team_id=team_id, lock_group=lock_group, limit=limit)
    return runtime.current().pauses.pause(subject, note=note, by=by, until=until)


@suggests_keywords
def resume(
    *,
    action_type: str | None = None,
    team_id: str | None = None,
    lock_group: str | None = None,
    limit: str | None = None,
    by: str | None = None,
) -> Pause:
    """End the pause of a subject, given as for `pause`; return it. Its actions run in order of priority and time.

    Raises:
        UnknownPause: The subject is not paused; the message names the active pauses.
        InvalidArgument: An argument is invalid.
        DatabaseUnavailable: The database cannot be reached.
    """
    subject = Subject.of(action_type=action_type, team_id=team_id, lock_group=lock_group, limit=limit)
    return runtime.current().pauses.resume(subject, by=by)


@suggests_keywords
def list_pauses() -> list[Pause]:
    """Return the pauses that hold actions back, the oldest first, at most 1,000.

    A pause that has ended is listed until its actions have returned to the claims.
    """
    return runtime.current().pauses.find()
