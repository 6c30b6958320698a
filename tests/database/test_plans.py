"""Statements that read large tables use an index with any filter; their query plans are checked."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest
from psycopg.types.json import Jsonb

from scheduled_actions.actions import claims
from scheduled_actions.core import config
from scheduled_actions.core.action import Status
from scheduled_actions.executors import claims as executor_claims
from scheduled_actions.executors.store import write_executors
from scheduled_actions.limits import store
from scheduled_actions.webhooks import deliveries_store as deliveries
from tests.factories import insert
from tests.statements import statement

_ALL = [status.value for status in Status]
_AN_ID = UUID("0197a000-0000-7000-8000-000000000001")
_ANOTHER_ID = UUID("0197a000-0000-7000-8000-000000000002")
_FILTERS = {
    "statuses": None, "action_type": None, "lock_group": None, "due_from": None, "due_to": None, "q": None,
    "unlocked_for_seconds": None, "team_id": None, "before": None, "scan_size": 500, "candidate_limit": 500,
    "limit": 100, "user_id": None, "target_type": None, "target_id": None, "schedule_id": None, "deadline_id": None,
    "scheduled_by": None, "completed_to": None,
}  # fmt: skip
#: Filters that have an index of their own: of half of the actions, and of one action.
_RELATED = {
    "user_id": [{"user_id": "busy"}, {"user_id": "rare"}],
    "target": [{"target_type": "invoice", "target_id": "busy"}, {"target_type": "invoice", "target_id": "rare"}],
    "schedule_id": [{"schedule_id": _AN_ID}, {"schedule_id": _ANOTHER_ID}],
    "deadline_id": [{"deadline_id": _AN_ID}, {"deadline_id": _ANOTHER_ID}],
    "scheduled_by": [{"scheduled_by": _AN_ID}, {"scheduled_by": _ANOTHER_ID}],
}
_GIVEN = {
    "nothing": {},
    "a cursor": {"before": _AN_ID},
    "statuses": {"statuses": ["failed"]},
    "a type": {"action_type": "rare:run"},
    "a lock group": {"lock_group": "rare"},
    "a time": {"due_from": datetime(2020, 1, 1, tzinfo=UTC), "due_to": datetime(2020, 1, 2, tzinfo=UTC)},
    "a text": {"q": "needle"},
    "the filter of a bulk cancellation": {"statuses": ["pending"], "unlocked_for_seconds": 120},
    "the filter of a bulk retry": {"statuses": ["failed", "cancelled", "skipped"], "action_type": "rare:run"},
}
_INDEX_SCANS = {"Index Scan", "Index Only Scan", "Bitmap Heap Scan"}
_SCAN_START = {"after_priority": None, "after_at": None, "after_id": None, "excluded": [], "wanted": 100, "window": 500}
_READINGS = {
    "scan_actions": {f"with {name}": _FILTERS | given for name, given in _GIVEN.items()},
    "search_actions": {
        f"of {whose}, with {name}": _FILTERS | {"statuses": _ALL} | given | {"team_id": team_id}
        for whose, team_id in (("a team", "team-1"), ("all", None))
        for name, given in _GIVEN.items()
    },
    "search_related": {
        f"of {source} {number}, with {name}": _FILTERS | {"source": source} | related | given
        for source, relations in _RELATED.items()
        for number, related in enumerate(relations)
        for name, given in _GIVEN.items()
    },
    "get_actions": {"": {"ids": [_AN_ID]}},
    "summarize_actions": {"": {"ids": [_AN_ID]}},
    "get_action": {"": {"id": _AN_ID, "team_id": None}},
    "count_actions": {"": {"most": 500}},
    "count_team": {"": {"team_id": "team-1", "statuses": _ALL, "most": 500, "overdue_seconds": 300}},
    "due_actions": {"": {"most": 500, "overdue_seconds": 300}},
    "count_due": {"": {}},
    "count_patterns": {"": {"most": 500}},
    "doctor_limits": {"": {"most": 500, "most_names": 20, "seconds": 600}},
    "doctor_work": {"": {"most": 500, "most_results": 500, "most_names": 20}},
    "parent_action": {"": {"id": _AN_ID, "team_id": None}},
    "claim_expired": {"": {"limit": 500, "token": _AN_ID, "lease_expires_at": datetime(2020, 1, 1, tzinfo=UTC)}},
    "find_upcoming": {"": {"holder": "listen:1", "window_seconds": 60}},
    "find_others": {"": _SCAN_START | {"left_out": ["team-1"]}},
    "retry_action": {"": {"id": _AN_ID, "team_id": None, "by": None}},
    "run_now": {"": {"id": _AN_ID, "team_id": None, "by": None}},
}


@pytest.fixture(scope="module")
def filled(shared_connection):
    """Return a connection to a database with large tables, which no test of this module changes."""
    fill(shared_connection)
    fill_deliveries(shared_connection)
    fill_deadlines(shared_connection)
    fill_facts(shared_connection)
    return shared_connection


def fill(connection, *, analyzes=True):
    """Insert twenty thousand actions; if wanted, update the planner's statistics."""
    connection.execute(
        "insert into scheduled_actions (action_type, status, team_id, lock_group, scheduled_at, completed_at,"
        " user_id, target_type, target_id, schedule_id, occurrence_at, deadline_id, deadline_stage, scheduled_by)"
        " select 'test:run', s.status, 'team-' || n %% 10, case when n %% 5 = 0 then 'g-' || n %% 50 end,"
        " now() + (n - 10000) * interval '1 second', case when s.status = 'completed' then now() end,"
        " r.user_id, 'invoice', r.user_id, r.id, now() + n * interval '1 second', r.id, n::text, r.id"
        " from generate_series(1, 20000) n"
        " cross join lateral (select case when n %% 3 = 0 then 'pending' else 'completed' end as status) s"
        " left join (values ('busy', %(busy)s::uuid), ('rare', %(rare)s)) r (user_id, id)"
        " on r.user_id = case when n %% 2 = 0 then 'busy' when n = 1 then 'rare' end",
        {"busy": _AN_ID, "rare": _ANOTHER_ID},
    )
    insert(connection, action_type="rare:run", status="failed", completed_at=datetime(2020, 1, 1, tzinfo=UTC))
    if analyzes:
        connection.execute("vacuum (analyze) scheduled_actions")


def scanned(plan, found=None):
    """Return how each node of a plan reads the table of actions."""
    found = [] if found is None else found
    if plan.get("Relation Name") == "scheduled_actions" and "Scan" in plan["Node Type"]:
        found.append(plan["Node Type"])
    for below in plan.get("Plans", ()):
        scanned(below, found)
    return found


def test_every_reading_statement_of_the_api_uses_an_index_with_any_filter(filled):
    ways = {
        f"{name} {case}".strip(): scanned(
            filled.execute("explain (format json) " + statement(name), parameters).fetchone()[0][0]["Plan"]
        )
        for name, cases in _READINGS.items()
        for case, parameters in cases.items()
    }

    assert all(ways.values()), "each reads the table"
    assert {name: used for name, used in ways.items() if not set(used) <= _INDEX_SCANS} == {}


def fill_waits(connection):
    """Insert twenty thousand waits, all of them due for a check."""
    connection.execute(
        "insert into scheduled_action_waits (topic, action_id, checked_at)"
        " select gen_random_uuid(), a.id, '2020-01-01' from scheduled_actions a"
    )
    connection.execute("vacuum (analyze) scheduled_action_waits")


def test_pruning_waits_reads_a_limited_number_of_waits_and_actions(connection):
    fill(connection)
    fill_waits(connection)

    plan = plan_of(connection, "prune_waits", {"limit": 100})

    assert loops(plan, "scheduled_actions_pkey") == 100
    assert rows_read(plan) <= 1000


@pytest.mark.parametrize("count", [2, 500])
def test_settling_waiting_actions_looks_them_up_by_key(connection, count):
    fill(connection)
    ids = [one for (one,) in connection.execute("select id from scheduled_actions limit %s", [count])]
    connection.execute("begin")
    connection.execute(
        "update scheduled_actions set status = 'processing', claim_token = id, lease_expires_at = now(),"
        " completed_at = null where id = any (%s)",
        [ids],
    )
    parameters = {
        "ids": ids, "tokens": ids, "versions": [""] * count, "seconds": [60.0] * count, "changes_at": [None] * count,
        "reasons": ["x"] * count, "holds": ["free"] * count, "tick_id": _AN_ID, "worker_id": None, "patience_ms": "100",
        "are_unclaimed": False,
    }  # fmt: skip

    plan = plan_of(connection, "settle_waiting", parameters)

    assert rows_read(plan) <= 10 * count


def plan_of(connection, name, parameters):
    """Run a statement; return its plan with the number of rows that each node has read."""
    ((plan,),) = connection.execute("explain (analyze, format json) " + statement(name), parameters).fetchone()
    return plan["Plan"]


def rows_read(plan):
    """Return the number of rows that the scans of a plan have read, including rows removed by filters."""
    own = 0
    if "Scan" in plan["Node Type"] and "Relation Name" in plan:
        own = (plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)) * plan["Actual Loops"]
    return own + sum(rows_read(below) for below in plan.get("Plans", ()))


@pytest.mark.parametrize(("status", "looked_up"), [("completed", 0), ("failed", 1)])
def test_only_actions_of_a_rare_status_are_looked_up_by_id(filled, status, looked_up):
    parameters = _FILTERS | {"statuses": [status], "candidate_limit": 500}

    plan = plan_of(filled, "search_actions", parameters)

    assert loops(plan, "scheduled_actions_pkey") == looked_up


@pytest.mark.parametrize(
    ("source", "related", "count"),
    [
        (source, related, count)
        for source, both in _RELATED.items()
        for related, count in zip(both, (500, 1), strict=True)
    ],
)
@pytest.mark.parametrize("given", [{}, {"action_type": "rare:run"}], ids=["alone", "with a type"])
def test_a_page_of_related_actions_reads_no_other_actions_and_a_bounded_number(filled, source, related, count, given):
    parameters = _FILTERS | {"source": source} | related | given

    candidates, *_ = filled.execute(statement("search_related"), parameters).fetchone()
    plan = plan_of(filled, "search_related", parameters)

    assert candidates == count
    assert rows_read(plan) <= 2 * count


def fill_deliveries(connection):
    """Insert five thousand deliveries in addition to the other actions."""
    connection.execute(
        "insert into scheduled_actions (action_type, payload, scheduled_at)"
        ' select \'webhook:send\', \'{"endpoint": "busy", "event": "a:b"}\', now() from generate_series(1, 5000)'
    )
    connection.execute("vacuum (analyze) scheduled_actions")


@pytest.mark.parametrize(
    "given",
    [{}, {"before": _AN_ID}, {"endpoint": "rare"}, {"event": "rare:made"}, {"team_id": "t", "status": "failed"}],
)
def test_a_page_of_deliveries_reads_no_other_actions_and_a_bounded_number_of_deliveries(filled, given):
    parameters = dict.fromkeys(["status", "endpoint", "event", "team_id", "before"]) | given

    plan = plan_of(filled, "find_deliveries", parameters | {"limit": 101, "examined": 1000})

    assert loops(plan, "scheduled_actions_deliveries") >= 1
    assert rows_read(plan) <= 2100


def test_deliveries_of_a_rare_filter_are_found_in_pages_that_each_examine_few_deliveries(connection):
    connection.execute(
        "insert into scheduled_actions (action_type, payload, scheduled_at) select 'webhook:send',"
        " jsonb_build_object('endpoint', case when n % 100 = 50 then 'rare' else 'busy' end, 'event', 'a:b'), now()"
        " from generate_series(1, 250) n order by n"
    )
    found, before, pages = [], None, 0
    while pages == 0 or before is not None:
        some, before = deliveries.find(connection, endpoint="rare", before=before, limit=10, examined=100)
        found += some
        pages += 1

    assert (len(found), pages) == (3, 3)
    assert deliveries.find(connection, endpoint="busy", limit=247)[1] is None


_DEADLINE_FILTERS = dict.fromkeys(
    ["before", "status", "team_id", "user_id", "target_type", "target_id", "name", "series_id", "due_from", "due_to"]
) | {"is_overdue": False, "limit": 100}
_FACT_FILTERS = dict.fromkeys(["team_id", "target_type", "target_id", "name", "before"]) | {"limit": 100}


def fill_deadlines(connection):
    """Insert twenty thousand deadlines, nearly all of them completed and of one team."""
    connection.execute(
        "insert into scheduled_action_deadlines (name, team_id, target_type, target_id, status, due_at, closed_at)"
        " select 'n-' || n, 'big', 'license', n::text, s.status, now() + n * interval '1 minute',"
        " case when s.status = 'completed' then now() end"
        " from generate_series(1, 20000) n"
        " cross join lateral (select case when n % 4 = 0 then 'open' else 'completed' end as status) s"
    )
    connection.execute(
        "insert into scheduled_action_deadlines"
        " (team_id, target_type, target_id, status, due_at, missed_at, recipients)"
        " values ('small', 'rare', '1', 'missed', now() + interval '1 day', now(), '[\"ann\"]')"
    )
    connection.execute("vacuum (analyze) scheduled_action_deadlines")


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"team_id": "small"},
        {"status": "missed"},
        {"team_id": "big", "status": "missed"},
        {"user_id": "ann"},
        {"target_type": "rare", "target_id": "1"},
        {"name": "n-7"},
        {"due_to": datetime(2020, 1, 1, tzinfo=UTC)},
        {"team_id": "small", "is_overdue": True},
    ],
    ids=str,
)
def test_a_list_of_deadlines_reads_few_other_deadlines_with_any_filter(filled, given):
    plan = plan_of(filled, "list_deadlines", _DEADLINE_FILTERS | given)

    assert rows_read(plan) <= 500


@pytest.mark.parametrize("team_id", ["small", None])
def test_the_next_deadlines_of_a_small_team_are_found_without_scanning_those_of_a_large_team(filled, team_id):
    parameters = {"team_id": team_id, "within_seconds": 86400 * 30, "limit": 10}

    found = filled.execute(statement("near_deadlines"), parameters).fetchall()
    plan = plan_of(filled, "near_deadlines", parameters)

    assert [row[2] for row in found] == (["rare"] if team_id else ["license"] * 10)
    assert rows_read(plan) <= 50


def fill_facts(connection, *, analyzes=True):
    """Insert twenty thousand facts, nearly all of one team and about targets of one type."""
    connection.execute(
        "insert into scheduled_action_facts (team_id, target_type, target_id, name, value)"
        " select 'big', 'order', n::text, 'state', '1' from generate_series(1, 20000) n"
    )
    connection.execute(
        "insert into scheduled_action_facts (team_id, target_type, target_id, name, value)"
        " values ('small', 'order', '0', 'state', '1'), ('big', 'rare', '1', 'state', '1'),"
        " ('big', 'x', '1', 'rare', '1')"
    )
    if analyzes:
        connection.execute("vacuum (analyze) scheduled_action_facts")


@pytest.mark.parametrize(
    "given",
    [{}, {"team_id": "small"}, {"target_type": "rare", "target_id": "1"}, {"name": "rare"}, {"team_id": ""}],
    ids=str,
)
def test_a_list_of_facts_reads_few_other_facts_with_any_filter(filled, given):
    plan = plan_of(filled, "list_facts", _FACT_FILTERS | given)

    assert rows_read(plan) <= 500


def test_the_pending_deliveries_of_an_endpoint_are_counted_without_scanning_those_of_others(connection):
    connection.execute(
        "insert into scheduled_actions (action_type, payload, scheduled_at)"
        " select 'webhook:send', jsonb_build_object('endpoint', case when n % 1000 = 0 then 'quiet' else 'busy' end),"
        " now() + n * interval '1 second' from generate_series(1, 20000) n"
    )
    connection.execute("vacuum (analyze) scheduled_actions")
    parameters = {"endpoints": ["quiet", "busy", "none"], "most": 1000, "concurrency": 8}

    found = connection.execute(statement("endpoint_queues"), parameters).fetchall()
    plan = plan_of(connection, "endpoint_queues", parameters)

    assert sorted((row[0], row[3], row[-1]) for row in found) == [
        ("busy", 1000, False), ("none", 0, True), ("quiet", 20, True),
    ]  # fmt: skip
    assert rows_read(plan) <= 1100


def loops(plan, index):
    """Return how often the nodes of a plan that use an index were executed."""
    own = plan["Actual Loops"] if plan.get("Index Name") == index else 0
    return own + sum(loops(below, index) for below in plan.get("Plans", ()))


_PAUSE_ID = UUID("0197a000-0000-7000-8000-00000000000a")
_QUEUES = {
    "wanted": 100, "after_key": "", "after_team": "", "excluded": [], "left_out": [], "passed_over": [],
    "most_queues": 200, "executor": None,
}  # fmt: skip


def fill_parked(connection):
    """Insert ten thousand parked actions in front of a few others: of full limit keys, and of a pause.

    Half of the limited actions have the key `full:0`, the others have a hundred keys. The key `open` has ten actions.
    """
    store.write_rules(connection, config.settings_of({"limits": {"full:*": {"at_once": 1}, "open": {}}}).limits)
    connection.execute(
        "insert into scheduled_action_pauses (id, kind, name) values (%s, 'action_type', 'paused:run')", [_PAUSE_ID]
    )
    connection.execute(
        "insert into scheduled_actions (action_type, limit_keys, parked_by, lock_group, scheduled_at)"
        " select case when n %% 2 = 0 then 'paused:run' else 'test:run' end, k.limit_keys, p.parked_by,"
        " case when n %% 7 = 0 then 'g-' || n %% 50 end, now() - interval '1 hour' + n * interval '1 microsecond'"
        " from generate_series(1, 10000) n"
        " cross join lateral (select case when n %% 2 = 0 then %(pause)s else 'limit' end) p (parked_by)"
        " cross join lateral (select case when n %% 4 = 1 then array['full:0'] when n %% 2 = 1"
        " then array['full:' || n %% 101] end) k (limit_keys)",
        {"pause": str(_PAUSE_ID)},
    )
    connection.execute(
        "insert into scheduled_actions (action_type, limit_keys, parked_by, scheduled_at)"
        " select 'test:run', k.limit_keys, k.parked_by, now() - interval '1 minute' from generate_series(1, 10),"
        " (values (array['open', 'full:other'], 'limit'), (null, null)) k (limit_keys, parked_by)"
    )
    connection.execute(
        "insert into scheduled_action_limit_keys (team_id, limit_key)"
        " select distinct '', limit_keys[1] from scheduled_actions where limit_keys is not null"
    )
    connection.execute(
        "insert into scheduled_action_limit_slots (team_id, limit_key, action_id, claim_token)"
        " select '', 'full:' || n, gen_random_uuid(), gen_random_uuid() from generate_series(0, 5000) n"
    )
    for table in ("actions", "action_limit_keys", "action_limit_slots"):
        connection.execute(f"vacuum (analyze) scheduled_{table}")


def buffers(plan):
    """Return the number of pages that a plan has read."""
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


def test_claims_read_no_parked_actions_of_full_limits_and_pauses(connection):
    fill_parked(connection)
    claiming = {
        "token": _AN_ID,
        "lease_expires_at": datetime(2100, 1, 1, tzinfo=UTC),
        "with_series": True,
        "most": 100,
        "left_out": [],
    }
    for name in ("hold_groups", "find_others"):
        with connection.transaction(force_rollback=True):
            plan = plan_of(connection, name, _SCAN_START | claiming)
        assert rows_read(plan) <= 100, name
    with connection.transaction(force_rollback=True):
        assert pages_read(connection, "claim_free", _SCAN_START | claiming) <= 250


def fill_executor_queue(connection):
    """Insert a hundred thousand actions in the queue of an executor, and a few others that are due later."""
    write_executors(
        connection, config.settings_of({"executors": {"media": {"types": ["video:*"]}}}).executors, replace=True
    )
    connection.execute(
        "insert into scheduled_actions (action_type, parked_by, lock_group, team_id, scheduled_at)"
        " select 'video:render', 'queue:media', case when n % 10 = 0 then 'g-' || n % 500 end, 'team-' || n % 3,"
        " now() - interval '1 hour' + n * interval '1 microsecond' from generate_series(1, 100000) n"
    )
    connection.execute(
        "insert into scheduled_actions (action_type, lock_group, scheduled_at)"
        " select 'test:run', case when n % 2 = 0 then 'l-' || n end, now() - interval '1 minute'"
        " from generate_series(1, 20) n"
    )
    connection.execute("vacuum (analyze) scheduled_actions")


def test_claims_of_ticks_and_counts_read_none_of_many_actions_in_the_queue_of_an_executor(connection):
    fill_executor_queue(connection)
    claiming = {
        "token": _AN_ID,
        "lease_expires_at": datetime(2100, 1, 1, tzinfo=UTC),
        "with_series": True,
        "most": 100,
        "left_out": ["x"],
    }
    for name in ("hold_groups", "find_others", "unchecked", "count_due"):
        with connection.transaction(force_rollback=True):
            plan = plan_of(connection, name, _SCAN_START | claiming)
        assert rows_read(plan) <= 200, name
    with connection.transaction(force_rollback=True):
        assert pages_read(connection, "claim_free", _SCAN_START | claiming) <= 250
    position = {"after_priority": None, "after_at": None, "after_id": None, "window": 5000, "most": 1000}
    with connection.transaction(force_rollback=True):
        assert rows_read(plan_of(connection, "park_due", position)) <= 300


def test_a_claim_of_an_executor_reads_one_window_of_its_queue(connection):
    fill_executor_queue(connection)
    start = executor_claims.START
    search = {
        "executor": "media", "after_priority": start.priority, "after_at": start.scheduled_at, "after_id": start.id,
        "window": 1000, "wanted": 10, "is_fair": True, "left_out": [], "passed_over": [], "lease_seconds": 60,
    }  # fmt: skip

    plan = plan_of(connection, "find_in_queue", search)
    (ids, *_) = connection.execute(statement("find_in_queue"), search).fetchone()
    claiming = {
        "executor": "media", "ids": ids, "holding": [], "wanted": 10, "token": _AN_ID,
        "lease_expires_at": datetime(2100, 1, 1, tzinfo=UTC),
    }  # fmt: skip
    with connection.transaction(force_rollback=True):
        claim = plan_of(connection, "claim_in_queue", claiming)

    assert len(ids) == 10
    assert rows_read(plan) <= 1200
    assert rows_read(claim) <= 100
    assert plan["Total Cost"] < 10_000
    assert claim["Total Cost"] < 10_000


def test_the_queue_of_a_removed_executor_returns_in_bites_that_read_few_actions(connection):
    fill_executor_queue(connection)
    write_executors(connection, {}, replace=True)

    with connection.transaction(force_rollback=True):
        bite = plan_of(connection, "return_queues", {"most": 1000})
    with connection.transaction(force_rollback=True):
        end = plan_of(connection, "finish_returns", {})

    assert rows_read(bite) <= 4000
    assert rows_read(end) <= 100


def test_the_queues_of_full_limits_are_passed_over_without_reading_their_actions(connection):
    fill_parked(connection)

    found = connection.execute(statement("find_queued"), _QUEUES).fetchall()
    ((plan,),) = connection.execute(
        "explain (analyze, buffers, format json) " + statement("find_queued"), _QUEUES
    ).fetchone()

    assert [row[1] for row in found] == [["open", "full:other"]] * 10 + [None]
    # A hundred queues, with a few pages each.
    assert buffers(plan["Plan"]) <= 1500


def test_the_statements_of_a_claim_from_queues_look_up_their_keys_and_actions(connection):
    fill_parked(connection)
    ids = [row[0] for row in connection.execute(statement("find_queued"), _QUEUES) if row[0] is not None]
    keys = {"team_ids": [""] * 10, "limit_keys": ["open"] * 10}
    given = {"ids": ids, "keys_of": ids, "token": _AN_ID, "lease_expires_at": datetime(2100, 1, 1, tzinfo=UTC), **keys}
    given["executor"] = None

    for name in ("lock_keys", "count_room", "claim_queued", "give_back"):
        with connection.transaction(force_rollback=True):
            plan = plan_of(connection, name, given)
        assert rows_read(plan) <= 300, name
    plan = plan_of(connection, "prune_keys", {"limit": 100})
    assert rows_read(plan) <= 400


def test_the_estimates_of_claims_are_far_below_those_that_servers_compile(connection):
    fill_parked(connection)
    connection.execute(
        "insert into scheduled_actions (action_type, lock_group, scheduled_at)"
        " select 'test:run', case when n % 2 = 0 then 'group:' || n % 50 end, scheduled_actions_now() - interval '1 h'"
        " from generate_series(1, 20000) n"
    )
    connection.execute("vacuum analyze scheduled_actions")
    scan = {**claims.scan_parameters(claims.START, ()), "wanted": 100, "window": 400, "most": 400, "left_out": []}
    claim = {"token": _AN_ID, "lease_expires_at": datetime(2100, 1, 1, tzinfo=UTC)}
    held = {"team_ids": [""] * 50, "lock_groups": [f"group:{n}" for n in range(50)], "kept": []}

    for name in ("hold_groups", "claim_held"):
        with connection.transaction(force_rollback=True):
            ((plan,),) = connection.execute("explain (format json) " + statement(name), {**scan, **claim, **held})
        # From 100,000 on, a server with JIT compiles the statement each time, which takes longer than the claim.
        assert plan[0]["Plan"]["Total Cost"] < 10_000, name


def test_a_function_looks_up_the_actions_of_after_by_their_keys(connection):
    fill(connection)
    found = connection.execute("select id, team_id from scheduled_actions order by random() limit 100").fetchall()
    new = [{"action_type": "test:run", "after": [str(one)], "team_id": team_id} for one, team_id in found]

    with connection.transaction():
        before = sequentially_read(connection)
        rows = connection.execute("select id from schedule_actions(%s)", [Jsonb(new)]).fetchall()
        read = sequentially_read(connection) - before

    assert len(rows) == 100
    assert read == 0


def sequentially_read(connection):
    """Return the number of actions that sequential scans of this session have read, within a transaction."""
    return connection.execute(
        "select seq_tup_read from pg_stat_xact_user_tables where relname = 'scheduled_actions'"
    ).fetchone()[0]


def test_checks_of_instants_are_inlined(connection):
    plan = connection.execute(
        "explain (verbose) select from scheduled_action_schedules s"
        " where s.anchor_at = scheduled_actions_clamp_instant(s.anchor_at)"
    ).fetchall()

    assert not any("scheduled_actions_clamp_instant" in line for (line,) in plan)


@pytest.mark.parametrize(
    ("given", "clamped"),
    [
        (None, None),
        ("2026-11-30 10:00+00", "2026-11-30 10:00+00"),
        ("-infinity", "0001-01-01 00:00+00"),
        ("infinity", "9999-12-31 23:59:59.999999+00"),
        ("10000-01-01 00:00+00", "9999-12-31 23:59:59.999999+00"),
    ],
)
def test_an_instant_is_clamped_to_those_that_python_represents(connection, given, clamped):
    found = connection.execute(
        "select scheduled_actions_clamp_instant(%(given)s::timestamptz) is not distinct from %(clamped)s::timestamptz",
        {"given": given, "clamped": clamped},
    ).fetchone()

    assert found == (True,)


def test_a_sweep_reads_no_other_actions_although_most_pending_ones_wait_for_a_change(connection):
    connection.execute(
        "insert into scheduled_actions (action_type, status, completed_at, scheduled_at, condition, waiting)"
        " select 'test:run', s.status, case when s.status = 'completed' then now() end, scheduled_actions_never(),"
        " '{}', '{}' from generate_series(1, 20000) n"
        " cross join lateral (select case when n < 19000 then 'completed' else 'pending' end as status) s"
    )
    connection.execute("vacuum (analyze) scheduled_actions")

    # All actions have more than six hundred pages.
    parameters = {"after_id": None, "every_seconds": 300, "most": 250}
    assert pages_read(connection, "only_woken", parameters) <= 200


@pytest.mark.parametrize("name", ["claim_free", "complete", "condition_inputs"])
def test_frequent_statements_are_planned_once_and_never_compiled(connection, name):
    (settings,) = connection.execute(
        "select proconfig from pg_proc where proname = %s", [f"scheduled_actions_{name}"]
    ).fetchone()

    assert {"jit=off", "plan_cache_mode=force_generic_plan"} <= set(settings)


def test_claims_and_completions_that_were_planned_for_an_empty_table_use_indexes_in_a_large_one(connection):
    lease = datetime(2100, 1, 1, tzinfo=UTC)
    claim = _SCAN_START | {"wanted": 10, "token": _AN_ID, "lease_expires_at": lease, "with_series": True}
    completion = {
        "ids": [_AN_ID], "tokens": [_AN_ID], "started": [0], "ended": [0], "max_attempts": [3], "results": [],
        "begun_at": lease, "running": [], "tick_id": _AN_ID, "announcement": 1, "patience_ms": "500",
    }  # fmt: skip
    given = [
        ("claim_free", claim),
        *(("complete_actions", completion | {"has_slots": value}) for value in (True, False)),
    ]
    connection.execute("vacuum (analyze) scheduled_actions")
    for name, parameters in given:
        connection.execute(statement(name), parameters)

    fill(connection, analyzes=False)

    # The table has more than a thousand pages; a claimed action writes to a dozen.
    assert [number for name, parameters in given if (number := pages_read(connection, name, parameters)) > 300] == []


def test_inputs_of_conditions_that_were_planned_for_empty_tables_are_read_by_key_in_large_ones(connection):
    given = {
        "teams": ["big"] * 3, "target_types": ["order"] * 3, "target_ids": ["1", "2", "3"],
        "names": ["state", "missing", "approval:*"], "prefixed": 201, "awaited": [_AN_ID], "action_ids": [_ANOTHER_ID],
        "deadlines": [_AN_ID],
    }  # fmt: skip
    connection.execute("vacuum (analyze) scheduled_actions, scheduled_action_facts")
    connection.execute(statement("read_condition_inputs"), given)

    fill(connection, analyzes=False)
    fill_facts(connection, analyzes=False)

    # The facts have more than two hundred pages, and their other indexes about a hundred each.
    assert pages_read(connection, "read_condition_inputs", given) <= 40


def test_facts_of_conditions_are_read_by_key_even_from_a_table_of_one_page(connection):
    connection.execute(
        "insert into scheduled_action_facts (team_id, target_type, target_id, name, value)"
        " select '', 'order', n::text, 'state', '1' from generate_series(1, 50) n"
    )
    connection.execute("vacuum (analyze) scheduled_action_facts")
    given = {
        "teams": [""] * 256, "target_types": ["order"] * 256, "target_ids": list(map(str, range(256))),
        "names": ["missing"] * 256, "prefixed": 201, "awaited": [], "action_ids": [], "deadlines": [],
    }  # fmt: skip
    scans = "select seq_scan from pg_stat_xact_user_tables where relname = 'scheduled_action_facts'"

    # A sequential scan per fact would read each row of the page 256 times.
    with connection.transaction():
        before = connection.execute(scans).fetchone()
        connection.execute(statement("read_condition_inputs"), given)
        after = connection.execute(scans).fetchone()

    assert after == before


def pages_read(connection, name, parameters):
    """Run a statement; return the number of pages that it and the statements of its functions have read.

    It is run before, and undone, because its first run in a session also reads pages of the catalog.
    """
    with connection.transaction(force_rollback=True):
        connection.execute(statement(name), parameters)
    ((plan,),) = connection.execute("explain (analyze, buffers, format json) " + statement(name), parameters).fetchone()
    return buffers(plan["Plan"])
