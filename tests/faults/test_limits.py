"""Limits per key hold while processes are killed and the database restarts; no key is left without progress."""

from __future__ import annotations

import os
import random
import signal
from collections import defaultdict
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import psycopg
import pytest

from scheduled_actions.database.embedded import attach
from scheduled_actions.database.migrate import migrate
from tests.faults.actions import Actions
from tests.faults.serving import Pings, has_ended, stop_postgres, wait_until

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

pytestmark = pytest.mark.slow

#: `make proof-limits` runs the full form, about five minutes.
IS_WHOLE = os.environ.get("LIMITS") == "whole"
WORKERS = 4
TICKS = {"max_duration_seconds": 8, "max_run_seconds": 2, "default_timeout_seconds": 6, "concurrency": 8}
#: A tick's longest duration and its margin.
LEASE_SECONDS = 8 + 15
FAULTS = 150 if IS_WHOLE else 10
#: Each fault of this number is a restart of the database; the others kill a process.
RESTART_EVERY = 5
#: Runs between two faults.
RUNS_PER_FAULT = 60
BATCH = 400
#: Number of keys by prefix; across_teams applies to `shared:` only.
KEYS = {"one": 80, "two": 40, "three": 20, "shared": 20, "rate": 20, "both": 10, "ordered": 10}
AT_ONCE = {"one": 1, "two": 2, "three": 3, "shared": 2, "both": 2, "ordered": 1}
#: Starts per second and burst.
RATES = {"rate": (1, 2), "both": (2, 3)}
SETTINGS = """
[limits]
"one:*" = { at_once = 1 }
"two:*" = { at_once = 2 }
"three:*" = { at_once = 3 }
"shared:*" = { at_once = 2, across_teams = true }
"rate:*" = { rate = "60 per minute", burst = 2 }
"both:*" = { at_once = 2, rate = "2 per second", burst = 3 }
"ordered:*" = { at_once = 1 }
"""
#: Actions of a key with many actions, and of a key whose order is checked, all scheduled before the first tick.
MANY, ORDERED = 15, 12
#: Seconds that an action runs: one of these.
SECONDS = [0.01, 0.05, 0.1]
#: Seconds that each action of a full key runs, so that its slots are in use at the same time.
CROWDED_SECONDS = 0.5
#: A claim takes the rate at most this long before the start, and returns it at most this long later if nothing starts:
#: a tick starts and claims nothing after its `max_run_seconds`.
TOLERANCE_SECONDS = 2 * TICKS["max_run_seconds"]


class Use(NamedTuple):
    """A run that uses a limit key."""

    started_at: datetime
    ended_at: datetime
    action_id: UUID


def test_limits_hold_while_processes_are_killed_and_the_database_restarts(
    own_server, project, serve, ledger, record_property
):
    (project / "scheduled_actions.toml").write_text(SETTINGS)
    handles = [attach(own_server)]
    dsn = handles[0].dsn
    chance = random.Random(8)
    with psycopg.connect(dsn, autocommit=True) as connection:
        migrate(connection)
        given = _schedule(connection, [*_ordered(chance), *_crowds(chance)])
    service = serve(workers=WORKERS, environ={"DATABASE_URL": dsn}, **TICKS)
    #: By process, the instant at which it had ended.
    killed = {}
    restarts = 0

    with Pings([service.port]) as pings:
        for number in range(1, FAULTS + 1):
            done = ledger.count()
            with psycopg.connect(dsn, autocommit=True) as connection:
                if _pending(connection) < BATCH:
                    given += _schedule(connection, [_work(chance) for _ in range(BATCH)])
            wait_until(
                lambda done=done: ledger.count() >= done + RUNS_PER_FAULT, within=120, what="the processes run actions"
            )
            if number % RESTART_EVERY == 0:
                restarts += 1
                stop_postgres(own_server, dsn, signal.SIGQUIT)
                handles.append(attach(own_server))
            else:
                victim = chance.choice(wait_until(service.workers, within=30, what="a process is running"))
                os.kill(victim, signal.SIGKILL)
                wait_until(lambda pid=victim: has_ended(pid), within=30, what="the process has ended")
                killed[victim] = ledger.now()
    # No ping is in progress, so no live process holds a lease. Rates regain their burst when the clock moves.
    moved_at = ledger.now()
    with psycopg.connect(dsn, autocommit=True) as connection:
        actions = Actions(connection)
        actions.move_clock(LEASE_SECONDS + 1)
        with Pings([service.port]):
            wait_until(actions.are_settled, within=240, what="no key is stuck: all actions end")
        service.ping()
        rows = {row["id"]: row for row in actions.all()}
        assert actions.statuses() == {"completed": len(given)}
        assert (slots(connection), actions.holds(), actions.open_ticks()) == (0, 0, 0)
    for handle in handles:
        handle.close()

    assert rows.keys() == set(given)
    runs = ledger.runs()
    assert {run.action_id for run in runs} == set(given)
    uses = uses_by_key(runs, rows, killed)
    most = {key: most_at_once(those) for key, those in uses.items()}
    assert {key: count for key, count in most.items() if count > AT_ONCE.get(_prefix(key), count)} == {}
    assert _too_fast(uses, moved_at) == {}
    assert _out_of_order(uses, rows) == []
    assert set(pings.statuses) >= {200, 503}
    assert {status for status in pings.statuses if isinstance(status, int)} <= {200, 503}
    # The limits were reached, so that they could have been exceeded.
    assert {_prefix(key) for key, count in most.items() if count == AT_ONCE.get(_prefix(key))} == set(AT_ONCE)
    record_property(
        "measured",
        f"{len(killed)} processes killed, {restarts} restarts: {len(runs)} runs of {len(rows)} actions with"
        f" {len(uses)} keys; pings {dict(pings.statuses)}",
    )


def _ordered(chance):
    """Return actions of keys with one slot, each with a priority of its own within its key."""
    for key in range(KEYS["ordered"]):
        for priority in chance.sample(range(-50, 50), ORDERED):
            yield _an_action([f"ordered:{key}"], chance, priority=priority)


def _crowds(chance):
    """Return many actions of each key with a rate, and of one key of each other prefix."""
    for prefix in sorted(KEYS.keys() - {"ordered"}):
        for key in range(KEYS[prefix] if prefix in RATES else 1):
            seconds = SECONDS if prefix in RATES else [CROWDED_SECONDS]
            yield from (_an_action([f"{prefix}:{key}"], chance, seconds) for _ in range(MANY))


def _work(chance):
    """Return an action with one or two random keys; some have a lock group or a team, or are due later."""
    prefix, other = chance.sample(["one", "two", "three", "shared", "both"], 2)
    keys = [f"{prefix}:{chance.randrange(KEYS[prefix])}"]
    if chance.random() < 0.25:
        keys.append(f"{other}:{chance.randrange(KEYS[other])}")
    options = {}
    if chance.random() < 0.5:
        options["team_id"] = chance.choice(["red", "blue"])
    if chance.random() < 0.2:
        options["lock_group"] = f"group {chance.randrange(20)}"
        options["lock_group_blocks"] = chance.random() < 0.5
    if chance.random() < 0.2:
        options["delay"] = chance.random() * 3
    return _an_action(keys, chance, priority=chance.randrange(-2, 3), **options)


def _an_action(keys, chance, seconds=SECONDS, **options):
    payload = {"seconds": chance.choice(seconds)}
    return {
        "action_type": "proof:work",
        "payload": payload,
        "limit": keys,
        "max_attempts": 50,
        "retry": [0],
        **options,
    }


def _schedule(connection, new_actions):
    return Actions(connection).schedule(*new_actions)


def _pending(connection):
    return connection.execute("select count(*) from scheduled_actions where status = 'pending'").fetchone()[0]


def slots(connection):
    """Return the number of slots in use, of all limit keys."""
    return connection.execute("select count(*) from scheduled_action_limit_slots").fetchone()[0]


def _prefix(key):
    return key[1].partition(":")[0]


def uses_by_key(runs, rows, killed):
    """Return the runs of each key, by the scope and name of the key, in the order of their starts.

    The end of a handler is what it recorded. A handler without an end was running until its process was killed; its
    slot stays in use until the lease ends, so that no other action may start earlier. The ledger's server completes
    the statements of a dead process, so that a start can be recorded after the end of the process.
    """
    uses = defaultdict(list)
    for run in runs:
        row = rows[run.action_id]
        assert run.ended_at is not None or run.pid in killed, run
        ended_at = run.ended_at or max(killed[run.pid], run.started_at)
        for key in row["limit_keys"]:
            scope = "" if key.startswith("shared:") else row["team_id"] or ""
            uses[scope, key].append(Use(run.started_at, ended_at, run.action_id))
    return uses


def most_at_once(uses):
    """Return the largest number of runs at the same time."""
    changes = sorted([(use.started_at, 1) for use in uses] + [(use.ended_at, -1) for use in uses])
    running = most = 0
    for _, change in changes:
        running += change
        most = max(most, running)
    return most


def _too_fast(uses, moved_at):
    """Return, by key, spans with more starts than the rate allows: their number, seconds and the number allowed.

    The rate is taken by the claim. A start follows its claim after at most `max_run_seconds`, so that the starts of a
    span were claimed in a span that is longer by that time; a claim that is returned instead allows one more start, up
    to once more the burst.
    """
    found = {}
    for key, those in uses.items():
        if _prefix(key) not in RATES:
            continue
        rate, burst = RATES[_prefix(key)]
        for part in (
            [use.started_at for use in those if use.started_at <= moved_at],
            [use.started_at for use in those if use.started_at > moved_at],
        ):
            for first in range(len(part)):
                for last in range(first + 1, len(part)):
                    seconds = (part[last] - part[first]) / timedelta(seconds=1)
                    allowed = 2 * burst + rate * (seconds + TOLERANCE_SECONDS)
                    if last - first + 1 > allowed:
                        found[key] = last - first + 1, seconds, allowed
    return found


def _out_of_order(uses, rows):
    """Return the pairs of first runs of a key that started in another order than that of their priorities."""
    wrong = []
    for key, those in uses.items():
        if _prefix(key) == "ordered":
            priorities = [rows[one]["priority"] for one in dict.fromkeys(use.action_id for use in those)]
            wrong += [(key, *pair) for pair in pairwise(priorities) if pair[0] > pair[1]]
    return wrong


def test_a_handler_that_ignores_its_timeout_keeps_its_slot_until_it_returns(project, serve, actions, ledger):
    (project / "scheduled_actions.toml").write_text(SETTINGS)
    [late] = actions.schedule(
        {"action_type": "proof:work", "payload": {"seconds": 4}, "max_attempts": 1, "limit": "one:late"}
    )
    service = serve(workers=2, **TICKS | {"default_timeout_seconds": 1})

    with Pings([service.port], clients=4):
        wait_until(lambda: actions.one(late)["status"] == "failed", within=60, what="the handler has timed out")
        [next_one] = actions.schedule({"action_type": "proof:work", "limit": "one:late"})
        wait_until(lambda: actions.one(next_one)["status"] == "completed", within=60, what="the next action has run")

    [first, second] = ledger.runs()
    assert (first.action_id, second.action_id) == (late, next_one)
    assert "timed out" in actions.one(late)["error_message"]
    assert first.ended_at is not None
    assert second.started_at >= first.ended_at
    # The slot was freed when the handler returned: the lease had not ended.
    assert second.started_at < first.started_at + timedelta(seconds=LEASE_SECONDS)
