"""Claims of executors: in order, with lock groups, limits and pauses, and never twice."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import psycopg
import pytest

from scheduled_actions import action
from scheduled_actions.actions import claims, settling
from scheduled_actions.actions.claims import ClaimResult
from scheduled_actions.core import config
from scheduled_actions.core.action import Status
from scheduled_actions.executors import claims as executor_claims
from scheduled_actions.executors.claims import ExecutorQueue
from scheduled_actions.executors.store import write_executors
from scheduled_actions.limits import claims as limit_claims, parking, store
from scheduled_actions.limits.handler_limits import HandlerLimits
from scheduled_actions.registry import Registry
from tests.factories import a_tick, an_outcome, database_now, holds, insert, insert_many, move_clock, row, together

MEDIA = {"media": {"types": ["video:*"]}}
SETTINGS = config.settings_of({})
IN_ORDER = config.settings_of({"fair_by_team": False})


def executors(connection, table=MEDIA, *, replace=True):
    write_executors(connection, config.settings_of({"executors": table}).executors, replace=replace)


def limits(connection, table):
    store.write_rules(connection, config.settings_of({"limits": table}).limits)


@pytest.fixture(autouse=True)
def media(connection):
    executors(connection)


def video(connection, **columns):
    return insert(connection, **{"action_type": "video:render"} | columns)


def videos(connection, count, **columns):
    return insert_many(connection, count, **{"action_type": "video:render"} | columns)


def a_queue(executor="media", *hooks, settings=SETTINGS):
    return ExecutorQueue(executor, hooks, settings)


def claim(connection, *, wanted=100, queue=None, lease_seconds=60):
    return (queue or a_queue()).claim(connection, wanted=wanted, lease_seconds=lease_seconds).kept


def ids(claimed):
    return [one.id for one in claimed]


def claim_of_tick(connection, *, wanted=100):
    """Claim as a tick does, without and with a lock group and from the queues of limit keys; return the ids."""
    tick, scan = a_tick(connection), {"after": claims.START, "excluded": ()}
    found = limit_claims.find_queued(connection, wanted=wanted, after=limit_claims.START, excluded=()).candidates
    limit_claims.insert_keys(connection, {key for one in found for key in one.keys})
    with connection.transaction():
        free, _ = claims.claim_free(connection, tick, wanted=wanted, **scan)
        others, _ = claims.claim_free_of_others(connection, tick, wanted=wanted, left_out=["x"], **scan)
    with connection.transaction():
        grouped, _ = claims.claim_grouped(connection, tick, wanted=wanted, **scan)
    with connection.transaction():
        queued = limit_claims.claim_queued(connection, tick, found)
    return ids([*free, *others, *grouped, *queued])


def settle(connection, *claimed, **changes):
    outcomes = [an_outcome(one, **changes) for one in claimed]
    return settling.settle(connection, a_tick(connection), outcomes, running=None).statuses


# -- what is claimed ---------------------------------------------------------------------------------------------------


def test_due_actions_of_the_executor_are_claimed_with_a_lease_of_their_own(connection):
    due, other = video(connection), insert(connection)
    later = video(connection, scheduled_at=database_now(connection) + timedelta(hours=1))

    before = database_now(connection)
    claimed = claim(connection, lease_seconds=300)

    assert ids(claimed) == [due]
    stored = row(connection, due)
    assert (stored["status"], stored["executor"], stored["parked_by"]) == ("processing", "media", None)
    assert stored["announced_at"] is stored["worker_id"] is None
    assert stored["claim_token"] == str(claimed[0].token)
    lease_seconds = connection.execute(
        "select extract(epoch from lease_expires_at - %s)::float8 from scheduled_actions where id = %s", [before, due]
    ).fetchone()[0]
    assert 299 <= lease_seconds <= 320
    assert {row(connection, one)["status"] for one in (other, later)} == {"pending"}


def test_an_executor_that_is_not_in_the_database_claims_nothing(connection):
    video(connection)

    assert claim(connection, queue=a_queue("unknown")) == []


def test_each_executor_claims_its_own_types(connection):
    executors(connection, {"media": {"types": ["video:*"]}, "gpu": {"types": ["model_run", "model:*"]}})
    one, exact = video(connection), insert(connection, action_type="model_run")
    # An underscore is no placeholder.
    local = insert(connection, action_type="modelXrun")

    assert ids(claim(connection, queue=a_queue("gpu"))) == [exact]
    assert ids(claim(connection)) == [one]
    assert claim_of_tick(connection) == [local]


def test_actions_are_claimed_by_priority_and_then_by_time(connection):
    now = database_now(connection)
    late = video(connection, scheduled_at=now - timedelta(seconds=10))
    early = video(connection, scheduled_at=now - timedelta(seconds=20))
    urgent = video(connection, priority=-5, scheduled_at=now - timedelta(seconds=5))
    limits(connection, {"api": {"at_once": 5}})
    limited = video(connection, limit_keys=["api"], scheduled_at=now - timedelta(seconds=15))

    assert ids(claim(connection)) == [urgent, early, limited, late]


def test_a_claim_takes_the_first_actions_of_a_long_queue(connection):
    queued = videos(connection, 30)

    assert ids(claim(connection, wanted=10)) == queued[:10]
    assert ids(claim(connection, wanted=10)) == queued[10:20]
    assert claim(connection, wanted=0) == []


def test_two_workers_and_a_tick_that_claim_at_once_get_different_actions(connection, database_url):
    mine = videos(connection, 300)
    local = insert_many(connection, 60)
    grouped = videos(connection, 60, lock_group="g")

    def work(own, number):
        got, queue = [], a_queue(settings=IN_ORDER if number else SETTINGS)
        for _ in range(40):
            got += claim_of_tick(own, wanted=7) if number == 2 else ids(claim(own, wanted=13, queue=queue))
        return got

    *workers, tick = together(database_url, 3, work)

    taken = Counter(one for got in workers for one in got)
    assert set(taken.values()) == {1}
    # The others of the group wait for the first.
    assert set(taken) == {*mine, grouped[0]}
    assert Counter(tick) == Counter(local)


def test_an_action_locked_by_another_transaction_is_passed_over(connection, database_url):
    first, second = videos(connection, 2)
    assert claim(connection, wanted=2, queue=a_queue("unknown")) == []  # parks them

    with psycopg.connect(database_url) as other:
        other.execute("select from scheduled_actions where id = %s for update", [first])
        assert ids(claim(connection)) == [second]


@pytest.mark.parametrize("settings", [SETTINGS, IN_ORDER], ids=["fair", "in order"])
def test_actions_that_other_workers_are_claiming_are_replaced_with_the_next(connection, database_url, settings):
    queued = videos(connection, 30)
    assert claim(connection, queue=a_queue("unknown")) == []  # parks them

    with psycopg.connect(database_url) as other:
        other.execute("select from scheduled_actions where id = any (%s) for update", [queued[:20]])
        assert ids(claim(connection, wanted=3, queue=a_queue(settings=settings))) == queued[20:23]


def test_a_lock_group_that_another_worker_takes_is_replaced_with_the_next(connection, database_url):
    queued = [video(connection, lock_group=f"g{n}") for n in range(3)]
    assert claim(connection, queue=a_queue("unknown")) == []

    with psycopg.connect(database_url) as other:
        other.execute("select from scheduled_actions where id = %s for update", [queued[0]])
        assert ids(claim(connection, wanted=1)) == [queued[1]]
    assert set(holds(connection)) == {"g1"}


def test_an_expired_action_is_left_to_ticks(connection):
    expired = video(connection, expires_at=database_now(connection) - timedelta(seconds=1))
    limits(connection, {"api": {"at_once": 5}})
    limited = video(connection, limit_keys=["api"], expires_at=database_now(connection) - timedelta(seconds=1))

    assert claim(connection) == []

    with connection.transaction():
        ended = limit_claims.claim_expired(connection, a_tick(connection), limit=10)
    assert {one.id: one.expired_while for one in ended} == {expired: "queue:media", limited: "limit"}


# -- teams -------------------------------------------------------------------------------------------------------------


def test_teams_take_turns_within_and_across_claims(connection):
    large = videos(connection, 40, team_id="large")
    small = videos(connection, 3, team_id="small")
    queue = a_queue()

    got = [ids(claim(connection, wanted=wanted, queue=queue)) for wanted in (3, 1, 1, 1, 1, 1)]

    assert got == [[large[0], small[0], large[1]], [small[1]], [large[2]], [small[2]], [large[3]], [large[4]]]


def test_a_team_behind_a_long_queue_of_another_gets_its_turn(connection, monkeypatch):
    monkeypatch.setattr(executor_claims, "WINDOW", 20)
    large = videos(connection, 200, team_id="large")
    small = videos(connection, 2, team_id="small")

    assert ids(claim(connection, wanted=4)) == [large[0], small[0], large[1], small[1]]


def test_a_team_far_behind_a_long_queue_gets_its_turn_within_the_time_for_searches(connection, monkeypatch):
    monkeypatch.setattr(executor_claims, "WINDOW", 20)
    monkeypatch.setattr(executor_claims, "WIDE_WINDOW", 50)
    clock = iter(range(10_000))
    queue = ExecutorQueue("media", (), SETTINGS, lambda: float(next(clock)))
    videos(connection, 300, team_id="large")
    (small,) = videos(connection, 1, team_id="small")

    # A search takes a second of this clock, and reads 50 actions; the next begins 20 seconds later.
    claimed = [ids(claim(connection, wanted=1, queue=queue)) for _ in range(150)]

    assert [small] in claimed


def test_without_fairness_actions_are_claimed_in_order(connection):
    large = videos(connection, 5, team_id="large")
    videos(connection, 5, team_id="small")

    assert ids(claim(connection, wanted=5, queue=a_queue(settings=IN_ORDER))) == large


# -- lock groups -------------------------------------------------------------------------------------------------------


def test_only_the_first_due_action_of_a_lock_group_runs_until_it_is_settled(connection):
    first, second = videos(connection, 2, lock_group="g")
    other = video(connection, lock_group="g", team_id="red")
    queue = a_queue()

    claimed = {one.id: one for one in claim(connection, queue=queue)}

    assert set(claimed) == {first, other}
    assert claim(connection, queue=queue) == []
    settle(connection, claimed[first])
    assert ids(claim(connection, queue=queue)) == [second]
    held = connection.execute("select team_id, action_id from scheduled_action_holds").fetchall()
    assert dict(held) == {"": second, "red": other}


@pytest.mark.parametrize("first_type", ["video:render", "test:run"])
def test_a_lock_group_of_types_of_an_executor_and_of_ticks_runs_in_order(connection, first_type):
    second_type = "test:run" if first_type == "video:render" else "video:render"
    now = database_now(connection)
    at = iter(now - timedelta(seconds=seconds) for seconds in (30, 20, 10))
    first = insert(connection, action_type=first_type, lock_group="g", scheduled_at=next(at))
    second = insert(connection, action_type=second_type, lock_group="g", scheduled_at=next(at))
    third = insert(connection, action_type=first_type, lock_group="g", scheduled_at=next(at))

    def claim_each():
        by_worker = claim(connection)
        return by_worker, claim_of_tick(connection)

    for expected in (first, second, third):
        by_worker, by_tick = claim_each()
        assert [*ids(by_worker), *by_tick] == [expected]
        assert bool(by_worker) == (row(connection, expected)["action_type"] == "video:render")
        connection.execute("delete from scheduled_action_holds where action_id = %s", [expected])
        connection.execute(
            "update scheduled_actions set status = 'completed', claim_token = null, lease_expires_at = null"
            " where id = %s", [expected],
        )  # fmt: skip


def test_a_member_that_becomes_due_during_a_claim_is_not_overtaken(connection, database_url, monkeypatch):
    video(connection, lock_group="g")
    admit, urgent = limit_claims.admit_candidates, []

    def admit_later(own, candidates):
        if not urgent:
            with psycopg.connect(database_url, autocommit=True) as other:
                urgent.append(video(other, lock_group="g", priority=-5))
        return admit(own, candidates)

    monkeypatch.setattr(limit_claims, "admit_candidates", admit_later)

    assert claim(connection) == []
    assert holds(connection) == {}
    assert ids(claim(connection)) == urgent


def test_an_action_that_kept_its_lock_group_is_claimed_again_before_others(connection):
    first = video(connection, lock_group="g", lock_group_blocks=True)
    video(connection, lock_group="g")
    (claimed,) = claim(connection)

    settle(connection, claimed, status=Status.PENDING, delay=timedelta(0), error="not now", hold="keep")

    assert holds(connection) == {"g": first}
    assert ids(claim(connection)) == [first]


def test_actions_behind_many_that_wait_for_their_group_are_found(connection, monkeypatch):
    monkeypatch.setattr(executor_claims, "WINDOW", 10)
    videos(connection, 100, lock_group="g")
    free = video(connection)
    queue = a_queue(settings=IN_ORDER)

    got = [one for _ in range(5) for one in ids(claim(connection, wanted=2, queue=queue))]

    assert free in got


# -- limits ------------------------------------------------------------------------------------------------------------


def test_a_limit_holds_for_ticks_and_workers_together(connection):
    limits(connection, {"api": {"at_once": 3}})
    limited = videos(connection, 2, limit_keys=["api"])
    local = insert_many(connection, 2, limit_keys=["api"], parked_by="limit")

    by_worker = claim(connection)
    by_tick = claim_of_tick(connection)

    assert ids(by_worker) == limited
    assert by_tick == local[:1]
    assert claim(connection) == []
    settle(connection, by_worker[0])
    assert claim_of_tick(connection) == local[1:]


def test_local_actions_behind_many_of_an_executor_in_the_queue_of_a_key_run_without_workers(connection):
    limits(connection, {"api": {"at_once": 3}})
    videos(connection, 600, limit_keys=["api"], parked_by="limit")
    local = insert(connection, limit_keys=["api"], parked_by="limit")

    assert claim_of_tick(connection) == [local]


def test_a_rate_holds_for_ticks_and_workers_together(connection):
    limits(connection, {"api": {"rate": "1 per minute"}})
    local = insert(connection, limit_keys=["api"], parked_by="limit")
    mine = video(connection, limit_keys=["api"])

    assert claim_of_tick(connection) == [local]
    assert claim(connection) == []
    move_clock(connection, timedelta(seconds=61))
    assert ids(claim(connection)) == [mine]


def test_workers_and_ticks_that_claim_at_once_never_exceed_a_limit_or_share_a_group(connection, database_url):
    limits(connection, {"api": {"at_once": 3}})
    columns = [{"limit_keys": ["api"], "lock_group": f"g{n}"} for n in range(2)]
    for n in range(40):
        insert(connection, action_type="video:render" if n % 2 else "test:run", **columns[n // 2 % 2])
    insert_many(connection, 20, action_type="video:render", limit_keys=["api"])
    insert_many(connection, 20, limit_keys=["api"], parked_by="limit")
    running_most = []

    def work(own, number):
        queue, got = a_queue(), 0
        for _ in range(2_000):
            if number % 2:
                claimed = claim(own, wanted=5, queue=queue)
                found = ids(claimed)
            else:
                found = claim_of_tick(own, wanted=5)
            count, groups = own.execute(
                "select count(*), count(*) filter (where lock_group is not null) - count(distinct lock_group)"
                " from scheduled_actions where status = 'processing'"
            ).fetchone()
            running_most.append((count, groups))
            if not found and not own.execute("select from scheduled_actions where status = 'pending'").rowcount:
                break
            got += len(found)
            with own.transaction():
                own.execute(
                    "update scheduled_actions set status = 'completed', claim_token = null, lease_expires_at = null"
                    " where id = any (%s)", [found],
                )  # fmt: skip
                own.execute("delete from scheduled_action_holds where action_id = any (%s)", [found])
                own.execute("delete from scheduled_action_limit_slots where action_id = any (%s)", [found])
        return got

    got = together(database_url, 4, work)

    assert max(count for count, _ in running_most) == 3
    assert {shared for _, shared in running_most} == {0}
    assert sum(got) == 80
    assert holds(connection) == {}


def test_limit_keys_that_a_handler_declares_apply_to_workers(connection):
    @action("video:render", limit="api:{team_id}")
    def render(payload: dict):
        pass

    limits(connection, {"api:*": {"at_once": 1}})
    first, second = videos(connection, 2, team_id="red")
    queue = a_queue("media", HandlerLimits(Registry.of(render), ["api:*"]))

    result = queue.claim(connection, wanted=10, lease_seconds=60)
    assert (result.kept, result.has_queued) == ([], True)
    assert row(connection, first)["executor"] is None
    claimed = claim(connection, queue=queue)

    assert ids(claimed) == [first]
    assert claim(connection, queue=queue) == []
    settle(connection, *claimed)
    assert ids(claim(connection, queue=queue)) == [second]


# -- hooks -------------------------------------------------------------------------------------------------------------


class _Refuses:
    """A claim hook that skips the first action, refuses the second and returns the third to the claims."""

    column = "action_type"

    def __init__(self):
        self.calls = 0

    def after_claim(self, connection, claimed):
        self.calls += 1
        skipped, refused, returned, *kept = claimed
        connection.execute(
            "update scheduled_actions set status = 'pending', claim_token = null, lease_expires_at = null"
            " where id = %s", [returned.id],
        )  # fmt: skip
        return ClaimResult(kept, skipped=[(skipped, "not today")], refused=[(refused, "unreadable")])

    def claim_refused(self, connection, claimed, error):
        raise error


def test_claim_hooks_run_in_the_claiming_transaction_and_what_they_return_is_passed_over(connection):
    a, b, c, d = videos(connection, 4)
    hook = _Refuses()
    queue = a_queue("media", hook)

    result = queue.claim(connection, wanted=4, lease_seconds=60)

    assert ids(result.kept) == [d]
    assert [(one.id, why) for one, why in result.skipped] == [(a, "not today")]
    assert [(one.id, why) for one, why in result.refused] == [(b, "unreadable")]
    # Otherwise, the worker would claim it each time.
    assert queue.claim(connection, wanted=4, lease_seconds=60).kept == []
    assert hook.calls == 1
    assert row(connection, c)["status"] == "pending"


# -- pauses ------------------------------------------------------------------------------------------------------------


def test_a_pause_holds_back_the_actions_of_an_executor_also_those_in_its_queue(connection):
    early = video(connection)
    limits(connection, {"api": {"at_once": 5}})
    limited = video(connection, limit_keys=["api"])
    assert claim(connection, queue=a_queue("unknown")) == []
    connection.execute("select scheduled_actions_pause('action_type', 'video:render')")
    late = video(connection)

    assert claim(connection) == []
    assert claim(connection) == []

    (pause_id,) = connection.execute("select id::text from scheduled_action_pauses").fetchone()
    assert [row(connection, one)["parked_by"] for one in (early, late)] == [pause_id, pause_id]
    connection.execute("select scheduled_actions_resume('action_type', 'video:render')")
    parking.unpark(connection)
    assert set(ids(claim(connection))) == {early, late, limited}
