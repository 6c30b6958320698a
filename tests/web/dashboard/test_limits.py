"""The page of limit keys: slots, rates and queues, pages and filters, and what callers bound to a team see."""

from __future__ import annotations

import re
from html import unescape

import pytest

from scheduled_actions.web.dashboard import limits as limit_pages
from tests.factories import insert_many
from tests.limits.test_claims import THREE, claim, limits, schedule


def text_of(page):
    """Return the words of the page's main part, without tags."""
    main = page.text.partition("<main")[2].partition("<footer")[0]
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", main)).split())


def rows(page):
    """Return the words of each row of the table of limit keys."""
    body = page.text.partition("<tbody>")[2].partition("</tbody>")[0]
    return [" ".join(unescape(re.sub(r"<[^>]+>", " ", row)).split()) for row in body.split("</tr>")[:-1]]


def test_a_key_is_shown_with_its_slots_its_rate_and_its_queue(admin_person, connection):
    limits(connection, {"api:*": {"at_once": 3, "rate": "2 per hour"}})
    schedule(connection, "api:acme", count=5)
    claim(connection)

    (row,) = rows(admin_person.opens("/limits"))

    assert row.startswith("api:acme pattern api:* 2 of 3 2 per hour next start in ")
    assert re.search(r" 3 (\d+ s ago|now) full$", row)


def test_the_status_says_why_the_actions_of_a_key_wait(admin_person, connection):
    limits(connection, {**THREE, "free:*": {}, "all:*": {"at_once": 2, "across_teams": True}})
    for key in ("api:paused", "free:x", "other", "all:x"):
        schedule(connection, key, team_id="red")
    connection.execute("insert into scheduled_action_pauses (kind, name) values ('limit', 'api:paused')")

    found = {row.partition(" ")[0]: row for row in rows(admin_person.opens("/limits"))}

    assert found["api:paused"].endswith("paused")
    assert "team red 0, no limit" in found["free:x"]
    assert found["free:x"].endswith("open")
    assert "no pattern matches: actions with this key never start" in found["other"]
    assert found["other"].endswith("no pattern")
    assert "pattern all:* · all teams together 0 of 2" in found["all:x"]


def test_keys_are_filtered_by_prefix_and_team_and_shown_in_pages(admin_person, connection, monkeypatch):
    monkeypatch.setattr(limit_pages, "_ROWS", 2)
    limits(connection, {"*": {"at_once": 1}})
    for team in ("red", "blue"):
        for key in ("api:a", "api:b", "mail:a"):
            schedule(connection, key, team_id=team)
    keys = []
    page = admin_person.opens("/limits?prefix=api:&team_id=")

    while True:
        keys += [row.split()[0] for row in rows(page)]
        found = re.search(r'href="/dashboard([^"]+)" rel="next"', page.text)
        if found is None:
            break
        assert "prefix=api" in found[1]
        page = admin_person.opens(unescape(found[1]))

    assert keys == ["api:a", "api:a", "api:b", "api:b"]
    assert [row.split()[0] for row in rows(admin_person.opens("/limits?prefix=mail&team_id=red"))] == ["mail:a"]
    assert "No limit keys match" in admin_person.opens("/limits?prefix=nothing").text
    assert admin_person.opens(f"/limits?prefix={'x' * 256}").status_code == 400
    assert admin_person.opens("/limits?cursor=x").status_code == 400


def test_a_page_without_keys_shows_how_to_add_a_limit(admin_person):
    page = admin_person.opens("/limits")

    assert '[limits."api:*"] at_once = 3' in text_of(page)
    assert 'aria-current="page"' in page.text.partition("Limits</span>")[0].rpartition("<a ")[2]


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_a_caller_of_a_team_sees_its_own_keys_without_numbers_of_other_teams(a_person, connection, role):
    limits(connection, {**THREE, "all:*": {"at_once": 3, "across_teams": True}})
    for team in ("red", "blue"):
        schedule(connection, "api:x", count=4, team_id=team)
    schedule(connection, "all:x", count=5, team_id="blue")
    schedule(connection, "all:x", team_id="red")
    schedule(connection, "api:blue", team_id="blue")
    claim(connection)
    # The last slot may have been taken by the action of either team.
    schedule(connection, "all:x", team_id="red")

    across, own = rows(a_person(role, "red").opens("/limits"))

    assert re.search(r"^all:x pattern all:\* · all teams together 3 of all teams — [12] .* —$", across)
    assert re.search(r"^api:x pattern api:\* · team red 3 of 3 — 1 .* full$", own)


def test_long_queues_are_counted_to_a_limit(admin_person, connection):
    limits(connection, THREE)
    insert_many(connection, 10_001, limit_keys=["api:acme"], parked_by="limit")

    assert " 10,000+ " in rows(admin_person.opens("/limits"))[0]
