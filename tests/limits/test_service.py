"""The list of limit keys: complete, in pages, one row for a key across teams, and no numbers of other teams."""

from __future__ import annotations

import pytest

from scheduled_actions.core.config import checks
from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.limits import claims as limit_claims
from scheduled_actions.limits.rules.display import rate_text
from scheduled_actions.limits.service import LimitPage, PatternCounts, count_patterns, count_pauses, sql
from tests.factories import database_now, insert_many, projects
from tests.limits.test_claims import THREE, claim, limits, schedule


@pytest.fixture
def listed(database_url):
    with projects(database_url) as make:
        yield make().limits.page


def keys(page: LimitPage):
    return [(one.limit_key, one.team_id) for one in page.limits]


def test_a_key_is_listed_with_its_limit_its_slots_and_its_queue(connection, listed):
    limits(connection, {"api:*": {"at_once": 3, "rate": "100 per minute", "burst": 2}})
    schedule(connection, "api:acme", count=5)
    claim(connection)

    (found,) = listed().limits

    assert (found.limit_key, found.team_id, found.across_teams, found.pattern) == ("api:acme", None, False, "api:*")
    assert (found.at_once, found.in_use, found.rate, found.burst, found.room) == (3, 2, "100 per minute", 2, 0)
    assert (found.waiting, found.is_paused) == (3, False)
    assert found.oldest_due_at < database_now(connection) < found.opens_at


def test_keys_without_a_limit_have_any_room_and_those_without_a_pattern_none(connection, listed):
    limits(connection, {"free:*": {}})
    schedule(connection, "free:x")
    schedule(connection, "other:x")

    free, other = listed().limits

    assert (free.pattern, free.at_once, free.rate, free.room, free.opens_at) == ("free:*", None, None, None, None)
    assert (other.pattern, other.room, other.waiting) == (None, 0, 1)


def test_a_paused_key_is_listed_as_paused(connection, listed):
    limits(connection, THREE)
    schedule(connection, "api:acme")
    connection.execute("insert into scheduled_action_pauses (kind, name) values ('limit', 'api:acme')")

    assert [one.is_paused for one in listed().limits] == [True]


def test_a_key_is_listed_for_as_long_as_it_is_in_use_or_has_queued_actions(connection, listed):
    limits(connection, THREE)
    schedule(connection, "api:queued")
    schedule(connection, "api:running", "second:running")
    limits(connection, {**THREE, "second:*": {"at_once": 1}})
    limit_claims.insert_keys(connection, [limit_claims.KeyId("", "api:recent")])
    assert keys(listed()) == [("api:queued", None), ("api:recent", None), ("api:running", None)]

    claim(connection)

    assert ("second:running", None) in keys(listed())


def test_pages_by_key_and_team_contain_every_key_once(connection, listed):
    limits(connection, {"all:*": {"at_once": 1, "across_teams": True}, **THREE})
    for team in (None, "blue", "red"):
        for key in ("all:x", "all:z", "api:a", "api:b"):
            schedule(connection, key, team_id=team)
    claim(connection)

    found, cursor = [], None
    while True:
        page = listed(limit=2, cursor=cursor)
        found += keys(page)
        cursor = page.next_cursor
        if cursor is None:
            break

    assert found == [
        ("all:x", None), ("all:z", None),
        *((key, team) for key in ("api:a", "api:b") for team in (None, "blue", "red")),
    ]  # fmt: skip


@pytest.mark.parametrize("team_id", [None, "blue"])
def test_a_prefix_selects_the_keys_that_begin_with_it(connection, listed, team_id):
    limits(connection, {"*": {"at_once": 1}})
    for key in ("api", "api-x", "api:a", "api:b", "apiX", "ap", "b"):
        schedule(connection, key, team_id=team_id)

    assert keys(listed(prefix="api:", team_id=team_id)) == [("api:a", team_id), ("api:b", team_id)]
    assert keys(listed(prefix="api", team_id=team_id)) == [
        (key, team_id) for key in ("api", "api-x", "api:a", "api:b", "apiX")
    ]
    assert keys(listed(prefix="nothing", team_id=team_id)) == []


def test_a_team_gets_its_own_keys_and_no_numbers_of_other_teams(connection, listed):
    limits(connection, {"all:*": {"at_once": 3, "rate": "1 per hour", "across_teams": True}, **THREE})
    for team in ("blue", "red"):
        schedule(connection, "api:x", count=4, team_id=team)
    schedule(connection, "all:x", count=3, team_id="blue")
    schedule(connection, "all:x", count=2, team_id="red")
    schedule(connection, "all:z", team_id="blue")
    claim(connection)

    across, own = listed(team_id="red").limits

    assert (across.limit_key, across.at_once, across.waiting) == ("all:x", 3, 2)
    assert (across.in_use, across.room, across.opens_at) == (None, None, None)
    assert (own.limit_key, own.team_id, own.in_use, own.waiting) == ("api:x", "red", 3, 1)
    assert keys(listed(prefix="all:z", team_id="red")) == []
    whole = listed(prefix="all:x").limits[0]
    assert (whole.in_use + whole.waiting, whole.across_teams) == (5, True)


def test_the_actions_of_a_queue_are_counted_to_a_limit(connection, listed):
    limits(connection, THREE)
    insert_many(connection, 1_001, limit_keys=["api:acme"], parked_by="limit")

    assert [one.waiting for one in listed().limits] == [1_000]


@pytest.mark.parametrize(
    "arguments",
    [{"cursor": "x"}, {"cursor": "eyJhIjoxfQ=="}, {"cursor": "WzEsMl0="}, {"cursor": "é"}, {"limit": 0}, {"limit": 101},
     {"prefix": ""}, {"prefix": "x" * 256}, {"prefix": 1}, {"team_id": "\0"}],
)  # fmt: skip
def test_an_invalid_argument_is_rejected_by_name(listed, arguments):
    with pytest.raises(InvalidArgument, match=f"^{next(iter(arguments))}"):
        listed(**arguments)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("100 per minute", "100 per minute"),
        ("60 per minute", "1 per second"),
        ("5 per 10 seconds", "30 per minute"),
        ("7 per hour", "7 per hour"),
        ("3 per 7 days", "3 per 7 days"),
        ("1000000 per day", "1000000 per day"),
    ],
)
def test_a_rate_is_shown_as_settings_contain_it(given, shown):
    interval_seconds = checks.rate(given).interval_seconds

    assert rate_text(interval_seconds) == shown
    assert checks.rate(shown).interval_seconds == pytest.approx(interval_seconds)


def test_listing_keys_reads_few_rows_of_long_queues(connection, listed):
    limits(connection, {**THREE, "all:*": {"at_once": 1, "across_teams": True}})
    connection.execute(
        "insert into scheduled_actions (action_type, team_id, scheduled_at, limit_keys, parked_by)"
        " select 'test:run', 'team-' || n % 100, now() - interval '1 hour', array[k || n % 3], 'limit'"
        " from generate_series(1, 20000) n, unnest(array['api:', 'all:']) k"
    )
    connection.execute("vacuum analyze scheduled_actions")
    parameters = {"after_key": "", "after_team": "", "prefix": "", "most": 101}
    plan = connection.execute(
        "explain (analyze, format json, timing off) " + sql.text("find_keys"), parameters
    ).fetchone()[0][0]["Plan"]

    assert keys(listed(prefix="all:")) == [("all:0", None), ("all:1", None), ("all:2", None)]
    assert rows_of(plan) < 1000


def rows_of(plan):
    """Return the number of actions that a plan reads."""
    own = 0
    if plan.get("Relation Name") == "scheduled_actions":
        own = (plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)) * plan["Actual Loops"]
    return own + sum(map(rows_of, plan.get("Plans", ())))


def test_the_position_after_a_key_across_teams_is_the_next_key(connection, listed):
    limits(connection, {"all:*": {"at_once": 1, "across_teams": True}})
    for team in range(5):
        schedule(connection, "all:x", team_id=f"team-{team}")
    schedule(connection, "all:y")

    first = listed(limit=1)

    assert (keys(first), first.limits[0].waiting) == ([("all:x", None)], 5)
    assert keys(listed(limit=1, cursor=first.next_cursor)) == [("all:y", None)]


def test_slots_and_queued_actions_are_counted_by_the_pattern_that_applies(connection):
    limits(connection, {"api:*": {"at_once": 2}, "api:acme": {"at_once": 1}, "api:a*": {"at_once": 1}, "z": {}})
    for key, count in (("api:x", 4), ("api:acme", 3), ("api:acme2", 2), ("api", 1), ("api:", 1), ("zz", 2)):
        schedule(connection, key, count=count, team_id="blue")
    claim(connection)

    assert count_patterns(connection) == [
        PatternCounts("api:*", 3, 2), PatternCounts("api:a*", 1, 1), PatternCounts("api:acme", 1, 2),
        PatternCounts("z", 0, 0), PatternCounts(None, 0, 3),
    ]  # fmt: skip


def test_queued_actions_without_any_rules_have_no_pattern(connection):
    insert_many(connection, 1_001, limit_keys=["api:acme"], parked_by="limit")

    assert count_patterns(connection) == [PatternCounts(None, 0, 1_000)]


def test_a_pattern_for_all_keys_counts_those_that_no_longer_pattern_matches(connection):
    limits(connection, {"*": {"at_once": 1}, "api:*": {"at_once": 1}})
    for key in ("a", "api:x", "é", "\U0001f600"):
        schedule(connection, key, count=2)

    assert count_patterns(connection) == [PatternCounts("*", 0, 6), PatternCounts("api:*", 0, 2)]


def test_only_active_pauses_are_counted(connection):
    connection.execute(
        "insert into scheduled_action_pauses (kind, name, ends_at) values"
        " ('team', 'a', null), ('team', 'b', 'tomorrow'), ('team', 'c', 'yesterday')"
    )

    assert count_pauses(connection) == 2


@pytest.mark.parametrize("name", ["count_held_back", "list_pauses"])
def test_counting_what_pauses_hold_back_reads_no_other_actions(connection, name):
    connection.execute("select scheduled_actions_pause('lock_group', 'empty')")
    insert_many(connection, 20_000, limit_keys=["api:x"], parked_by="limit")
    connection.execute("analyze scheduled_actions")
    parameters = {"id": None, "team_id": None, "most": 1000}
    plan = connection.execute("explain (analyze, format json, timing off) " + sql.text(name), parameters).fetchone()[0][
        0
    ]["Plan"]

    assert rows_of(plan) == 0
