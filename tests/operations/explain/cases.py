"""Test cases: rows for each reason why an action has not run."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from psycopg.types.json import Jsonb

from tests.factories import a_tick, database_now, insert
from tests.limits import test_claims

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    import psycopg

#: Settings of a project with deferred deliveries.
TOML = """\
[webhooks.endpoints.crm]
env_var = "CRM_URL"
rate_limit = 2
"""


#: Limits of the keys of cases.
TWO = {"api:*": {"at_once": 2}}
RATE = {"api:*": {"rate": "1 per hour"}}
ACROSS = {"api:*": {"at_once": 1, "across_teams": True}}


@dataclass(frozen=True)
class Case:
    """Rows with an action that does not run, and the expected explanation."""

    code: str
    #: Part of the explanation's sentence.
    says: str
    #: Takes a connection and an action type with a handler; inserts the rows and returns the id of the action.
    arrange: Callable[[psycopg.Connection[Any], str], UUID]
    settings: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.code}: {self.says}"


def cases() -> list[Case]:
    """Return at least one case per code, except `registry_unreadable` and `row_locked`, which do not depend on rows."""
    return [
        Case("completed", "completed at", ended("completed", attempts=2)),
        Case("failed", "attempt 2 of 2, its last attempt: boom", ended("failed", attempts=2, error_message="boom")),
        Case("failed", "with a non-retryable error", ended("failed", attempts=1)),
        Case("cancelled", "cancelled by ada at", ended("cancelled", history=[{"outcome": "cancelled", "by": "ada"}])),
        Case("cancelled", "by its handler", ended("cancelled", history=[{"outcome": "cancelled", "attempt": 1}])),
        Case("skipped", ": not needed", ended("skipped", error_message="not needed")),
        Case("lease_expired", "while its handler ran", lease_expired),
        Case("running", "attempt 1, claimed ", claimed(is_started=True)),
        Case("running", 'ago by the worker gpu-1:7 of the executor "media", which started it at', taken_over),
        Case("claimed", "it waits for a free thread", claimed(is_started=False)),
        Case(
            "executor_ticket",
            '"media", whose tickets celery carries, and no worker has taken its ticket; if none does, it returns at',
            through_celery(claimed_by_a_worker),
        ),
        Case("claimed", 'by a worker of the executor "media"; it waits for a free thread', claimed_by_a_worker),
        Case("lease_expired", "while its handler ran", frozen_worker),
        Case(
            "failed", "Z: expired at", ended("failed", error_message="expired at 9", history=[{"outcome": "expired"}])
        ),
        Case("expired", "before it started, and is skipped with the next tick", expiring(hours=-1)),
        Case("expired", "before its next attempt started, and fails with", expiring(hours=-1, attempts=1)),
        Case("not_due", "unless it has started by then, it fails", expiring(hours=2, on_expiry="fail")),
        Case("waiting_for_retry", "attempt 1 of 2 failed (boom); the next one is due in 59 minutes", waiting("failed")),
        Case("waiting_for_retry", "attempt 1 of 2 ended because its process died", waiting("crashed")),
        Case("waiting_for_retry", "attempt 1 of 2 timed out", waiting("timed_out")),
        Case("delivery_deferred", 'endpoint "crm" accepts at most 2 deliveries a second', deferred_delivery),
        Case("snoozed", "its handler snoozed it: it is due in 59 minutes", waiting("snoozed")),
        Case("waiting_cycle", "these actions wait for one another and never run: ", waiting_for_itself),
        Case("waiting_cycle", "it waits for actions that wait for one another and never run: ", waiting_for_a_cycle),
        Case(
            "condition_not_met",
            "order:paid is not known; it is evaluated again when data that it depends on changes, or in",
            waiting_for_a_fact,
        ),
        Case("condition_not_met", "order:paid is not known; it is evaluated again in", waiting_for_external_checks),
        Case("condition_not_met", "; the wait times out at 2026-11-02 08:00:00Z", waiting_within_a_timeout),
        Case("not_due", "it becomes due in 59 minutes", later),
        Case("not_due", "never", forever),
        Case("not_due", "it becomes due in 59 minutes", rescheduled),
        Case("disabled", "the setting enabled is false", due, {"SCHEDULED_ACTIONS_ENABLED": "false"}),
        Case("executor_idle", 'of its executor "media", and none has been seen within the last day', of_executor()),
        Case("executor_idle", "and none has been seen for 3 minutes", of_executor(seen_minutes_ago=3)),
        Case("executor_idle", "; it expires at", of_executor(expires_at="infinity")),
        Case("no_tick", "nothing has called /cron/process yet", due),
        Case("no_tick", "nothing has called /cron/process for 10 minutes", ticked(due, minutes_ago=10)),
        Case("no_handler", "has no handler; did you mean", of_no_handler("pending")),
        Case("no_handler", "has no handler; did you mean", of_no_handler("no_action")),
        Case("handler_is_back", "which this build has", ticked(of_status_no_action)),
        Case("paused", "has been paused by ann since", ticked(paused("action_type", note="provider down"))),
        Case("paused", ", until it is resumed: provider down", ticked(paused("action_type", note="provider down"))),
        Case("paused", 'its team "blue" has been paused since', ticked(paused("team", "blue", team_id="blue"))),
        Case("paused", 'its lock group "g" of team "blue" has been', ticked(paused("lock_group", "g", lock_group="g"))),
        Case(
            "paused", 'its limit key "api:b" of team', ticked(paused("limit", "api:b", limit_keys=["api:a", "api:b"]))
        ),
        Case("pause_ended", "the next ticks return its actions", ticked(after_a_pause)),
        Case("limit_unknown", '"api:acme" matches no pattern of [limits]', ticked(queued({}))),
        Case(
            "limit_full",
            '"api:acme" (pattern "api:*") is full: 2 of 2 slots are in use',
            ticked(queued(TWO, running=2)),
        ),
        Case("limit_full", "; it expires at", ticked(queued(TWO, running=2, expires_at="infinity"))),
        Case(
            "limit_full",
            ' and 1 action is ahead of it in the queue of "api:acme"',
            ticked(queued(TWO, running=2, ahead=1)),
        ),
        Case("limit_full", ", which applies across teams, is full", ticked(queued(ACROSS, running=1, team_id="blue"))),
        Case("limit_full", '"all:x" (pattern "all:*")', ticked(behind_a_second_key)),
        Case(
            "limit_rate",
            "as its rate of 1 per hour allows: the next start is possible in",
            ticked(queued(RATE, running=1)),
        ),
        Case("in_line", '2 actions are ahead of it in the queue of "api:acme"', ticked(queued(TWO, ahead=2))),
        Case("group_lingering", "may still be running", ticked(held("pending", busy=True))),
        Case("group_held", "which is running", ticked(held("processing"))),
        Case("group_held", "which is no longer running", ticked(held("completed"))),
        Case("group_blocked", "keeps the group until then", ticked(held("pending", blocks=True))),
        Case("group_turn", "is first", ticked(behind_an_older_member)),
        Case("series_skip", "missed: claimed 1 hour late", ticked(missed_occurrence)),
        Case("series_skip", " failed", ticked(occurrence_after_a_failed_one)),
        Case("series_turn", "this one runs after it", ticked(overlapping_occurrence)),
        Case(
            "too_long",
            "its timeout of 40 s does not fit into a tick of 30 s",
            ticked(due),
            {"SCHEDULED_ACTIONS_DEFAULT_TIMEOUT_SECONDS": "40", "SCHEDULED_ACTIONS_MAX_DURATION_SECONDS": "30"},
        ),
        Case("in_line", "3 actions are ahead of it", ticked(behind_three)),
        Case(
            "executor_queue",
            ", and 2 actions are ahead of it (by priority, then by time); 1 worker of the executor is running",
            of_executor(seen_minutes_ago=1, ahead=2),
        ),
        Case(
            "executor_queue",
            'a tick to send its ticket to the workers of its executor "media", and 2 actions are ahead of it',
            ticked(through_celery(of_executor(ahead=2))),
        ),
        Case("executor_queue", ", and nothing is ahead of it; the last worker", of_executor(finished_minutes_ago=1)),
        Case(
            "executor_queue",
            "nothing is ahead of it",
            of_executor(seen_minutes_ago=1),
            {"SCHEDULED_ACTIONS_DEFAULT_TIMEOUT_SECONDS": "40", "SCHEDULED_ACTIONS_MAX_DURATION_SECONDS": "30"},
        ),
        Case("next_tick", "the next tick runs it", ticked(due)),
        Case("next_tick", "the next tick runs it", ticked(queued(TWO, running=1))),
        Case("next_tick", "the running tick or the next one runs it", during_a_tick),
    ]


def due(connection, action_type):
    return insert(connection, action_type=action_type)


def later(connection, action_type):
    return insert(connection, action_type=action_type, scheduled_at=in_an_hour(connection))


def forever(connection, action_type):
    return insert(connection, action_type=action_type, scheduled_at="infinity")


def rescheduled(connection, action_type):
    history = [{"outcome": "failed", "attempt": 1}, {"outcome": "updated", "by": "ada", "changes": ["scheduled_at"]}]
    return insert(connection, action_type=action_type, scheduled_at=in_an_hour(connection), history=history)


def in_an_hour(connection):
    return database_now(connection) + timedelta(minutes=59, seconds=59)


def ended(status, **columns):
    def arrange(connection, action_type):
        now = database_now(connection)
        return insert(connection, action_type=action_type, status=status, completed_at=now, **columns)

    return arrange


def expiring(*, hours, **columns):
    def arrange(connection, action_type):
        now = database_now(connection)
        return insert(
            connection,
            action_type=action_type,
            scheduled_at=now + timedelta(minutes=59, seconds=59),
            expires_at=now + timedelta(hours=hours),
            **{"on_expiry": "skip"} | columns,
        )

    return arrange


def paused(kind, name=None, *, note=None, **columns):
    def arrange(connection, action_type):
        connection.execute(
            "insert into scheduled_action_pauses (kind, name, team_id, note, paused_by) values (%s, %s, %s, %s, %s)",
            [kind, name or action_type, "blue" if kind in {"lock_group", "limit"} else None, note, note and "ann"],
        )
        return insert(connection, action_type=action_type, **{"team_id": "blue"} | columns)

    return arrange


def after_a_pause(connection, action_type):
    (pause_id,) = connection.execute(
        "insert into scheduled_action_pauses (kind, name, ends_at) values ('action_type', %s, scheduled_actions_now())"
        " returning id",
        [action_type],
    ).fetchone()
    return insert(connection, action_type=action_type, parked_by=str(pause_id))


def queued(limits, *, running=0, ahead=0, team_id=None, **columns):
    """Return an arrangement with `running` actions of a limit key, and `ahead` queued ones before the action."""

    def arrange(connection, action_type):
        test_claims.limits(connection, limits)
        test_claims.schedule(connection, "api:acme", count=running, team_id=team_id and "another")
        if running:
            test_claims.claim(connection)
        test_claims.schedule(connection, "api:acme", count=ahead, team_id=team_id, priority=-1)
        keys = {"limit_keys": ["api:acme"], "parked_by": "limit"}
        return insert(connection, action_type=action_type, team_id=team_id, **keys | columns)

    return arrange


def behind_a_second_key(connection, action_type):
    test_claims.limits(connection, {**TWO, "all:*": {"at_once": 1}})
    test_claims.schedule(connection, "all:x")
    test_claims.claim(connection)
    return insert(connection, action_type=action_type, limit_keys=["api:acme", "all:x"], parked_by="limit")


def executor(connection, action_type, *, seen_minutes_ago=None, finished_minutes_ago=None):
    """Insert the executor `media` of a type, and a worker that was seen or has finished; return the worker's id."""
    connection.execute(
        "insert into scheduled_action_executors (name, types, type_patterns) values ('media', %s, %s)",
        [[action_type], [action_type]],
    )
    now, worker_id = database_now(connection), uuid4()
    for minutes, has_finished in ((seen_minutes_ago, False), (finished_minutes_ago, True)):
        if minutes is not None:
            at = now - timedelta(minutes=minutes)
            connection.execute(
                "insert into scheduled_action_workers (id, executor, name, concurrency, seen_at, finished_at)"
                " values (%s, 'media', 'gpu-1:7', 2, %s, %s)",
                [worker_id, at, at if has_finished else None],
            )
    return worker_id


def of_executor(*, ahead=0, seen_minutes_ago=None, finished_minutes_ago=None, **columns):
    """Return an arrangement with a due action of the executor `media`, and `ahead` more urgent ones in its queue."""

    def arrange(connection, action_type):
        executor(connection, action_type, seen_minutes_ago=seen_minutes_ago, finished_minutes_ago=finished_minutes_ago)
        for _ in range(ahead):
            insert(connection, action_type=action_type, parked_by="queue:media", priority=-1)
        return insert(connection, action_type=action_type, parked_by="queue:media", **columns)

    return arrange


def of_worker(connection, action_type, *, lease_seconds=60, **columns):
    now = database_now(connection)
    return insert(
        connection,
        action_type=action_type,
        status="processing",
        claim_token=uuid4(),
        lease_expires_at=now + timedelta(seconds=lease_seconds),
        executor="media",
        **columns,
    )


def claimed_by_a_worker(connection, action_type):
    executor(connection, action_type, seen_minutes_ago=0)
    return of_worker(connection, action_type)


def through_celery(arrangement):
    """Return an arrangement whose executor has the carrier `celery`."""

    def arrange(connection, action_type):
        action_id = arrangement(connection, action_type)
        connection.execute("update scheduled_action_executors set carrier = 'celery'")
        return action_id

    return arrange


def taken_over(connection, action_type, **lease):
    worker_id = executor(connection, action_type, seen_minutes_ago=0)
    return of_worker(connection, action_type, worker_id=worker_id, announced_at=database_now(connection), **lease)


def frozen_worker(connection, action_type):
    return taken_over(connection, action_type, lease_seconds=-60)


def waiting(outcome):
    def arrange(connection, action_type):
        error = {} if outcome == "snoozed" else {"error_message": "boom", "attempts": 1}
        return insert(
            connection,
            action_type=action_type,
            scheduled_at=in_an_hour(connection),
            history=[{"outcome": outcome, "attempt": 1}, {"outcome": "updated", "changes": ["priority"]}],
            **error,
        )

    return arrange


def waiting_for_a_fact(connection, action_type):
    action_id = waiting("waited")(connection, action_type)
    unmet = Jsonb({"unmet": "order:paid is not known", "checks": 2})
    connection.execute("update scheduled_actions set waiting = %s where id = %s", [unmet, action_id])
    return action_id


def waiting_within_a_timeout(connection, action_type):
    action_id = waiting("waited")(connection, action_type)
    connection.execute(
        "update scheduled_actions set condition = %s, waiting = %s where id = %s",
        [
            Jsonb({"after": [str(later(connection, action_type))], "condition": {"timeout": "PT2H"}}),
            Jsonb({"unmet": "after.0: …", "since": "2026-11-02T06:00:00+00:00", "checks": 2}),
            action_id,
        ],
    )
    return action_id


def waiting_for_itself(connection, action_type):
    first, second = waiting("waited")(connection, action_type), insert(connection, action_type=action_type)
    for action_id, after in ((first, second), (second, first)):
        condition = Jsonb({"after": [str(after)]})
        connection.execute("update scheduled_actions set condition = %s where id = %s", [condition, action_id])
    return first


def waiting_for_a_cycle(connection, action_type):
    after = Jsonb({"after": [str(waiting_for_itself(connection, action_type))]})
    return insert(connection, action_type=action_type, condition=after, scheduled_at=database_now(connection))


def waiting_for_external_checks(connection, action_type):
    action_id = waiting_for_a_fact(connection, action_type)
    condition = {"wait": {"any": [{"kind": "query", "name": "paid"}, {"not": {"kind": "custom", "name": "late"}}]}}
    connection.execute("update scheduled_actions set condition = %s where id = %s", [Jsonb(condition), action_id])
    return action_id


def deferred_delivery(connection, action_type):
    return insert(
        connection,
        action_type="webhook:send",
        payload={"event": "a:b", "entity_id": "1", "endpoint": "crm"},
        scheduled_at=in_an_hour(connection),
        history=[{"outcome": "snoozed", "attempt": 1, "count": 4}],
    )


def claimed(*, is_started, lease_seconds=70):
    def arrange(connection, action_type):
        tick = a_tick(connection, lease_seconds=lease_seconds)
        action_id = insert(
            connection,
            action_type=action_type,
            status="processing",
            claim_token=uuid4(),
            lease_expires_at=tick.lease_expires_at,
        )
        if is_started:
            connection.execute("update scheduled_action_ticks set running = %s where id = %s", [[action_id], tick.id])
        return action_id

    return arrange


lease_expired = claimed(is_started=True, lease_seconds=-5)


def of_no_handler(status):
    def arrange(connection, action_type):
        return ticked(lambda connection, name: insert(connection, action_type=f"{name}x", status=status))(
            connection, action_type
        )

    return arrange


def of_status_no_action(connection, action_type):
    return insert(connection, action_type=action_type, status="no_action")


def held(status, *, blocks=False, busy=False):
    def arrange(connection, action_type):
        now = database_now(connection)
        columns: dict[str, Any] = {"status": status, "lock_group": "g", "lock_group_blocks": blocks, "team_id": "t"}
        if status == "processing":
            columns |= {"claim_token": uuid4(), "lease_expires_at": now + timedelta(minutes=1)}
        holder = insert(connection, scheduled_at=now + timedelta(minutes=10), **columns)
        connection.execute(
            "insert into scheduled_action_holds (team_id, lock_group, action_id, busy_until) values ('t', 'g', %s, %s)",
            [holder, now + timedelta(minutes=1) if busy else None],
        )
        return insert(connection, action_type=action_type, lock_group="g", team_id="t")

    return arrange


def behind_an_older_member(connection, action_type):
    insert(connection, lock_group="g", scheduled_at=database_now(connection) - timedelta(minutes=2))
    insert(connection, lock_group="g", team_id="another", scheduled_at="-infinity")
    return insert(connection, action_type=action_type, lock_group="g")


def behind_three(connection, action_type):
    now = database_now(connection)
    insert(connection, priority=-5)
    insert(connection, priority=-5, scheduled_at=now + timedelta(days=1))
    insert(connection, priority=-1)
    insert(connection, scheduled_at=now - timedelta(minutes=2))
    insert(connection, priority=1, scheduled_at="-infinity")
    return insert(connection, action_type=action_type)


def missed_occurrence(connection, action_type):
    return occurrence(connection, action_type, misfire="skip", late=timedelta(hours=1))


def overlapping_occurrence(connection, action_type):
    planned = occurrence(connection, action_type, misfire="fire_once", late=timedelta(minutes=1))
    connection.execute(
        "insert into scheduled_actions (action_type, status, scheduled_at, occurrence_at, schedule_id, claim_token,"
        " lease_expires_at) select action_type, 'processing', scheduled_at, occurrence_at - interval '1 hour',"
        " schedule_id, gen_random_uuid(), scheduled_actions_now() + interval '1 minute'"
        " from scheduled_actions where id = %s",
        [planned],
    )
    return planned


def occurrence_after_a_failed_one(connection, action_type):
    planned = occurrence(connection, action_type, misfire="fire_once", late=timedelta(minutes=1))
    connection.execute("update scheduled_action_schedules set requires_previous = true")
    connection.execute(
        "insert into scheduled_actions (action_type, status, scheduled_at, completed_at, occurrence_at, schedule_id)"
        " select action_type, 'failed', scheduled_at, now(), occurrence_at - interval '1 hour', schedule_id"
        " from scheduled_actions where id = %s",
        [planned],
    )
    return planned


def occurrence(connection, action_type, *, misfire, late):
    now = database_now(connection)
    schedule_id = uuid4()
    planned = insert(
        connection,
        action_type=action_type,
        schedule_id=schedule_id,
        scheduled_at=now - late,
        occurrence_at=now - late,
    )
    connection.execute(
        "insert into scheduled_action_schedules (id, name, action_type, recurrence, kind, anchor_at, misfire, overlap,"
        " next_action_id, next_occurrence_at) values (%s, 'hourly', %s, 'hourly', 'interval', %s, %s, 'skip', %s, %s)",
        [schedule_id, action_type, now, misfire, planned, now - late],
    )
    return planned


def ticked(arrange, *, minutes_ago=0):
    """Return the same arrangement followed by a finished tick."""

    def arrange_and_tick(connection, action_type):
        action_id = arrange(connection, action_type)
        tick = a_tick(connection)
        at = tick.started_at - timedelta(minutes=minutes_ago)
        connection.execute(
            "update scheduled_action_ticks set started_at = %s, finished_at = %s where id = %s", [at, at, tick.id]
        )
        return action_id

    return arrange_and_tick


def during_a_tick(connection, action_type):
    a_tick(connection)
    return due(connection, action_type)
