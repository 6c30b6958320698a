"""`schedule_actions` in SQL: many actions in one round trip, all or none, with results in the same order."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.factories import PATIENCE, database_now, delay_deadlock_detection, row, statuses, together

#: Seconds; ten times the maximum time that the function waits for keys held by an open transaction.
LIMIT_SECONDS = 3


INVALID = [
    ({"action_type": "no type"}, "action_type: 'no type' is not an action type"),
    ({"action_type": None}, "action_type: "),
    ({"payload": [1]}, "payload: must be a JSON object, not a JSON array"),
    ({"payload": {"text": "x" * 262_145}}, "payload is 262157 bytes; the limit is 262144"),
    ({"priority": 40_000}, "priority: 40000 is not between"),
    ({"max_attempts": 0}, "max_attempts: 0 is not between 1 and 1000"),
    ({"scheduled_at": "infinity"}, "scheduled_at: must be a finite instant, not infinity"),
    ({"team_id": ""}, "team_id: must have 1 to 255 characters"),
    ({"lock_group": "x" * 256}, "lock_group: must have 1 to"),
    ({"dedup_key": "x" * 513}, "dedup_key: must have 1 to"),
    ({"dedup_window": -1}, "dedup_window: -1 is not a number of seconds"),
    ({"dedup_mode": "last"}, "dedup_mode: 'last' is not latest, first or append"),
    ({"retry": "soon"}, "retry: must be"),
    ({"retry": []}, "retry: must have a list of 1 to 100 delays in seconds"),
    ({"retry": [60, -1]}, "retry: -1 is not a number of seconds between 0 and a year"),
    ({"retry": {"kind": "often"}}, "retry: 'often' is not exponential, linear or delays"),
    (
        {"retry": {"kind": "linear", "cap": 5}},
        "retry: 'cap' is not a field of linear (kind, base_seconds, ",
    ),
    ({"retry": {"kind": "linear", "jitter": "some"}}, 'retry: "some" is not a jitter: none, full or equal'),
    ({"target": "x"}, 'target: must be an object such as {"type": "invoice", "id": "42"}, not "x"'),
    ({"target": {"type": "invoice"}}, 'target: must be an object such as {"type": "invoice", "id": "42"}, not {"type"'),
    ({"metadata": ["a"]}, "metadata: must be a JSON object, not a JSON array"),
    ({"user_id": "x" * 65_537}, "user_id is 65537 bytes; the limit is 65536"),
    ({"condition": []}, "condition: must be a JSON object"),
    ({"after": ["0197a000-0000-7000-8000-00000000dead"]}, "after: no action has the id 0197a000"),
    ({"on_success": {"payload": {}}}, "on_success: needs an action_type"),
    (
        {"on_failure": [{"action_type": "a:b", "team_id": "x"}]},
        "on_failure: 'team_id' is not an argument of a follow-up",
    ),
]


def schedule_all(connection, *elements):
    """Schedule the elements; return (id, deduplicated) for each."""
    return connection.execute("select id, deduplicated from schedule_actions(%s)", [Jsonb(elements)]).fetchall()


def new_element(n=0, **changes):
    return {"action_type": "test:run", "payload": {"n": n}} | changes


def test_the_ids_of_a_call_count_up_in_their_last_32_bits(connection):
    ids = [one for one, _ in schedule_all(connection, *map(new_element, range(300)))]

    first = ids[0].int
    assert [one.int for one in ids] == [first >> 32 << 32 | (first + n) % 2**32 for n in range(300)]
    assert all(one.version == 7 for one in ids)


def test_results_are_in_the_order_of_the_elements(connection):
    elements = [new_element(n, dedup_key=f"k{(n * 7) % 40}" if n % 2 else None) for n in range(40)]

    answers = schedule_all(connection, *elements)

    found = dict(connection.execute("select id, (payload ->> 'n')::int from scheduled_actions").fetchall())
    assert [found[action_id] for action_id, _ in answers] == list(range(40))
    assert not any(merged for _, merged in answers)


def test_an_element_takes_every_argument_of_schedule_action(connection):
    at = database_now(connection) + timedelta(hours=1)
    element = new_element(
        1,
        scheduled_at=at.isoformat(),
        team_id="t",
        priority=-3,
        max_attempts=7,
        retry=[1, 2],
        lock_group="g",
        lock_group_blocks=True,
        dedup_key="k",
        dedup_window=9,
        dedup_mode="append",
        target={"type": "invoice", "id": "42"},
        user_id="u",
        metadata={"note": "é"},
        created_by="c",
    )
    named = ", ".join(f"{name} => %({name})s" for name in element)

    ((in_bulk, _),) = schedule_all(connection, element)
    alone, _ = connection.execute(
        f"select id, deduplicated from schedule_action({named})",
        {
            name: Jsonb(value) if isinstance(value, dict | list) else value
            for name, value in (element | {"dedup_key": "k2", "scheduled_at": at}).items()
        },
    ).fetchone()

    one, other = row(connection, in_bulk), row(connection, alone)
    different = {name for name in one if one[name] != other[name]}
    assert different <= {"id", "dedup_key", "created_at", "updated_at"}
    assert (one["payload"], one["target_id"], one["dedup_open"]) == ([{"n": 1}], "42", True)


def test_a_delay_counts_from_the_database_clock(connection):
    ((action_id, _),) = schedule_all(connection, new_element(delay=90))

    found = connection.execute(
        "select scheduled_at - created_at from scheduled_actions where id = %s", [action_id]
    ).fetchone()
    assert found == (timedelta(seconds=90),)


def test_an_empty_list_schedules_nothing(connection):
    assert schedule_all(connection) == []


DOCUMENTS = {"payload", "retry", "target", "metadata", "condition", "on_success", "on_failure"}


@pytest.mark.parametrize(("broken", "message"), INVALID)
def test_an_invalid_action_is_rejected_with_the_expected_value(connection, broken, message):
    arguments = new_element(2, **broken)
    named = ", ".join(f"{name} => %({name})s{'::uuid[]' * (name == 'after')}" for name in arguments)
    texts = {name: Jsonb(one) if name in DOCUMENTS else one for name, one in arguments.items()}

    with pytest.raises(psycopg.errors.InvalidParameterValue) as refused:
        connection.execute(f"select from schedule_action({named})", texts)

    assert message in refused.value.diag.message_primary
    assert statuses(connection) == {}


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        *INVALID,
        ({"pirority": 1}, "'pirority' is not an argument of schedule_action"),
        ({"delay": -1}, "delay: -1 is not a number of seconds between 0 and a hundred years"),
    ],
)
def test_an_invalid_action_is_named_by_position_and_nothing_is_scheduled(connection, broken, message):
    with pytest.raises(psycopg.errors.InvalidParameterValue) as refused:
        schedule_all(connection, new_element(0), new_element(1), new_element(2, **broken), new_element(3))

    assert f"new_actions[2]: {message}" in refused.value.diag.message_primary
    assert statuses(connection) == {}


@pytest.mark.parametrize(
    ("elements", "message"),
    [
        ("{}", "new_actions: must be a JSON array"),
        ('[{"action_type": "a:b"}, 7]', "new_actions[1]: must be a JSON object"),
    ],
)
def test_a_value_that_is_not_a_list_of_objects_is_rejected(connection, elements, message):
    with pytest.raises(psycopg.errors.InvalidParameterValue) as refused:
        connection.execute("select * from schedule_actions(%s::jsonb)", [elements])

    assert refused.value.diag.message_primary == message


@pytest.mark.parametrize(
    ("mode", "payload"), [("latest", {"n": 3}), ("first", {"n": 0}), ("append", [{"n": 0}, {"n": 1}, {"n": 3}])]
)
def test_elements_with_the_same_key_become_one_action(connection, mode, payload):
    same = {"dedup_key": "k", "dedup_mode": mode}

    answers = schedule_all(
        connection,
        new_element(0, **same),
        new_element(1, **same),
        new_element(2, dedup_key="other"),
        new_element(3, **same),
    )

    first, second, other, last = answers
    assert first[0] == second[0] == last[0] != other[0]
    assert [merged for _, merged in answers] == [False, True, False, True]
    assert row(connection, first[0])["payload"] == payload


def test_elements_whose_payloads_name_the_same_entity_become_one_action(connection):
    first, other, again = (
        new_element(payload={"entity_type": "task", "entity_id": entity, "n": n}) for n, entity in enumerate("121")
    )

    answers = schedule_all(connection, first, other, again)

    assert [merged for _, merged in answers] == [False, False, True]
    assert answers[2][0] == answers[0][0]
    assert row(connection, answers[0][0])["payload"]["n"] == 2


def test_elements_are_merged_into_pending_actions(connection):
    ((waiting, _),) = schedule_all(connection, new_element(0, dedup_key="k"))

    answers = schedule_all(connection, new_element(1), new_element(2, dedup_key="k"))

    assert answers[1] == (waiting, True)
    assert row(connection, waiting)["payload"] == {"n": 2}


def test_concurrent_calls_with_the_same_keys_in_any_order_create_each_action_once(database_url, connection):
    keys = [f"k{n}" for n in range(10)]

    def schedule(own, number):
        mixed = keys[number:] + keys[:number]
        return [schedule_all(own, *[new_element(n, dedup_key=key, dedup_window=60) for key in mixed]) for n in range(5)]

    together(database_url, 8, schedule)

    found = connection.execute("select dedup_key, count(*) from scheduled_actions group by 1").fetchall()
    assert sorted(found) == sorted((key, 1) for key in keys)
    assert connection.execute("select distinct payload ->> 'n' from scheduled_actions").fetchall() == [("4",)]


def test_waiting_for_many_locked_keys_takes_no_longer_than_waiting_for_one(database_url, connection):
    with psycopg.connect(database_url) as holder:
        schedule_all(holder, *[new_element(n, dedup_key=f"k{n}") for n in range(20)])

        began = time.monotonic()
        answers = schedule_all(connection, *[new_element(n, dedup_key=f"k{n}") for n in range(20)])
        waited = time.monotonic() - began

    # Waiting for each of the twenty keys separately would take six seconds.
    assert waited < LIMIT_SECONDS
    assert [merged for _, merged in answers] == [False] * 20
    assert len(statuses(connection)) == 40


@pytest.mark.parametrize("are_pending", [True, False])
def test_two_calls_with_the_same_keys_in_opposite_order_both_commit_without_a_deadlock(
    database_url, connection, are_pending
):
    delay_deadlock_detection(connection)
    if are_pending:
        schedule_all(connection, new_element(dedup_key="a"), new_element(dedup_key="b"))
    first_taken = threading.Barrier(2)

    def work(own, number):
        keys = ("a", "b") if number == 0 else ("b", "a")
        with own.transaction():
            for n, key in enumerate(keys):
                schedule_all(own, new_element(n, dedup_key=key, dedup_window=60), new_element(n))
                if n == 0:
                    first_taken.wait(PATIENCE)

    began = time.monotonic()
    together(database_url, 2, work)

    assert time.monotonic() - began < LIMIT_SECONDS


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_a_caller_with_an_old_snapshot_gets_no_serialization_failure(database_url, connection, isolation):
    schedule_all(connection, new_element(0, dedup_key="a"))
    with psycopg.connect(database_url) as caller:
        caller.execute(f"set transaction isolation level {isolation}")
        caller.execute("select count(*) from scheduled_actions")
        schedule_all(connection, new_element(1, dedup_key="a"), new_element(1, dedup_key="b"))

        answers = schedule_all(caller, new_element(2, dedup_key="a"), new_element(2, dedup_key="b"), new_element(2))

    assert [merged for _, merged in answers] == [False, False, False]
    assert len(statuses(connection)) == 5


def test_a_call_in_a_rolled_back_transaction_schedules_nothing(connection):
    with connection.transaction(force_rollback=True):
        schedule_all(connection, new_element(), new_element(dedup_key="k"))

    assert statuses(connection) == {}


def test_the_lock_timeout_of_the_session_is_unchanged(connection):
    connection.execute("set lock_timeout = '7s'")

    schedule_all(connection, new_element(dedup_key="k"))
    schedule_all(connection, new_element(dedup_key="k"))

    assert connection.execute("show lock_timeout").fetchone() == ("7s",)
