"""`ActionOperations`: pages, counts and bulk changes are bounded and complete."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest
from psycopg.types.json import Jsonb

from scheduled_actions import action
from scheduled_actions.actions.management import ActionOperations
from scheduled_actions.actions.search import ActionFilters, SearchBounds, page
from scheduled_actions.core.action import ActionSummary, Status
from tests.factories import database_now, due_for, insert, insert_many, projects, statuses

IN_AN_HOUR = timedelta(hours=1)
AN_ID = UUID("0197a000-0000-7000-8000-000000000001")
#: Bounds that a few actions reach.
SMALL = SearchBounds(count_limit=4, scan_size=5, candidate_limit=3, batch_size=2, page_seconds=-1)


@action("test:run")
def run(payload):
    """Accept any payload."""


@pytest.fixture
def runtime(database_url):
    with projects(database_url) as create_project:
        yield create_project(run)


@pytest.fixture
def management(runtime):
    return ActionOperations(runtime.database, lambda: runtime.scheduler, bounds=SMALL)


def pages(management, filters, limit=2):
    """Return the ids of each page in order."""
    cursor, found = None, []
    while True:
        page = management.page(filters, cursor=cursor, limit=limit)
        found.append([action.id for action in page.actions])
        cursor = page.next_cursor
        if cursor is None:
            return found
        assert len(found) < 50, "the pages do not end"


def insert_mixed(connection, **columns):
    """Insert matching actions among others; return the matching ones, newest first."""
    wanted = []
    for number in range(23):
        is_wanted = number in {0, 1, 2, 11, 12, 22}
        inserted = insert(connection, action_type="test:wanted" if is_wanted else "test:run", **columns)
        wanted += [inserted] if is_wanted else []
    return wanted[::-1]


@pytest.mark.parametrize("team_id", [None, "red"])
@pytest.mark.parametrize("limit", [1, 2, 5, 100])
def test_a_page_examines_at_most_its_bound_and_the_next_page_continues_there(management, connection, limit, team_id):
    wanted = insert_mixed(connection, team_id=team_id)
    if team_id is not None:
        insert_many(connection, 3, action_type="test:wanted", team_id="blue")

    found = pages(management, ActionFilters(action_type="test:wanted", team_id=team_id), limit)

    assert [action_id for page in found for action_id in page] == wanted
    assert max(map(len, found)) <= limit
    assert len(found) >= len(wanted) / limit


@pytest.mark.parametrize("team_id", [None, "red"])
@pytest.mark.parametrize("limit", [1, 3, 4, 5, 6, 100])
def test_pages_without_a_filter_contain_every_action_once(management, connection, limit, team_id):
    inserted = []
    for status in [*Status, *Status, Status.FAILED]:
        is_claimed = status is Status.PROCESSING
        inserted += insert_many(
            connection, 2, status=status, team_id=team_id,
            claim_token="0197a000-0000-4000-8000-00000000000f" if is_claimed else None,
            lease_expires_at=database_now(connection) + IN_AN_HOUR if is_claimed else None,
        )  # fmt: skip

    found = pages(management, ActionFilters(team_id=team_id), limit)

    assert [action_id for page in found for action_id in page] == inserted[::-1]
    assert all(len(page) == limit for page in found[:-1]) or limit > 4


@pytest.mark.parametrize(
    ("status", "columns"),
    [
        (Status.FAILED, {"completed_at": "now"}),
        (Status.NO_ACTION, {}),
        (Status.PENDING, {"lock_group": "g"}),
        (Status.PENDING, {}),
        (Status.PROCESSING, {"claim_token": "0197a000-0000-4000-8000-00000000000f", "lease_expires_at": "now"}),
    ],
)
def test_old_actions_of_a_rare_status_are_on_the_first_pages(management, connection, status, columns):
    few = insert_many(connection, 3, status=status, **columns)
    insert_many(connection, 30, status="completed", completed_at=database_now(connection))

    found = pages(management, ActionFilters(statuses=(status,)), limit=2)

    assert found == [[few[2], few[1]], [few[0]]]


def test_a_page_without_a_match_continues_to_scan(runtime, connection):
    (wanted,) = insert_many(connection, 1, action_type="test:wanted")
    insert_many(connection, 19)
    seconds = iter(range(100))
    management = ActionOperations(
        runtime.database,
        lambda: runtime.scheduler,
        bounds=SearchBounds(scan_size=5, page_seconds=1.5),
        monotonic=lambda: next(seconds),
    )
    filters = ActionFilters(action_type="test:wanted")

    first = management.page(filters)
    second = management.page(filters, cursor=first.next_cursor)

    assert (first.actions, first.next_cursor is None) == ([], False)
    assert [action.id for action in second.actions] == [wanted]


@pytest.mark.parametrize(("least", "sizes"), [(1, [1, 1, 0]), (2, [2, 0])])
def test_a_page_scans_until_it_has_the_wanted_number(connection, least, sizes):
    wanted = []
    for _ in range(2):
        insert_many(connection, 9)
        wanted.append(insert(connection, action_type="test:wanted"))
    insert_many(connection, 9)
    found, cursor = [], None

    while not found or cursor is not None:
        result = page(
            connection, ActionFilters(action_type="test:wanted"), SearchBounds(scan_size=9), cursor=cursor, least=least
        )
        found, cursor = [*found, [action.id for action in result.actions]], result.next_cursor

    assert [len(ids) for ids in found] == sizes
    assert [action_id for ids in found for action_id in ids] == wanted[::-1]


def test_old_actions_of_a_status_are_found_page_by_page(management, connection):
    inserted = insert_many(connection, 6, status="failed", completed_at=database_now(connection))
    insert_many(connection, 12, status="completed", completed_at=database_now(connection))

    found = pages(management, ActionFilters(statuses=(Status.FAILED,)), limit=4)

    assert [action_id for page in found for action_id in page] == inserted[::-1]


@pytest.mark.parametrize("others", [{"action_type": "test:wanted"}, {"team_id": "red"}], ids=str)
@pytest.mark.parametrize(
    ("filters", "columns"),
    [
        ({"user_id": "ann"}, {"user_id": "ann"}),
        ({"target": {"type": "invoice", "id": "7"}}, {"target_type": "invoice", "target_id": "7"}),
        ({"schedule_id": AN_ID}, {"schedule_id": AN_ID}),
        ({"deadline_id": AN_ID}, {"deadline_id": AN_ID}),
        ({"scheduled_by": AN_ID}, {"scheduled_by": AN_ID}),
    ],
    ids=str,
)
def test_pages_of_related_actions_contain_every_match_once(management, connection, filters, columns, others):
    wanted = []
    for _ in range(6):
        insert_many(connection, 2, action_type="test:wanted", team_id="red")
        insert(connection, **columns)
        wanted.append(insert(connection, action_type="test:wanted", team_id="red", **columns))

    found = pages(management, ActionFilters(**filters, **others))

    assert [action_id for page in found for action_id in page] == wanted[::-1]


def test_summaries_are_those_of_the_same_page_of_actions(management, connection):
    insert_many(connection, 3)
    at = database_now(connection)
    insert(
        connection, action_type="test:odd", team_id="red", scheduled_at=at + IN_AN_HOUR, attempts=2, max_attempts=5,
        target_type="invoice", target_id="7", lock_group="reports", error_message="no", waiting=Jsonb({"checks": 1}),
    )  # fmt: skip

    actions, summaries = management.page(ActionFilters(), limit=2), management.summary_page(ActionFilters(), limit=2)

    assert summaries.next_cursor == actions.next_cursor is not None
    assert [one._asdict() for one in summaries.actions] == [
        {
            **{name: getattr(one, name) for name in ActionSummary._fields if name != "is_waiting"},
            "id": str(one.id),
            "is_waiting": one.waiting is not None,
        }
        for one in actions.actions
    ]


def test_counts_are_exact_up_to_their_bound_and_list_the_capped_ones(management, connection):
    now = database_now(connection)
    insert_many(connection, 4, status="failed", completed_at=now)
    insert_many(connection, 5, status="completed", completed_at=now)
    insert_many(connection, 3)
    insert_many(connection, 3, lock_group="g")

    counts = management.counts()

    assert (counts.by_status[Status.FAILED], counts.by_status[Status.COMPLETED]) == (4, 4)
    assert (counts.by_status[Status.PENDING], counts.due) == (4, 4)
    assert counts.capped == ["pending", "completed", "due"]


@pytest.mark.parametrize("team_id", [None, "red"])
def test_queued_and_paused_actions_count_as_due_but_not_as_overdue(management, connection, team_id):
    own = {"team_id": "red"} | due_for(connection, seconds=400)
    insert_many(connection, 1, **own)
    insert_many(connection, 2, **own, limit_keys=["api:acme"], parked_by="limit")
    insert_many(connection, 1, **own, parked_by="0197a000-0000-7000-8000-000000000001")
    if team_id is not None:
        insert(connection, team_id="blue", limit_keys=["api:acme"], parked_by="limit")

    counts = management.counts(team_id=team_id)

    assert (counts.due, counts.overdue, counts.queued, counts.paused) == (4, 1, 2, 1)
    connection.execute("delete from scheduled_actions where parked_by is null or parked_by = 'limit'")
    left = management.counts(team_id=team_id)
    assert (left.due, left.overdue, left.oldest_due_seconds, left.queued, left.paused) == (1, 0, None, 0, 1)


def test_counts_of_a_team_are_bounded(management, connection):
    insert_many(connection, 5, team_id="red")
    insert_many(connection, 4, team_id="red", status="failed", completed_at=database_now(connection))

    counts = management.counts(team_id="red", overdue_seconds=0)

    assert (counts.by_status[Status.PENDING], counts.by_status[Status.FAILED]) == (4, 4)
    assert (counts.due, counts.overdue) == (4, 4)
    assert counts.capped == ["pending", "due", "overdue"]


def test_the_oldest_due_action_is_found_behind_more_urgent_ones_and_minus_infinity(management, connection):
    now = database_now(connection)
    insert_many(connection, 9, priority=-1, scheduled_at=now - timedelta(seconds=10))
    insert(connection, priority=5, **due_for(connection, seconds=500))
    insert(connection, scheduled_at="-infinity")

    assert 500 <= management.counts().oldest_due_seconds < 600


def test_a_dry_run_stops_counting_at_its_bound(management, connection):
    insert_many(connection, 6, status="failed", completed_at=database_now(connection))

    counted = management.count_matching(ActionFilters(statuses=(Status.FAILED,)))

    assert (counted.matched, counted.changed, counted.more) == (4, 0, True)


def test_a_bulk_change_works_in_batches_and_stops_at_its_time_limit(runtime, connection):
    insert_many(connection, 9, scheduled_at=database_now(connection) + IN_AN_HOUR)
    seconds = iter(range(100))
    management = ActionOperations(
        runtime.database,
        lambda: runtime.scheduler,
        bounds=SearchBounds(batch_size=2, bulk_seconds=2.5),
        monotonic=lambda: next(seconds),
    )
    filters = ActionFilters(statuses=(Status.PENDING,))

    first = management.cancel_matching(filters, by="me", reason=None, limit=100, cursor=None)
    second = management.cancel_matching(filters, by="me", reason=None, limit=100, cursor=first.next_cursor)

    assert (first.changed, first.more) == (6, True)
    assert (second.changed, second.more, second.next_cursor) == (3, False, None)
    assert set(statuses(connection).values()) == {"cancelled"}


def test_an_action_cancelled_by_another_session_is_matched_but_not_changed(management, connection, runtime):
    insert_many(connection, 3, scheduled_at=database_now(connection) + IN_AN_HOUR)

    class Racing:
        """Cancel each action directly in SQL before the scheduler cancels it."""

        def cancel_action(self, action_id, *, connection, **options):
            connection.execute("update scheduled_actions set status = 'cancelled' where id = %s", [action_id])
            return runtime.scheduler.cancel_action(action_id, connection=connection, **options)

        def run_deferred(self): ...

    racing = ActionOperations(runtime.database, Racing)

    changed = racing.cancel_matching(
        ActionFilters(statuses=(Status.PENDING,)), by=None, reason=None, limit=100, cursor=None
    )

    assert (changed.matched, changed.changed, changed.more) == (3, 0, False)
