"""The functions about deadlines that application code calls, on the process's own runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduled_actions import runtime

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    import psycopg

    from scheduled_actions.deadlines.model import Deadline


def set_deadline(
    target: Mapping[str, str],
    due_at: datetime | timedelta | None = None,
    *,
    reminders: Sequence[Any] = (),
    escalation: Sequence[Any] | Mapping[str, Any] = (),
    auto_actions: Sequence[Mapping[str, Any]] = (),
    recipients: Any = None,  # noqa: ANN401 - addresses, names of roles, objects
    recurrence: str | None = None,
    timezone: str | None = None,
    calendar: Mapping[str, Any] | None = None,
    team_id: str | None = None,
    name: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    created_by: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> Deadline:
    """Set a deadline with all that happens before and after it; return it.

    All that is planned is an action bound to the deadline, and is looked at once more when it would go out: a completed
    deadline sends nothing. With a `name`, the unresolved deadline of that name (within the team) is brought up to date;
    asking again for the same changes nothing.

    Args:
        target: The thing it is about: `{"type": "licence", "id": "42"}`.
        due_at: An aware datetime, a naive one in `timezone`, or a timedelta from now. None with a `recurrence`: its
            first occurrence.
        reminders: Distances before the due instant: "60 days before", "3 business days before at 09:00", a timedelta;
            or objects of `offset` and perhaps `repeat` (a rule: nagging until it is resolved), `times`, `to`,
            `severity`, `message`, `name`.
        escalation: Levels: objects of `offset` ("2 days after") and `to`, perhaps `assign` (who takes over), `while`
            ("unresolved" or "unacknowledged"), `severity`, `message`, `name`. Or an object of `levels`, `rounds` and
            `every`.
        auto_actions: Objects of `offset`, `action_type` and `payload`, perhaps `priority`, `max_attempts`,
            `lock_group`, `name`. The payloads are validated now.
        recipients: Who is responsible, and gets the reminders: an address, the name of a role, an object, or a list.
        recurrence: A rule: each occurrence is a deadline of its own, made in time for its first stage.
        timezone: IANA name: on whose wall clock days are counted; None: UTC.
        calendar: Business days and hours of work: `{"holidays": "US-CA", "dates": […], "ranges": […], "hours":
            {"from": "09:00", "to": "17:00"}, "then": "preceding"}`. `then` moves what falls on other days. None: from
            Monday to Friday, and a pause counts all time.
        team_id: The tenant.
        name: Names it within its team while it is unresolved.
        metadata: Your own notes.
        created_by: Who asked for it.
        connection: Your own psycopg connection: roll its transaction back, and it never was.

    Raises:
        RequestError: An argument cannot be, a type has no handler, or a payload is refused; nothing was set.
        DatabaseUnavailable: The database cannot be reached; nothing was set.
    """
    given = {
        "target": target,
        "due_at": due_at,
        "reminders": reminders,
        "escalation": escalation,
        "auto_actions": auto_actions,
        "recipients": recipients,
        "recurrence": recurrence,
        "timezone": timezone,
        "calendar": calendar,
        "team_id": team_id,
        "name": name,
        "metadata": metadata,
        "created_by": created_by,
    }
    made, _ = runtime.current().deadlines.set(given, connection=connection)
    return made


def set_deadlines(
    deadlines: Sequence[Mapping[str, Any]], *, connection: psycopg.Connection[Any] | None = None
) -> list[UUID]:
    """Set many new deadlines at once, each with the arguments of `set_deadline`; see `Deadlines.set_many`."""
    return runtime.current().deadlines.set_many(deadlines, connection=connection)


def get_deadline(deadline: UUID | str, *, team_id: str | None = None) -> Deadline:
    """Return one deadline by id or name; see `Deadlines.get`."""
    return runtime.current().deadlines.get(deadline, team_id=team_id)


def list_deadlines(**filters: Any) -> list[Deadline]:  # noqa: ANN401 - the filters of Deadlines.find
    """Return the newest deadlines that match every filter given; see `Deadlines.find`."""
    return runtime.current().deadlines.find(**filters)


def complete_deadline(deadline: UUID | str, **options: Any) -> Deadline:  # noqa: ANN401 - the options of Deadlines.complete
    """Complete a deadline: nothing of it is sent any more; see `Deadlines.complete`."""
    return runtime.current().deadlines.complete(deadline, **options)


def cancel_deadline(deadline: UUID | str, **options: Any) -> Deadline:  # noqa: ANN401 - the options of Deadlines.cancel
    """Cancel a deadline, or with `series=True` all that follow it; see `Deadlines.cancel`."""
    return runtime.current().deadlines.cancel(deadline, **options)


def move_deadline(deadline: UUID | str, due_at: datetime | timedelta, **options: Any) -> Deadline:  # noqa: ANN401 - the options of Deadlines.move
    """Give a deadline another due instant; what is still to come is planned anew; see `Deadlines.move`."""
    return runtime.current().deadlines.move(deadline, due_at, **options)


def move_deadlines(moves: Mapping[UUID | str, datetime | timedelta], **options: Any) -> int:  # noqa: ANN401 - the options of Deadlines.move_many
    """Give many deadlines other due instants in one transaction; see `Deadlines.move_many`."""
    return runtime.current().deadlines.move_many(moves, **options)


def update_deadline(deadline: UUID | str, **changes: Any) -> Deadline:  # noqa: ANN401 - the changes of Deadlines.update
    """Change what is given of a deadline, and of those that follow it in its series; see `Deadlines.update`."""
    return runtime.current().deadlines.update(deadline, **changes)


def pause_deadline(deadline: UUID | str, **options: Any) -> Deadline:  # noqa: ANN401 - the options of Deadlines.pause
    """Let a deadline's clock stand still; see `Deadlines.pause`."""
    return runtime.current().deadlines.pause(deadline, **options)


def resume_deadline(deadline: UUID | str, **options: Any) -> Deadline:  # noqa: ANN401 - the options of Deadlines.resume
    """Let a deadline's clock go on, its due instant as much working time away as before; see `Deadlines.resume`."""
    return runtime.current().deadlines.resume(deadline, **options)


def acknowledge_deadline(deadline: UUID | str, **options: Any) -> Deadline:  # noqa: ANN401 - the options of Deadlines.acknowledge
    """Silence the nagging of a deadline, not its escalation; see `Deadlines.acknowledge`."""
    return runtime.current().deadlines.acknowledge(deadline, **options)


def reassign_deadline(deadline: UUID | str, recipients: Any, **options: Any) -> Deadline:  # noqa: ANN401 - as Deadlines.reassign takes them
    """Make other people responsible for a deadline; see `Deadlines.reassign`."""
    return runtime.current().deadlines.reassign(deadline, recipients, **options)
