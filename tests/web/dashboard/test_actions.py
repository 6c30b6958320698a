"""Actions: search, show, change one or many; and the role that each needs."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from uuid import UUID, uuid4

import pytest
from psycopg.types.json import Jsonb

from scheduled_actions.web.dashboard.times import ZONE_COOKIE
from tests.factories import database_now, insert, row, statuses

AN_ID = "0197a000-0000-7000-8000-000000000001"
#: Markup that an attacker may have stored in values shown on pages.
HOSTILE = (
    "<script>document.title='got in'</script>",
    '"><img src=x onerror=alert(1)>',
    "'-alert(1)-'",
    "javascript:alert(1)",
    "{{ 7*7 }}{% raw %}",
    "</textarea><svg onload=alert(1)>",
    "\u202eevil\u0007",
)


def finished(connection, status="failed", **columns):
    return insert(connection, status=status, completed_at=database_now(connection), **columns)


def later(connection, **columns):
    return insert(connection, scheduled_at=database_now(connection) + timedelta(hours=1), **columns)


def shown_ids(text):
    return [UUID(found) for found in re.findall(r'id="a-([0-9a-f-]{36})"', text)]


# -- the list ----------------------------------------------------------------------------------------------------------


def test_an_action_that_only_a_change_makes_due_is_not_shown_as_due_in_the_year_9999(admin_person, connection):
    one = insert(connection, condition=Jsonb({"wait": {"fact": {"name": "paid"}}}), waiting=Jsonb({"checks": 1}))
    connection.execute("update scheduled_actions set scheduled_at = scheduled_actions_never()")

    assert "on a change" in admin_person.opens("/actions").text
    page = admin_person.opens(f"/actions/{one}").text
    assert "when what it waits for changes" in page
    assert "Attempt 1 waits for a change" in page
    assert "9999" not in page.replace("9999-01-01T", "")
    assert 'value="9999' not in admin_person.opens(f"/action-types/test:run?from={one}").text


def test_the_list_shows_the_actions_that_match_the_filters(admin_person, connection):
    failed = finished(connection, action_type="email:send", team_id="red", error_message="550 no such user")
    waiting = later(
        connection, lock_group="reports", dedup_key="key-17", user_id="ann", target_type="invoice", target_id="7",
        schedule_id=AN_ID, deadline_id=AN_ID, scheduled_by=AN_ID,
    )  # fmt: skip

    assert shown_ids(admin_person.opens("/actions").text) == [waiting, failed]
    for query, wanted in (
        ("status=failed", [failed]),
        ("action_type=email:send", [failed]),
        ("team_id=red", [failed]),
        ("lock_group=reports", [waiting]),
        ("user_id=ann", [waiting]),
        ("target_type=invoice&target_id=7", [waiting]),
        (f"schedule_id={AN_ID}", [waiting]),
        (f"deadline_id={AN_ID}", [waiting]),
        (f"scheduled_by={AN_ID}", [waiting]),
        ("q=key-1", [waiting]),
        ("status=completed", []),
    ):
        page = admin_person.opens(f"/actions?{query}", follow_redirects=True)
        assert shown_ids(page.text) == wanted, query
    assert "550 no such user" in admin_person.opens("/actions?status=failed").text


def test_filters_in_an_address_do_not_depend_on_the_viewers_zone(admin_person):
    admin_person.client.set_cookie(ZONE_COOKIE, "America/New_York")

    led = admin_person.opens("/actions?status=&q=+&due_from=2026-03-04T12:00&zone=x")

    assert led.status_code == 303
    assert led.location == "/dashboard/actions?due_from=2026-03-04T17%3A00%3A00Z"
    assert 'value="2026-03-04T12:00:00"' in admin_person.client.get(led.location).text


@pytest.mark.parametrize("query", ["status=nonsense", "due_from=soon", "cursor=here", "q=%00", "target_id=7"])
def test_an_invalid_filter_shows_an_error_and_keeps_the_form(admin_person, query):
    page = admin_person.opens(f"/actions?{query}", follow_redirects=True)

    assert page.status_code == 400
    assert 'role="alert"' in page.text
    assert 'role="search"' in page.text
    assert "No actions" not in page.text


def test_paging_shows_every_action_once(admin_person, connection):
    ids = [later(connection) for _ in range(53)][::-1]

    first = admin_person.opens("/actions").text
    older = re.search(r'href="([^"]+)" rel="next"', first)[1]
    second = admin_person.client.get(unescape(older)).text

    assert shown_ids(first) + shown_ids(second) == ids
    assert 'rel="next"' not in second


def test_new_actions_are_counted_without_moving_the_list(admin_person, connection):
    ids = [later(connection) for _ in range(3)][::-1]
    kept = unescape(re.search(r'hx-get="([^"]+)"', admin_person.opens("/actions").text)[1])
    later(connection)
    later(connection)

    refreshed = admin_person.client.get(kept, headers={"HX-Request": "true"}).text

    assert shown_ids(refreshed) == ids
    assert "2 newer" in refreshed


def test_a_team_sees_only_its_own_actions(a_person, connection):
    red, blue = later(connection, team_id="red"), later(connection, team_id="blue")
    person = a_person("viewer", "red")

    assert shown_ids(person.opens("/actions").text) == [red]
    assert shown_ids(person.opens("/actions?team_id=blue").text) == []
    assert person.opens(f"/actions/{red}").status_code == 200
    other, never = person.opens(f"/actions/{blue}"), person.opens(f"/actions/{(unknown := uuid4())}")
    assert other.status_code == 404
    assert other.text.replace(str(blue), "") == never.text.replace(str(unknown), "")


# -- one action --------------------------------------------------------------------------------------------------------


def test_an_action_shows_its_explanation_and_history(admin_person, connection):
    entry = {"attempt": 1, "outcome": "failed", "started_at": "2026-03-04T12:00:00+00:00", "error": "no answer"}
    action_id = later(
        connection, payload={"to": ["ada"]}, attempts=1, max_attempts=3, error_message="no answer", history=[entry],
        started_at="2026-03-04T12:00:00+00:00",
    )  # fmt: skip

    page = admin_person.opens(f"/actions/{action_id}").text

    assert "Attempt 1 of 3 failed (no answer)" in page
    assert "Attempt 1 failed" in page
    assert "Attempt 2 is planned" in page
    assert '<span class="text">&#34;ada&#34;</span>' in page
    assert admin_person.opens(f"/actions/{action_id}/as-text/payload").json is None
    assert admin_person.opens(f"/actions/{action_id}/as-text/payload").text == '{\n  "to": [\n    "ada"\n  ]\n}\n'
    assert admin_person.opens(f"/actions/{action_id}/as-text/claim_token").status_code == 404


@pytest.mark.parametrize("status", ["pending", "completed", "failed", "cancelled", "skipped", "no_action"])
def test_an_action_offers_the_buttons_of_its_status(a_person, connection, status):
    ends = {} if status in {"pending", "no_action"} else {"completed_at": database_now(connection)}
    action_id = insert(connection, status=status, **ends)

    seen = a_person("viewer").opens(f"/actions/{action_id}").text
    fixed = a_person("operator").opens(f"/actions/{action_id}").text

    offers = {
        "run": status == "pending",
        "cancel": status in {"pending", "no_action"},
        "retry": status in {"failed", "cancelled", "skipped"},
        "remove": status in {"completed", "failed", "cancelled", "skipped"},
    }
    for what, is_offered in offers.items():
        assert (f"/actions/{action_id}/{what}" in fixed) == is_offered, what
        assert f"/actions/{action_id}/{what}" not in seen, what


FIXES = [
    ("run", {}, "pending", "pending"),
    ("cancel", {"reason": "not needed"}, "pending", "cancelled"),
    ("retry", {}, "failed", "pending"),
    ("remove", {}, "completed", None),
    ("edit", {"as": "json", "payload": '{"n": 2}', "priority": "4"}, "pending", "pending"),
]


@pytest.mark.parametrize("fix", FIXES, ids=[fix[0] for fix in FIXES])
def test_only_operators_of_the_team_change_an_action(a_person, connection, fix):
    what, fields, before, after = fix
    make = later if before == "pending" else finished
    action_id = make(connection, status=before, team_id="red", payload={"n": 1})
    before_change = row(connection, action_id)

    for person, status in ((a_person("viewer", "red"), 403), (a_person("operator", "blue"), 404)):
        assert person.sends(f"/actions/{action_id}/{what}", **fields).status_code == status
        assert row(connection, action_id) == before_change

    done = a_person("operator", "red").sends(f"/actions/{action_id}/{what}", **fields)

    assert done.status_code == 303
    assert statuses(connection).get(action_id) == after
    if after is not None:
        assert row(connection, action_id) != before_change
        assert "operator of tests" in str(row(connection, action_id)["history"])


def test_the_message_of_a_change_is_shown_once(a_person, connection):
    person = a_person("operator")
    action_id = finished(connection)

    done = person.sends(f"/actions/{action_id}/retry")

    assert "with its attempts reset" in person.client.get(done.location).text
    assert "with its attempts reset" not in person.client.get(done.location).text


def test_an_action_due_very_soon_is_locked_unless_forced(a_person, connection):
    person = a_person("operator")
    action_id = insert(connection, scheduled_at=database_now(connection) + timedelta(seconds=30))

    refused = person.sends(f"/actions/{action_id}/cancel")
    form = person.sends(f"/actions/{action_id}/edit", priority="3")

    assert (refused.status_code, form.status_code) == (409, 409)
    assert "action_locked" in refused.text
    assert 'name="force"' in form.text
    assert statuses(connection)[action_id] == "pending"
    assert person.sends(f"/actions/{action_id}/edit", priority="3", force="on").status_code == 303
    assert row(connection, action_id)["priority"] == 3
    assert 'name="force"' in person.opens(f"/actions/{action_id}").text
    assert person.sends(f"/actions/{action_id}/cancel", force="on").status_code == 303
    assert statuses(connection)[action_id] == "cancelled"


def test_an_edit_saves_only_changed_fields_and_refuses_a_stale_version(a_person, connection):
    person = a_person("operator")
    action_id = later(connection, payload={"n": 1}, metadata={"by": "hand"})
    page = person.opens(f"/actions/{action_id}/edit").text
    sent = {
        name: unescape(re.search(rf'name="{name}"[^>]* value="([^"]*)"', page)[1])
        for name in ("etag", "at", "priority")
    } | {"as": "json", "payload": '{"n": 1}', "metadata": '{"by": "hand"}'}

    person.sends(f"/actions/{action_id}/edit", **sent)
    assert row(connection, action_id)["history"] == []
    connection.execute("update scheduled_actions set priority = 9 where id = %s", [action_id])
    refused = person.sends(f"/actions/{action_id}/edit", **sent | {"payload": '{"n": 2}'})

    assert refused.status_code == 412
    assert "The action has changed since you opened this form" in refused.text
    assert f'/dashboard/actions/{action_id}/edit">start again' in refused.text
    assert "ETag" not in refused.text
    assert "&#34;n&#34;: 2" in refused.text
    assert row(connection, action_id)["payload"] == {"n": 1}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"as": "json", "payload": "{"}, "JSON"),
        ({"as": "json", "payload": "[1]"}, "object"),
        ({"priority": "high"}, "integer"),
        ({"at": "soon"}, "ISO 8601"),
        ({"metadata": "nonsense"}, "JSON"),
    ],
)
def test_an_invalid_edit_shows_the_form_again(a_person, connection, fields, message):
    action_id = later(connection, payload={"n": 1})
    before_change = row(connection, action_id)

    refused = a_person("operator").sends(f"/actions/{action_id}/edit", **fields)

    assert refused.status_code == 400
    assert message in refused.text
    assert row(connection, action_id) == before_change


# -- bulk changes ------------------------------------------------------------------------------------------------------


def test_a_bulk_change_counts_first_and_then_proceeds_in_steps(a_person, connection):
    connection.execute(
        "insert into scheduled_actions (action_type, status, scheduled_at, completed_at, team_id)"
        " select 'test:run', 'failed', now(), now(), case when n <= 510 then 'red' end from generate_series(1, 513) n"
    )
    person = a_person("operator")

    counted = person.opens("/actions/retry?status=failed&team_id=red").text
    first = person.sends("/actions/retry", status="failed", team_id="red", total="510").text
    fields = {name: unescape(value) for name, value in re.findall(r'name="(\w+)" value="([^"]*)"', first)}
    last = person.sends("/actions/retry", **{name: fields[name] for name in fields if name not in {"next", "theme"}})

    assert "510 failed actions" in counted
    assert "500 of 510 retried" in first
    assert 'hx-trigger="load' in first
    assert "510 of 510 retried" in last.text
    assert "Done." in last.text
    assert sorted(statuses(connection).values()) == ["failed"] * 3 + ["pending"] * 510


def test_a_bulk_cancellation_stores_the_reason_and_skips_locked_actions(a_person, connection):
    far, near = later(connection, lock_group="g"), insert(connection, lock_group="g")
    person = a_person("operator")

    assert "1 pending action" in person.opens("/actions/cancel?status=pending&lock_group=g").text
    person.sends("/actions/cancel", status="pending", lock_group="g", reason="the campaign is off")
    assert statuses(connection) == {far: "cancelled", near: "pending"}
    assert row(connection, far)["error_message"] == "the campaign is off"
    person.sends("/actions/cancel", status="pending", lock_group="g", force="on")
    assert statuses(connection)[near] == "cancelled"


def test_a_bulk_deletion_shows_the_count_and_deletes_only_finished_matches(a_person, connection):
    ended = [finished(connection, "completed", user_id="ann") for _ in range(2)]
    others = {finished(connection, "completed"), later(connection, user_id="ann")}
    person = a_person("operator")

    listed = person.opens("/actions?status=completed&user_id=ann").text
    counted = person.opens("/actions/delete?status=completed&user_id=ann").text
    before = statuses(connection)
    done = person.sends("/actions/delete", status="completed", user_id="ann", total="2").text

    assert "/actions/delete?status=completed&amp;user_id=ann" in listed
    assert "Delete 2 actions</button>" in counted
    assert before.keys() == {*ended, *others}
    assert "2 of 2 deleted" in done
    assert statuses(connection).keys() == others


@pytest.mark.parametrize("change", ["retry", "cancel", "delete"])
def test_bulk_changes_need_an_operator_and_stay_in_its_team(a_person, connection, change):
    blue = later(connection, team_id="blue") if change == "cancel" else finished(connection, team_id="blue")
    before_change = row(connection, blue)

    assert a_person("viewer").opens(f"/actions/{change}").status_code == 403
    assert a_person("viewer").sends(f"/actions/{change}", team_id="blue").status_code == 403
    for fields in ({}, {"team_id": "blue"}):
        assert "0 of 0" in a_person("operator", "red").sends(f"/actions/{change}", **fields).text
    assert row(connection, blue) == before_change


# -- untrusted values --------------------------------------------------------------------------------------------------


def test_markup_in_payloads_names_and_errors_is_shown_as_text(admin_person, connection):
    ids = []
    for text in HOSTILE:
        columns = dict.fromkeys(("error_message", "team_id", "lock_group", "target_id", "user_id", "created_by"), text)
        entry = {"attempt": 1, "outcome": text, "by": text, "error": text, "reason": text, "changes": [text]}
        ids.append(
            finished(
                connection,
                action_type=text,
                payload={text: [text]},
                metadata={text: text},
                history=[entry],
                target_type=text,
                dedup_key=text,
                **columns,
            )
        )

    pages = ["/actions", "", *(f"/actions/{action_id}" for action_id in ids)]
    for path in pages:
        page = admin_person.opens(path)
        assert page.status_code == 200, path
        for text in HOSTILE:
            if re.search("[<\"']", text):
                assert text not in page.text, path
        for address in re.findall(r'(?:href|action|hx-get)="([^"]*)"', page.text):
            assert address.startswith(("/dashboard", "/docs", "#")), address


def test_an_unreadable_row_does_not_hide_others(admin_person, connection):
    odd = insert(connection, scheduled_at="-infinity")
    deep = insert(connection, payload="[" * 3000 + "]" * 3000)

    assert shown_ids(admin_person.opens("/actions").text) == [deep, odd]
    assert "since forever" in admin_person.opens(f"/actions/{odd}").text
    assert admin_person.opens(f"/actions/{deep}").status_code == 200


def test_the_largest_payload_leaves_its_page_small(admin_person, connection):
    action_id = insert(connection, payload={"rows": [{"n": n, "text": "x" * 100} for n in range(2000)]})

    page = admin_person.opens(f"/actions/{action_id}")

    assert len(page.data) < 100_000
    assert "1,9" in page.text
    assert len(admin_person.opens(f"/actions/{action_id}/as-text/payload").data) > 200_000


# -- follow-ups --------------------------------------------------------------------------------------------------------


def test_an_action_links_to_its_follow_ups_and_back(admin_person, connection):
    parent = finished(connection, "completed", action_type="order:submit")
    children = [later(connection, action_type=f"step:{number}", scheduled_by=parent) for number in range(21)]

    text = admin_person.opens(f"/actions/{parent}").text

    assert "Follow-ups" in text
    assert str(children[20]) in text
    assert str(children[0]) not in text
    older = re.search(r'href="(/dashboard/actions/[^"]+scheduled=[^"#]+)', text)[1]
    assert str(children[0]) in admin_person.opens(older.removeprefix("/dashboard")).text
    assert f'/dashboard/actions/{parent}">order:submit' in admin_person.opens(f"/actions/{children[0]}").text
    assert "Follow-ups" not in admin_person.opens(f"/actions/{children[0]}").text


def test_a_parent_that_is_deleted_or_of_another_team_is_not_linked(a_person, connection):
    blue = finished(connection, "completed", team_id="blue", action_type="blue:secret")
    person = a_person("viewer", "red")

    for parent in (blue, uuid4()):
        text = person.opens(f"/actions/{later(connection, team_id='red', scheduled_by=parent)}").text
        assert f'href="/dashboard/actions/{parent}"' not in text
        assert "not found" in text
        assert "blue" not in text
