"""Find deadlines; list the notifications and the timeline of a deadline."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, get_args
from uuid import UUID

from scheduled_actions.core import checks as arguments
from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.core.pages import MAX_ROWS_READ
from scheduled_actions.database.connection import Database
from scheduled_actions.database.transactions import borrowed_connection
from scheduled_actions.deadlines import store
from scheduled_actions.deadlines.model import Deadline, DeadlineStatus, Stage
from scheduled_actions.deadlines.rules import planning

#: Maximum number of receipts, and of timeline entries, shown with a deadline.
MAX_TIMELINE = 100
#: The timeline state of history entries, by their `what`.
_STATE_OF_ENTRY = {"reminded": "sent", "escalated": "sent", "held_back": "held_back", "replaced": "replaced"}


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """One occurrence of a stage in a deadline's timeline."""

    #: When the occurrence ran, will run or would have run; None if that is unknown.
    at: datetime | None
    #: The key of the stage, and the number of its occurrence.
    stage: str
    occurrence: int
    #: A `StageState`; `sent`, `held_back`, `replaced` or `done`; or another status of its action, such as `failed`.
    state: str
    #: The recipients, a reason or an error; None without one.
    note: str | None
    action_id: UUID | None


def find(
    database: Database,
    *,
    status: str | None = None,
    is_overdue: bool = False,
    team_id: str | None = None,
    user_id: str | None = None,
    target: Mapping[str, str] | None = None,
    name: str | None = None,
    series_id: UUID | None = None,
    due_from: datetime | date | str | None = None,
    due_to: datetime | date | str | None = None,
    cursor: UUID | str | None = None,
    limit: int = 100,
) -> list[Deadline]:
    """Return the deadlines that match every given filter, newest first.

    Args:
        database: Holds the tables.
        status: `open`, `missed`, `completed` or `cancelled`; None: any.
        is_overdue: Only unresolved deadlines that are not paused, and whose due instant has passed.
        team_id: Only deadlines of this team; None: of all teams.
        user_id: Only deadlines with this user as a recipient, or as the `id` of a recipient.
        target: `{"type", "id"}` of the entity.
        name: Only deadlines with this name.
        series_id: Only deadlines of this series.
        due_from: Due at this instant or later: with an offset, or a day (its start in UTC).
        due_to: Due before this instant, in the same forms.
        cursor: The id of the last deadline on the previous page.
        limit: Maximum number of deadlines: 1 to 101.

    Raises:
        InvalidArgument: A filter, the cursor or the limit is invalid.
    """
    arguments.check_limit(limit, most=MAX_ROWS_READ)
    if status not in (None, *get_args(DeadlineStatus)):
        raise InvalidArgument("status", status, f"one of {', '.join(get_args(DeadlineStatus))}")
    arguments.target_text(target)
    filters = {
        "status": status,
        "is_overdue": is_overdue,
        "team_id": arguments.check_text("team_id", team_id),
        "user_id": arguments.check_text("user_id", user_id),
        "target_type": None if target is None else target["type"],
        "target_id": None if target is None else target["id"],
        "name": arguments.check_text("name", name),
        "series_id": series_id,
        "due_from": arguments.check_instant("due_from", due_from),
        "due_to": arguments.check_instant("due_to", due_to),
        "before": None if cursor is None else arguments.check_cursor(cursor),
        "limit": limit,
    }
    with borrowed_connection(database, None) as borrowed:
        return store.find(borrowed, "list_deadlines", filters)


def near(
    database: Database,
    *,
    statuses: Sequence[str] = ("missed", "open"),
    team_id: str | None = None,
    due_to: datetime | None = None,
    after: tuple[datetime, UUID] | None = None,
    limit: int = 50,
) -> list[Deadline]:
    """Return unresolved deadlines in the order of their due instants, the earliest first.

    Args:
        database: Holds the tables.
        statuses: Only deadlines with one of these statuses; resolved deadlines are never returned.
        team_id: Only deadlines of this team; None: of all teams.
        due_to: Due before this instant; aware.
        after: The due instant and the id of the last deadline on the previous page; None: the first page.
        limit: Maximum number of deadlines.
    """
    after_at, after_id = after or (None, None)
    filters = {
        "statuses": list(statuses),
        "team_id": team_id,
        "due_to": due_to,
        "after_at": after_at,
        "after_id": after_id,
        "limit": limit,
    }
    with borrowed_connection(database, None) as borrowed:
        return store.find(borrowed, "deadlines_by_due", filters)


def notices(
    database: Database, deadline: Deadline, *, before: UUID | None = None, limit: int = MAX_TIMELINE
) -> list[store.NotificationReceipt]:
    """Return the receipts of a deadline's notifications, including those that a channel did not accept; newest first.

    Args:
        database: Holds the tables.
        deadline: The deadline.
        before: The id of the last receipt on the previous page; None: the first page.
        limit: Maximum number of receipts.
    """
    with borrowed_connection(database, None) as borrowed:
        return store.receipts_of(borrowed, deadline.id, before=before, limit=limit)


def timeline(database: Database, deadline: Deadline, *, limit: int = MAX_TIMELINE) -> list[TimelineEntry]:
    """Return past and planned occurrences of a deadline's stages: the earliest first, those without an instant last.

    The creation of the next deadline in the series is not included.

    Args:
        database: Holds the tables.
        deadline: The deadline.
        limit: Maximum number of entries, and of occurrences per stage; if there are more, the earliest are left out.
    """
    with borrowed_connection(database, None) as borrowed:
        bound = store.actions_of(borrowed, deadline.id, limit=limit)
    actions = {one.deadline_stage: one for one in bound if one.deadline_stage}
    noted = {
        (one.get("stage"), one.get("occurrence")): one for one in deadline.history if one["what"] in _STATE_OF_ENTRY
    }
    entries = [
        _entry(
            stage,
            occurrence,
            actions.get(planning.occurrence_name(stage.key, occurrence)),
            noted.get((stage.key, occurrence)),
        )
        for stage in deadline.stages
        if stage.kind != "renewal"
        for occurrence in range(max(1, stage.occurrence - limit), stage.occurrence + 1)
    ]
    return sorted(filter(None, entries), key=lambda one: (one.at is None, one.at, one.stage))[-limit:]


def _entry(
    stage: Stage, occurrence: int, action: store.DeadlineAction | None, noted: Mapping[str, Any] | None
) -> TimelineEntry | None:
    """Return the timeline entry of an occurrence; None if nothing is known about it."""
    at, state, note = None, "begun", None
    if noted is not None:
        at, state = datetime.fromisoformat(noted["at"]), _STATE_OF_ENTRY[noted["what"]]
        note = noted.get("reason") or ", ".join(noted.get("to") or ())
    elif occurrence == stage.occurrence and occurrence > stage.begun:
        at, state = stage.at, stage.state
    elif action is not None:
        at, note = action.started_at or action.scheduled_at, action.error_message
        state = {"completed": "done", "pending": "begun", "processing": "begun"}.get(action.status, action.status)
    elif occurrence == stage.begun and stage.last_at is not None:
        at = stage.last_at
    else:
        return None
    return TimelineEntry(at, stage.key, occurrence, state, note, None if action is None else action.id)
