"""Synchronise the stored schedules with the declarations in code."""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import psycopg

from scheduled_actions.core.errors import ScheduledActionsError
from scheduled_actions.core.log import log
from scheduled_actions.database import shared_settings
from scheduled_actions.database.boundary import contain, reason_of
from scheduled_actions.database.connection import Connection
from scheduled_actions.database.transactions import borrowed_connection, commits_itself
from scheduled_actions.schedules import changes, operations, store
from scheduled_actions.schedules.service import Schedules

#: The `status_by` of schedules that are paused because their declaration was removed. When a declaration returns, its
#: schedule is resumed only if the pause has this value.
SYNC = "scheduled-actions schedules sync"


class _ValidDeclaration(NamedTuple):
    """A validated declaration."""

    action_type: str
    definition: dict[str, Any]
    #: JSON text.
    payload: str


def sync(
    schedules: Schedules, connection: psycopg.Connection[Any] | None = None, *, force: bool = False
) -> dict[str, list[str]]:
    """Create and update the declared schedules, and pause those whose declaration was removed.

    A schedule that differs from its declaration, for example because a person edited it, is overwritten. A pause by a
    person is kept. Concurrent calls run one after the other.

    Args:
        schedules: The schedules of the project.
        connection: Your own connection; the changes take effect once its transaction commits.
        force: Synchronise even if the same declarations were synchronised last; otherwise such a call does nothing.

    Returns:
        The names of the schedules under `created`, `changed`, `unchanged`, `paused`, `resumed` and `refused` (with the
        reason). All lists are empty if the call did nothing.
    """
    digest = schedules.registry.recurrences_digest
    done: dict[str, list[str]] = {
        name: [] for name in ("created", "changed", "unchanged", "paused", "resumed", "refused")
    }
    with borrowed_connection(schedules.database, connection) as borrowed:
        if not force and store.synced(borrowed) == digest:
            return done
        # Payload models are project code, which must not run while rows are locked.
        valid = [
            contain(
                partial(_validate, schedules, action_type, declaration),
                partial(_note_refused, done, action_type, declaration.get("name", action_type)),
            )
            for action_type, declaration in schedules.registry.recurrences.items()
        ]
        with borrowed.transaction():
            store.sql.run(borrowed, "lock_sync")
            _sync(schedules, borrowed, [one for one in valid if one is not None], done)
            # A refused declaration is tried again: its module may have failed to load.
            if not done["refused"]:
                shared_settings.write(borrowed, store.SYNCED, digest)
    if commits_itself(connection):
        schedules.hook.run_deferred()
    return done


def _validate(schedules: Schedules, action_type: str, declaration: Mapping[str, Any]) -> _ValidDeclaration:
    given = {"name": action_type, **declaration}
    payload = given.pop("payload", {})
    given["recurrence"] = given.pop("rule")
    definition = schedules.definition(given, team_id=given.get("team_id"))
    _, text = schedules.validator.payloads.prepare(action_type, payload)
    return _ValidDeclaration(action_type, definition, text)


def _sync(
    schedules: Schedules, connection: Connection, valid: list[_ValidDeclaration], done: dict[str, list[str]]
) -> None:
    known = {
        (one.name, one.team_id): one
        for one in map(store.DeclaredSchedule._make, store.sql.run(connection, "declared_schedules"))
    }
    store.lock_several(connection, ids=[one.id for one in known.values()])
    for one in valid:
        contain(
            partial(_sync_one, schedules, connection, one, known.get(_key(one.definition)), done),
            partial(_note_refused, done, one.action_type, one.definition["name"]),
        )
    wanted = {_key({"name": kind, **given}) for kind, given in schedules.registry.recurrences.items()}
    for key, schedule in known.items():
        if key not in wanted and schedule.status == "active":
            operations.pause(
                schedules,
                schedule.id,
                reason="its declaration was removed from the code",
                by=SYNC,
                connection=connection,
            )
            done["paused"].append(schedule.name)


def _sync_one(
    schedules: Schedules,
    connection: Connection,
    declared: _ValidDeclaration,
    known: store.DeclaredSchedule | None,
    done: dict[str, list[str]],
) -> None:
    with connection.transaction():
        _, change = changes.write(
            connection,
            schedules.hook.planner,
            declared.action_type,
            declared.payload,
            declared.definition,
            created_by=SYNC,
            is_declared=True,
            may_leave=True,
        )
        if known is not None and known.status == "paused" and known.status_by == SYNC:
            operations.resume(schedules, known.id, by=SYNC, connection=connection)
            done["resumed"].append(declared.definition["name"])
    done[change].append(declared.definition["name"])


def _key(definition: Mapping[str, Any]) -> tuple[str, str | None]:
    return definition["name"], definition.get("team_id")


def _note_refused(done: dict[str, list[str]], action_type: str, name: str, error: BaseException) -> None:
    reason = str(error) if isinstance(error, ScheduledActionsError) else reason_of(error)
    log.warning("schedule.refused name=%s action_type=%s error=%s", name, action_type, reason)
    done["refused"].append(f"{name}: {reason}")
