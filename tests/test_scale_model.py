"""The model of proofs/scale: what a rate of actions needs, and what reaches its limit first."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from proofs.scale.cpu import cpu_seconds
from proofs.scale.model import (
    CLAIM,
    PRUNE,
    RECEIVE,
    RUN,
    SCHEDULE,
    SEND,
    SETTLE,
    TAKE_OVER,
    Assumptions,
    Cost,
    Path,
    needs,
)
from proofs.scale.tables import limits_table, needs_table, number, steps_table

#: 1,000 µs of a process that ticks, 2,000 of a worker, 3,000 of Postgres, 100 of the broker.
COSTS = {
    SCHEDULE: Cost(process=100, postgres=200, wal_bytes=400, statements=1),
    CLAIM: Cost(process=400, postgres=800, wal_bytes=1_000, statements=1),
    SEND: Cost(process=500, broker=40, commands=1),
    RECEIVE: Cost(process=500, broker=60, commands=9),
    TAKE_OVER: Cost(process=900, postgres=1_500, wal_bytes=600, statements=2),
    RUN: Cost(process=100),
    SETTLE: Cost(process=500, postgres=400, wal_bytes=400, statements=1),
    PRUNE: Cost(process=100, postgres=100, wal_bytes=100, statements=0.1),
}
CELERY = Path(
    name="celery",
    costs=COSTS,
    worker_steps=frozenset({RECEIVE, TAKE_OVER, RUN, SETTLE}),
    handlers=1,
    has_broker=True,
)
TICKS = Path(
    name="ticks",
    costs={step: COSTS[step] for step in (SCHEDULE, CLAIM, RUN, SETTLE, PRUNE)},
    handlers=8,
)
EVEN = Assumptions(busy=0.5, handler_seconds=0.095, database_cores=12, wal_megabytes=1, connections=100, pruned=10**9)


def test_the_cpu_time_of_a_rate_is_divided_between_ticks_workers_postgres_and_broker():
    share = CELERY.cpu(100)

    assert share == pytest.approx((0.1, 0.2, 0.3, 0.01))


def test_the_cpu_time_of_some_steps_leaves_the_others_out():
    share = CELERY.cpu(100, steps=[SEND, TAKE_OVER])

    assert share == pytest.approx((0.05, 0.09, 0.15, 0.004))


def test_a_rate_needs_processes_connections_commands_and_cores():
    found = needs(CELERY, 100, EVEN)

    # A slot is occupied for 95 ms of the handler, and 3.9 ms of the worker's steps; half of the slots are used.
    assert found.workers == 20
    # 100 µs of scheduling, and 1,000 µs of ticks, with half of a core each.
    assert (found.schedulers, found.ticks) == (1, 1)
    assert found.connections == 1 + 3 + 20
    assert found.broker_commands == pytest.approx(1_000)
    assert found.postgres_cores == pytest.approx(0.3)
    assert found.wal_megabytes == pytest.approx(0.25)
    assert (found.databases, found.brokers) == (1, 1)


def test_databases_are_added_when_cpu_or_wal_of_one_is_exhausted():
    # Half of 12 cores are 2,000 actions a second of 3,000 µs; a megabyte of WAL is 400 of 2,500 bytes.
    assert needs(CELERY, 400, EVEN).databases == 1
    assert needs(CELERY, 401, EVEN).databases == 2
    assert needs(CELERY, 2_001, replace(EVEN, wal_megabytes=100)).databases == 2


def test_brokers_are_added_when_a_core_of_one_is_exhausted():
    assert needs(CELERY, 5_000, EVEN).brokers == 1
    assert needs(CELERY, 5_001, EVEN).brokers == 2


def test_without_a_broker_ticks_run_the_handlers():
    found = needs(TICKS, 100, replace(EVEN, handler_seconds=0.5))

    assert (found.workers, found.brokers, found.broker_commands) == (0, 0, 0)
    # 100 handlers at once with half of the slots, each 0.5 s and 2.4 ms: 13 processes of 8.
    assert found.ticks == 13


@pytest.mark.parametrize(
    ("changes", "first"),
    [
        ({"database_cores": 0.1}, "CPU of Postgres"),
        ({"wal_megabytes": 0.01}, "WAL of Postgres"),
        ({"connections": 1}, "connections of Postgres"),
        ({"pruned": 1}, "prune by one tick a minute"),
        ({"outstanding": 1}, "`outstanding` of one executor"),
        ({"connections": 10_000, "wal_megabytes": 100}, "one core of one process that ticks"),
    ],
)
def test_the_first_limit_is_the_one_with_the_lowest_rate(changes, first):
    assert needs(CELERY, 1, replace(EVEN, **changes)).first_limit == first


def test_tickets_that_share_a_message_share_its_cost():
    shared = Cost(process=500, broker=60, commands=9).divided(10)

    assert (shared.process, shared.broker, shared.commands) == pytest.approx((50, 6, 0.9))


def test_the_tables_show_steps_needs_and_the_first_limit():
    paths = [TICKS, CELERY]

    assert "| sum | 3,100 | 3,000 | 100 | 2,500 | 5.1 | 10 |" in steps_table(CELERY)
    assert needs_table(paths, EVEN).count("\n") == 1 + 3 * len(paths)
    assert "| WAL of Postgres | 32,000 | **24,000** |" in limits_table(paths, EVEN)


@pytest.mark.parametrize(("value", "text"), [(0, ""), (0.123, "0.12"), (4.5, "4.5"), (12.4, "12"), (1234.5, "1,234")])
def test_numbers_have_few_digits(value, text):
    assert number(value) == text


def test_the_cpu_time_of_a_process_grows_with_its_work():
    before = cpu_seconds([os.getpid()])
    while cpu_seconds([os.getpid()]) < before + 0.05:
        sum(range(10_000))

    assert cpu_seconds([2**22 + 1]) == 0
