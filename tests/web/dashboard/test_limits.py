"""The page of limit keys: slots, rates and queues, pages and filters, and what callers bound to a team see."""

from __future__ import annotations

import re
from html import unescape

import pytest

from scheduled_actions.web.dashboard import limits as limit_pages
from tests.factories import insert, insert_many
from tests.limits.test_claims import THREE, claim, limits, schedule


def text_of(page):
    """Return the words of the page's main part, without tags."""
    main = page.text.partition("<main")[2].partition("<footer")[0]
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", main)).split())


def rows(page):
    """Return the words of each row of the table of limit keys."""
    body = page.text.partition("<tbody>")[2].partition("</tbody>")[0]
    return [" ".join(unescape(re.sub(r"<[^>]+>", " ", row)).split()) for row in body.split("</tr>")[:-1]]


def pause(connection, kind, name, *, team=None, note=None, by=None):
    """Pause actions as SQL does: without parking those that are due."""
    connection.execute("select scheduled_actions_pause(%s, %s, %s, %s, %s)", (kind, name, team, note, by))


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
    pause(connection, "limit", "api:paused")

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


def test_the_page_of_an_action_names_the_full_key_and_links_to_the_actions_that_run(admin_person, connection):
    limits(connection, {"api:*": {"at_once": 1}})
    schedule(connection, "api:acme", count=3)
    (running,) = claim(connection)
    waiting = connection.execute("select max(id::text) from scheduled_actions").fetchone()[0]

    page = admin_person.opens(f"/actions/{waiting}")

    shown = text_of(page)
    assert 'limit key "api:acme" (pattern "api:*") is full: 1 of 1 slots are in use, and 1 action is ahead' in shown
    assert f"Its slots are held by {running.id} ." in shown
    assert f'href="/dashboard/actions/{running.id}"' in page.text
    assert 'Wait for a slot, or raise at_once of [limits."api:*"] .' in shown


def test_the_page_of_an_action_names_the_pause_that_holds_it_back(admin_person, connection):
    pause(connection, "action_type", "test:run", note="provider down", by="ada")
    paused = insert(connection)
    admin_person.makes("/ticks/run")

    shown = text_of(admin_person.opens(f"/actions/{paused}"))

    assert 'Its action type "test:run" has been paused by ada since ' in shown
    assert "until it is resumed: provider down. Resume it on the page Limits; its actions then run in order." in shown


def test_active_pauses_and_what_they_hold_back_are_shown_above_the_actions(admin_person, a_person, connection):
    assert "hold back" not in text_of(admin_person.opens())
    limits(connection, THREE)
    pause(connection, "action_type", "test:run", team="red")
    pause(connection, "limit", "api:acme")
    parked_by = connection.execute("select id::text from scheduled_action_pauses where kind <> 'limit'").fetchone()[0]
    insert_many(connection, 3, team_id="red", parked_by=parked_by)
    schedule(connection, "api:acme", count=2, team_id="blue")
    schedule(connection, "api:other", team_id="blue")

    for path in ("", "/actions", "/actions?status=failed"):
        assert "2 pauses hold back 5 due actions." in text_of(admin_person.opens(path)), path
    assert "1 pause holds back 3 due actions." in text_of(a_person("viewer", "red").opens("/actions"))
    assert "hold" not in text_of(a_person("viewer", "blue").opens("/actions"))

    connection.execute("update scheduled_action_pauses set ends_at = scheduled_actions_now()")
    assert "hold" not in text_of(admin_person.opens("/actions"))


def test_what_pauses_hold_back_is_counted_to_a_limit(connection, runtime):
    limits(connection, THREE)
    pause(connection, "limit", "api:acme")
    pause(connection, "limit", "api:acme", team="red")
    insert_many(connection, 10_001, limit_keys=["api:acme"], parked_by="limit", team_id="red")

    held = runtime.pauses.held_back()

    assert (held.pauses, held.actions) == (2, 10_000)
