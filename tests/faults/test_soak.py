"""Actions of every kind run while processes are killed and Postgres restarts; every promise holds at the end."""

from __future__ import annotations

import itertools
import os
import random
import signal
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from scheduled_actions.database.embedded import attach
from scheduled_actions.database.migrate import migrate
from tests.factories import projects
from tests.faults.actions import EFFECTS, Actions
from tests.faults.ledger import overlaps
from tests.faults.receiver import Receiver, a_secret
from tests.faults.serving import Pings, a_port, stop_postgres, wait_until
from tests.faults.test_killed_processes import TRANSACT
from tests.faults.test_killed_series import assert_whole, kill, schedule_series, work
from tests.faults.test_limits import most_at_once, slots, uses_by_key

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

pytestmark = pytest.mark.slow

#: `make proof-soak` runs the full form: faults for ten minutes.
IS_WHOLE = os.environ.get("SOAK") == "whole"
SECONDS = 600 if IS_WHOLE else 0
LEAST_FAULTS = 50 if IS_WHOLE else 8
SERVICES, WORKERS, CONCURRENCY = 2, 2, 8
#: Longer than the timeout of a delivery, so that ticks send them.
TICKS = {"max_duration_seconds": 25, "max_run_seconds": 2.5, "default_timeout_seconds": 6, "concurrency": CONCURRENCY}
LEASE_SECONDS = 25 + 15
#: One of these, in turn: a killed process, a killed master with its processes, and Postgres stopped in these modes.
FAULTS = ("process", "process", "service", "process", signal.SIGQUIT, "process", "process", signal.SIGINT)
#: Runs between two faults.
RUNS_PER_FAULT = 40
#: Actions of a batch, and the number of due or leased actions below which the next batch is scheduled.
BATCH, LEAST_WAITING = 120, 150
FIXED, ROLLING = 3, 2
AT_ONCE = {"one": 1, "two": 2}
ALWAYS = {"max_attempts": 100, "retry": [0]}
SETTINGS = f"""
[limits]
"one:*" = {{ at_once = {AT_ONCE["one"]} }}
"two:*" = {{ at_once = {AT_ONCE["two"]} }}

[webhooks.endpoints.crm]
env_var = "CRM_URL"
secret_env_var = "CRM_SECRET"
patterns = ["task:*", "deadline:missed"]
retry = {[1] * 100}
"""
LEASED = "select count(*) from scheduled_actions where status = 'processing'"
DEADLINES = """
select d.id, d.status, count(a.id) filter (where a.action_type = 'proof:work' and a.status = 'completed')
from scheduled_action_deadlines d left join scheduled_actions a on a.deadline_id = d.id group by d.id
"""


@dataclass
class Given:
    """What was scheduled, and what must have happened at the end."""

    ids: set[UUID] = field(default_factory=set)
    #: Events by the id of their entity.
    events: set[str] = field(default_factory=set)
    #: The two ids that the calls with one dedup key returned, and the payload number of the second call.
    keyed: list[tuple[UUID, UUID, int]] = field(default_factory=list)
    #: By action, the one after which it runs.
    after: dict[UUID, UUID] = field(default_factory=dict)
    #: By action, the target of the fact that it waits for and that is not reported yet.
    waiting: dict[UUID, str] = field(default_factory=dict)
    #: By action, an instant before its fact was reported.
    reported: dict[UUID, datetime] = field(default_factory=dict)
    deadlines: set[UUID] = field(default_factory=set)


class Work:
    """Schedules batches of mixed actions."""

    def __init__(self, ledger: Any) -> None:
        self.given = Given()
        self._ledger = ledger
        self._numbers = itertools.count(1)
        self._chance = random.Random(19)

    def schedule(self, connection: psycopg.Connection[Any]) -> None:
        """Report the facts of the former batch, and schedule the next one."""
        actions, given = Actions(connection), self.given
        self.report(connection)
        batch = [self._an_action(number) for number in itertools.islice(self._numbers, BATCH)]
        ids = actions.schedule(*batch)
        given.ids |= set(ids)
        given.events |= {new["payload"]["entity_id"] for new in batch if "event" in new["payload"]}
        given.waiting |= {one: _target(new) for one, new in zip(ids, batch, strict=True) if "condition" in new}
        plain = [one for one, new in zip(ids, batch, strict=True) if new["action_type"] == "proof:work"]
        plain = [one for one in plain if one not in given.waiting]
        followed = self._chance.sample(plain, 5)
        followers = actions.schedule(*(self._plain(next(self._numbers), after=[str(one)]) for one in followed))
        given.ids |= set(followers)
        given.after |= dict(zip(followers, followed, strict=True))
        keyed = [(one, new) for one, new in zip(ids, batch, strict=True) if "dedup_key" in new]
        again = [new | {"payload": new["payload"] | {"number": next(self._numbers)}} for _, new in keyed]
        for (first, _), second, new in zip(keyed, actions.schedule(*again), again, strict=True):
            given.ids.add(second)
            given.keyed.append((first, second, new["payload"]["number"]))
        given.deadlines.add(self._deadline(connection))

    def report(self, connection: psycopg.Connection[Any]) -> None:
        """Report the facts that actions wait for."""
        for action_id, target in self.given.waiting.items():
            self.given.reported[action_id] = self._ledger.now()
            connection.execute(
                "select report_fact(jsonb_build_object('type', 'order', 'id', %s::text), 'state', '\"approved\"')",
                [target],
            )
        self.given.waiting.clear()

    def _an_action(self, number: int) -> dict[str, Any]:
        group, target = number // 20 % 10, {"type": "order", "id": str(number)}
        wait = {"wait": {"kind": "document_state", "target": target, "state": "approved"}}
        event = {"event": "task:created", "entity_type": "task", "entity_id": f"task-{number}", "data": {}}
        kinds: dict[int, dict[str, Any]] = {
            8: {"lock_group": f"group {group}"},
            9: {"lock_group": f"group {group}"},
            10: {"failures": 2, "lock_group": f"group {group}", "lock_group_blocks": True},
            11: {"failures": 2},
            12: {"failures": 1},
            13: {"condition": wait},
            14: {"limit": f"one:{group}"},
            15: {"limit": f"two:{group}"},
            16: {"action_type": "webhook:send", "payload": event},
            17: {"action_type": TRANSACT},
            18: {"dedup_key": f"key {number}", "dedup_window": 3600, "delay": 1},
            19: {"delay": self._chance.random() * 3, "priority": self._chance.randrange(-2, 3)},
        }
        return self._plain(number, **kinds.get(number % 20, {}))

    def _plain(self, number: int, *, failures: int = 0, **options: Any) -> dict[str, Any]:
        payload = {"number": number, "failures": failures, "seconds": self._chance.choice([0.01, 0.05, 0.1])}
        return {"action_type": "proof:work", "payload": payload} | ALWAYS | options

    def _deadline(self, connection: psycopg.Connection[Any]) -> UUID:
        stage = {"offset": "PT1S before", "action_type": "proof:work", "payload": {"number": 0}, "max_attempts": 100}
        row = connection.execute(
            """
            select id from set_deadline(
              %s, scheduled_actions_now() + interval '3 seconds', name => %s, auto_actions => %s)
            """,
            [Jsonb({"type": "license", "id": "1"}), f"deadline {next(self._numbers)}", Jsonb([stage])],
        ).fetchone()
        assert row is not None
        return row[0]


def test_every_promise_holds_while_processes_are_killed_and_postgres_restarts(  # noqa: PLR0915 - one story
    own_server, project, serve, ledger, record_property
):
    (project / "scheduled_actions.toml").write_text(SETTINGS)
    receiver = Receiver(a_port(), a_secret(), fails_first=True)
    handles = [attach(own_server)]
    dsn = handles[0].dsn
    with psycopg.connect(dsn, autocommit=True) as connection:
        migrate(connection)
        connection.execute(EFFECTS)
    with projects(dsn) as make:
        series = schedule_series(make(work).schedules, FIXED, ROLLING)
    environ = {"DATABASE_URL": dsn, "CRM_URL": receiver.url, "CRM_SECRET": receiver.secret}
    services = [serve(workers=WORKERS, environ=environ, **TICKS) for _ in range(SERVICES)]
    chance, mixed = random.Random(20), Work(ledger)
    #: By process, an instant after its end.
    killed: dict[int, datetime] = {}
    made: Counter[Any] = Counter()
    until = time.monotonic() + SECONDS

    with receiver.listening():
        with Pings([service.port for service in services], clients=8) as pings:
            while made.total() < LEAST_FAULTS or time.monotonic() < until:
                with psycopg.connect(dsn, autocommit=True) as connection:
                    if _waiting(connection) < LEAST_WAITING:
                        mixed.schedule(connection)
                least = ledger.count() + RUNS_PER_FAULT
                wait_until(lambda least=least: ledger.count() >= least, within=120, what="the processes run actions")
                fault = FAULTS[made.total() % len(FAULTS)]
                made[fault] += 1
                service = chance.choice(services)
                workers = wait_until(service.workers, within=30, what="processes are running")
                if fault == "process":
                    workers = [chance.choice(workers)]
                    kill(workers[0])
                elif fault == "service":
                    service.kill()
                    service.start()
                else:
                    workers = []
                    stop_postgres(own_server, dsn, fault)
                    handles.append(attach(own_server))
                killed.update(dict.fromkeys(workers, ledger.now()))
        with psycopg.connect(dsn, autocommit=True) as connection:
            actions = Actions(connection)
            mixed.report(connection)
            # A call that was applied before its process died is skipped when it is applied again.
            assert_whole(services[0], actions, *series, lease_seconds=LEASE_SECONDS, may_skip=["deadline:apply"])
            services[0].ping()
            assert (actions.holds(), actions.open_ticks(), slots(connection)) == (0, 0, 0), "nothing is stuck"
            assert connection.execute(LEASED).fetchone() == (0,)
            rows = {row["id"]: row for row in actions.all()}
            effects = actions.effects()
            deadlines = {row[0]: row[1:] for row in connection.execute(DEADLINES)}
    for handle in handles:
        handle.close()

    runs = ledger.runs()
    _assert_nothing_is_lost(mixed.given, rows, runs)
    assert overlaps(runs) == []
    uses = uses_by_key([run for run in runs if rows[run.action_id]["limit_keys"]], rows, killed)
    assert {key: most_at_once(those) for key, those in uses.items() if most_at_once(those) > _at_once(key)} == {}
    _assert_transactions_had_one_effect(rows, effects)
    _assert_repeated_calls_are_one_action(mixed.given, rows, runs)
    _assert_waits_were_kept(mixed.given, rows, runs)
    _assert_events_arrived(mixed.given, rows, receiver)
    assert deadlines == dict.fromkeys(mixed.given.deadlines, ("missed", 1))
    assert set(pings.statuses) >= {200, 503}
    assert {status for status in pings.statuses if isinstance(status, int)} <= {200, 503}
    record_property(
        "measured",
        f"{len(killed)} processes killed, {made[signal.SIGQUIT] + made[signal.SIGINT]} restarts:"
        f" {len(runs)} runs of {len(rows)} actions, {len(uses)} limit keys, {len(receiver.received)} deliveries,"
        f" {len(deadlines)} deadlines; pings {dict(pings.statuses)}",
    )


def _target(new):
    return new["condition"]["wait"]["target"]["id"]


def _waiting(connection):
    """Return the number of due and leased actions."""
    row = connection.execute(
        "select count(*) from scheduled_actions where status = 'processing'"
        " or status = 'pending' and scheduled_at <= scheduled_actions_now()"
    ).fetchone()
    return row[0]


def _at_once(key):
    return AT_ONCE[key[1].partition(":")[0]]


def _assert_nothing_is_lost(given, rows, runs):
    assert given.ids <= rows.keys()
    assert {rows[one]["status"] for one in given.ids} == {"completed"}
    ran = {run.action_id for run in runs}
    completed = {
        one for one, row in rows.items() if row["action_type"].startswith("proof:") and row["status"] == "completed"
    }
    assert completed - ran == set(), "every completed action has run"


def _assert_transactions_had_one_effect(rows, effects):
    numbers = {one: row["payload"]["number"] for one, row in rows.items() if row["action_type"] == TRANSACT}
    assert effects == dict.fromkeys(numbers, 1)
    follow_ups = Counter(
        row["payload"]["number"]
        for row in rows.values()
        if row["action_type"] == "proof:work" and row["payload"].get("number") in numbers.values()
    )
    assert follow_ups == dict.fromkeys(numbers.values(), 1)


def _assert_repeated_calls_are_one_action(given, rows, runs):
    by_key = Counter(row["dedup_key"] for row in rows.values() if (row["dedup_key"] or "").startswith("key "))
    delivered = {run.action_id: run.payload["number"] for run in runs if run.action_type == "proof:work"}
    merged = [(first, number) for first, second, number in given.keyed if first == second]
    # A claim between the two calls closes the key: the second call is then an action of its own.
    assert by_key.total() == 2 * len(given.keyed) - len(merged)
    assert max(by_key.values()) <= 2
    assert [(first, delivered[first]) for first, _ in merged] == merged, "the latest payload was delivered"
    assert len(merged) > len(given.keyed) / 2, "too few calls were merged to prove anything"


def _assert_waits_were_kept(given, rows, runs):
    first = {}
    for run in runs:
        first.setdefault(run.action_id, run.started_at)
    early = [one for one, reported_at in given.reported.items() if first[one] < reported_at]
    # Both servers have the clock of this machine; that of the actions was moved only after the faults.
    early += [one for one, other in given.after.items() if first[one] < _first_end(runs, other)]
    assert early == []
    assert given.reported.keys() | given.after.keys() <= rows.keys()


def _first_end(runs, action_id):
    return min(run.ended_at for run in runs if run.action_id == action_id and run.ended_at is not None)


def _assert_events_arrived(given, rows, receiver):
    assert receiver.refused == []
    ids = defaultdict(set)
    for message_id, content in receiver.received:
        ids[content["event"], content["entity_id"]].add(message_id)
    assert ids.keys() == {
        *(("task:created", name) for name in given.events),
        *(("deadline:missed", str(one)) for one in given.deadlines),
    }
    assert {len(several) for several in ids.values()} <= {1}, "each event is one delivery, which may be repeated"
    assert set().union(*ids.values()) == {str(one) for one, row in rows.items() if "endpoint" in row["payload"]}
