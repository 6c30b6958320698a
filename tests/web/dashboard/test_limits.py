"""The pages of limit keys and of pauses: contents, filters, forms, and what callers of each role and team see."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape

import pytest

from scheduled_actions.core.config import settings_of
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
    assert re.search(r" 3 (\d+ s ago|now) rate used up Pause key…$", row)


def test_the_status_says_why_the_actions_of_a_key_wait(admin_person, connection):
    limits(connection, {**THREE, "free:*": {}, "all:*": {"at_once": 2, "across_teams": True}})
    for key in ("api:paused", "free:x", "other", "all:x"):
        schedule(connection, key, team_id="red")
    pause(connection, "limit", "api:paused")

    shown = rows(admin_person.opens("/limits"))
    found = {row.partition(" ")[0]: row.removesuffix(" Pause key…") for row in shown}

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

    across, own = (row.removesuffix(" Pause key…") for row in rows(a_person(role, "red").opens("/limits")))

    assert re.search(r"^all:x pattern all:\* · all teams together 3 of all teams — [12] .* —$", across)
    assert re.search(r"^api:x pattern api:\* · team red 3 of 3 — 1 .* full$", own)


def test_long_queues_are_counted_to_a_limit(admin_person, connection):
    limits(connection, THREE)
    insert_many(connection, 1_001, limit_keys=["api:acme"], parked_by="limit")

    assert " 1,000+ " in rows(admin_person.opens("/limits"))[0]


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
    assert 'href="/dashboard/limits?prefix=api%3Aacme"' in page.text
    assert 'Wait for a slot, or raise at_once of [limits."api:*"] .' in shown


def test_the_page_of_an_action_names_the_pause_that_holds_it_back(admin_person, connection):
    pause(connection, "action_type", "test:run", note="provider down", by="ada")
    paused = insert(connection)
    admin_person.makes("/ticks/run")

    shown = text_of(admin_person.opens(f"/actions/{paused}"))

    assert 'Its action type "test:run" has been paused by ada since ' in shown
    assert "until it is resumed: provider down. Resume it on the page Pauses; its actions then run in order." in shown


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


def test_an_operator_pauses_a_type_until_a_local_time_and_resumes_it(a_person, connection):
    operator = a_person("operator")
    operator.client.set_cookie("scheduled_actions_zone", "Europe/Berlin")
    waiting = insert(connection)
    assert "No pauses" in operator.opens("/limits/pauses").text

    page = operator.makes(
        "/limits/pauses", kind="action_type", name="test:run", until="2031-07-01T09:00:00", note="provider down"
    )

    assert "Paused. 1 due action is held back." in text_of(page)
    (row,) = rows(page)
    assert re.search(
        r"^Action type test:run provider down paused (now|\d+ s ago) by token:operator of tests in \d+ d ", row
    )
    assert row.endswith(" 2031-07-01 09:00:00 1 Resume")
    ((pause_id, ends_at),) = connection.execute("select id, ends_at from scheduled_action_pauses").fetchall()
    assert ends_at.isoformat() == "2031-07-01T07:00:00+00:00"

    page = operator.makes(f"/limits/pauses/{pause_id}/resume")

    assert "Resumed. The actions run in order of priority and time." in text_of(page)
    assert operator.sends(f"/limits/pauses/{pause_id}/resume").status_code == 404
    assert connection.execute("select parked_by from scheduled_actions where id = %s", [waiting]).fetchone() == (None,)


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"kind": "action_type", "name": "test:rum"}, 'did you mean "test:run"?'),
        ({"kind": "action_type", "name": " "}, "name is empty: enter the action type to pause"),
        ({"kind": "weather", "name": "rain"}, "one of action_type, limit, lock_group, team"),
        ({"name": "test:run"}, "one of action_type, limit, lock_group, team"),
        ({"kind": "limit", "name": "unknown:x"}, "unknown:x"),
        ({"kind": "team", "name": "red", "team_id": "blue"}, "enter the team as the name"),
        ({"kind": "lock_group", "name": "g", "until": "2001-01-01T00:00"}, "is not in the future"),
        ({"kind": "lock_group", "name": "g", "until": "soon"}, "until"),
        ({"kind": "lock_group", "name": "g", "note": "n" * 1001}, "note"),
        ({"kind": "lock_group", "name": "g" * 256}, "lock_group"),
    ],
    ids=str,
)
def test_a_pause_with_invalid_input_shows_the_form_again_with_the_error(admin_person, connection, fields, shown):
    sent = admin_person.sends("/limits/pauses", **fields)

    assert sent.status_code == 400
    alert = unescape(sent.text.partition('role="alert">')[2].partition("</div>")[0])
    assert shown in alert
    if "note" in fields:
        assert f'value="{fields["note"]}"' in sent.text
    assert connection.execute("select count(*) from scheduled_action_pauses").fetchone() == (0,)


def test_every_kind_is_paused_under_its_name(admin_person, runtime):
    settings = replace(runtime.config.settings, limits=settings_of({"limits": {"free:*": {}}}).limits)
    runtime.config = replace(runtime.config, settings=settings)
    for kind, name, team in (("limit", "free:x", ""), ("lock_group", "g", "red"), ("team", "blue", "")):
        admin_person.makes("/limits/pauses", kind=kind, name=name, team_id=team)

    assert [(one.kind, one.name, one.team_id) for one in runtime.pauses.find()] == [
        ("limit", "free:x", None), ("lock_group", "g", "red"), ("team", "blue", None),
    ]  # fmt: skip


def test_a_viewer_sees_pauses_and_cannot_change_them(a_person, connection):
    limits(connection, THREE)
    schedule(connection, "api:acme")
    pause(connection, "lock_group", "g")
    viewer = a_person("viewer")
    pause_id = connection.execute("select id from scheduled_action_pauses").fetchone()[0]

    page = viewer.opens("/limits/pauses")

    assert rows(page)[0].endswith("no end 0")
    for shown in (page, viewer.opens("/limits"), viewer.opens("/action-types")):
        assert not re.search(r"New pause|>Resume|Pause key|Pause type", shown.text)
    assert viewer.sends("/limits/pauses", kind="lock_group", name="other").status_code == 403
    assert viewer.sends(f"/limits/pauses/{pause_id}/resume").status_code == 403
    assert connection.execute("select count(*) from scheduled_action_pauses where ends_at is null").fetchone() == (1,)


def test_a_caller_of_a_team_sees_and_changes_only_pauses_of_its_team(a_person, connection, runtime):
    for kind, name, team in (("lock_group", "g", None), ("lock_group", "g", "blue"), ("team", "blue", None)):
        pause(connection, kind, name, team=team)
    red = a_person("operator", "red")
    ids = [one.id for one in runtime.pauses.find()]

    assert "No pauses" in red.opens("/limits/pauses?team_id=blue").text
    assert [red.sends(f"/limits/pauses/{one}/resume").status_code for one in ids] == [404] * 3
    assert red.sends("/limits/pauses", kind="team", name="blue").status_code in {400, 403}
    assert red.sends("/limits/pauses", kind="lock_group", name="g", team_id="blue").status_code in {400, 403}
    red.makes("/limits/pauses", kind="lock_group", name="g")
    page = red.makes("/limits/pauses", kind="team", name="red")

    assert [re.sub(r" paused (now|\d+ s ago) .*", "", row) for row in rows(page)] == [
        "Lock group g of team red",
        "Team red",
    ]
    assert len(runtime.pauses.find()) == 5


def test_keys_and_types_have_links_to_a_filled_form(admin_person, connection):
    limits(connection, {**THREE, "all:*": {"at_once": 1, "across_teams": True}})
    for key in ("api:acme & co", "all:x", "api:paused", "without a pattern"):
        schedule(connection, key, team_id="red")
    pause(connection, "limit", "api:paused")
    page = admin_person.opens("/limits")
    types = admin_person.opens("/action-types")

    found = re.findall(r'href="/dashboard([^"]+)" title="Pause ', page.text)
    assert len(found) == 2
    form = admin_person.opens(unescape(found[1])).text
    assert '<option value="limit" selected>' in form
    assert 'name="name" type="text" value="api:acme &amp; co"' in form
    assert 'name="team_id" type="text" value="red"' in form
    assert 'name="team_id" type="text" value=""' in admin_person.opens(unescape(found[0])).text
    form = admin_person.opens(unescape(re.findall(r'href="/dashboard([^"]+)" title="Pause test:run"', types.text)[0]))
    assert 'name="name" type="text" value="test:run"' in form.text


def test_a_pause_that_has_ended_is_shown_until_its_actions_have_returned(admin_person, connection):
    pause(connection, "action_type", "test:run")
    (pause_id,) = connection.execute("select id::text from scheduled_action_pauses").fetchone()
    insert_many(connection, 10_001, parked_by=pause_id)
    connection.execute("update scheduled_action_pauses set ends_at = scheduled_actions_now()")

    (row,) = rows(admin_person.opens("/limits/pauses"))

    assert re.search(r" ended (now|\d+ s ago) its actions are returning 10,000\+$", row)
