"""Handlers that never return occupy their thread, but block neither other actions, nor the tick, nor the process."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.faults.actions import EFFECTS
from tests.faults.serving import has_ended, wait_until

pytestmark = pytest.mark.slow

#: The handlers that hang have a timeout of two seconds.
TICKS = {"max_duration_seconds": 6, "max_run_seconds": 4, "default_timeout_seconds": 2}
HANGING = 3
#: More than one wave of actions, which complete long before the hanging ones are abandoned.
QUICK = 24


@pytest.mark.parametrize(
    "action_type", ["proof:hang", "proof:hang-awaiting", "proof:hang-blocking", "proof:hang-in-database"]
)
def test_hanging_handlers_delay_neither_other_settlements_nor_the_answer(
    action_type, serve, actions, connection, record_property
):
    connection.execute(EFFECTS)
    hanging = actions.schedule(*({"action_type": action_type, "max_attempts": 1} for _ in range(HANGING)))
    quick = actions.schedule(*({"action_type": "proof:work", "payload": {"seconds": 0.05}} for _ in range(QUICK)))
    service = serve(workers=1, **TICKS)

    answer = service.ping()
    more = actions.schedule(*({"action_type": "proof:work"} for _ in range(QUICK)))
    next_answer = service.ping()

    assert answer.seconds < TICKS["max_duration_seconds"]
    assert (answer.status, answer.report["succeeded"], answer.report["failed"]) == (200, QUICK, HANGING)
    rows = {row["id"]: row for row in actions.all()}
    given_up = [rows[one] for one in hanging]
    assert {(row["status"], row["attempts"]) for row in given_up} == {("failed", 1)}
    assert {row["error_message"] for row in given_up} == {"timed out after 2 s"}
    # `updated_at` is the time of the settlement: no other action waited for the hanging ones.
    assert max(rows[one]["updated_at"] for one in quick) < min(row["updated_at"] for row in given_up)
    assert (next_answer.status, next_answer.report["succeeded"]) == (200, QUICK)
    assert {actions.one(one)["status"] for one in more} == {"completed"}
    assert connection.execute("select count(*) from effects").fetchone() == (0,)
    record_property("measured", f"answered after {answer.seconds:.2f} s")


def test_a_process_whose_threads_all_hang_answers_in_time_and_is_replaced(serve, actions, ledger, record_property):
    hanging = actions.schedule(*({"action_type": "proof:hang", "max_attempts": 1} for _ in range(2)))
    waiting = actions.schedule(*({"action_type": "proof:work", "max_attempts": 1} for _ in range(QUICK)))
    service = serve(workers=1, concurrency=2, **TICKS)
    [stuck] = service.workers()

    answer = service.ping()
    wait_until(lambda: has_ended(stuck), within=30, what="the stuck process exits")
    wait_until(service.workers, within=30, what="another process replaces it")
    next_answer = service.ping()

    assert answer.seconds < TICKS["max_duration_seconds"]
    assert (answer.status, answer.report["failed"], answer.report["succeeded"]) == (200, 2, 0)
    assert (next_answer.status, next_answer.report["succeeded"]) == (200, QUICK)
    assert actions.statuses() == {"failed": 2, "completed": QUICK}
    assert Counter(run.action_id for run in ledger.runs()) == Counter(hanging + waiting)
    record_property("measured", f"answered after {answer.seconds:.2f} s")
