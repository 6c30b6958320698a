"""Actions in a real browser: find, explain, fix and schedule them, with the keyboard too."""

from __future__ import annotations

from datetime import timedelta

import pytest
from playwright.sync_api import expect

from tests.factories import database_now, insert, row, statuses
from tests.web.dashboard.test_actions import HOSTILE


def in_an_hour(connection, **columns):
    return insert(connection, scheduled_at=database_now(connection) + timedelta(hours=1), **columns)


def failed(connection, **columns):
    values = {"action_type": "payment:charge", "error_message": "CardDeclined: do_not_honor", "attempts": 3}
    return insert(connection, status="failed", completed_at=database_now(connection), **values | columns)


@pytest.fixture
def missed_pings(busy_site, connection):
    """Serve a project without pings for three hours and with five due actions; yield their ids."""
    connection.execute("delete from scheduled_action_ticks where started_at > now() - interval '3 hours'")
    at = database_now(connection) - timedelta(hours=2)
    return [insert(connection, action_type="search:index", scheduled_at=at) for _ in range(5)]


def test_an_operator_finds_why_nothing_ran_since_noon_and_runs_a_tick(missed_pings, a_holder, connection):
    viewer = a_holder("operator")
    page = viewer.page

    expect(page.locator(".check")).to_contain_text("Nothing has called /cron/process for 3 hours")
    expect(page.locator(".trigger")).to_contain_text("Late")
    page.get_by_role("link", name="Due now").click()
    expect(page.locator("tbody tr")).to_have_count(5)
    page.locator("tbody a").first.click()
    expect(page.locator(".why")).to_contain_text("/cron/process")
    assert viewer.faults() == []
    page.get_by_role("link", name="Overview").click()
    viewer.presses("Run a tick now")

    expect(page.get_by_role("status")).to_contain_text("5 actions settled, 0 of them failed; 0 still due")
    expect(page.locator(".trigger")).to_contain_text("Alive")
    expect(page.locator(".check")).to_have_count(0)
    expect(page.locator(".tiles")).to_contain_text("nothing is due")
    viewer.opens(f"/actions/{missed_pings[0]}")
    expect(page.locator(".why")).to_contain_text("How the action ended")
    assert {statuses(connection)[one] for one in missed_pings} == {"completed"}


def test_a_failed_action_is_found_and_retried_with_the_keyboard_alone(busy_site, a_holder, connection):
    action_id = failed(connection, dedup_key="order-99417")
    viewer = a_holder("operator")
    page = viewer.page
    viewer.opens("/actions")

    page.keyboard.press("/")
    page.keyboard.type("order-99417")
    page.keyboard.press("Enter")
    page.wait_for_url("**/actions?q=order-99417")
    expect(page.locator("tbody tr")).to_have_count(1)
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == f"a-{action_id}":
            break
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/actions/{action_id}")
    expect(page.locator(".why")).to_contain_text("CardDeclined")
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "Retry action":
            break
    page.keyboard.press("Enter")

    expect(page.get_by_role("status")).to_contain_text("pending again")
    assert statuses(connection)[action_id] == "pending"


def test_every_button_of_an_action_works(site, a_holder, connection):
    first, second = (in_an_hour(connection, action_type="search:index", payload={"n": 1}) for _ in range(2))
    viewer = a_holder("operator")
    page = viewer.page

    viewer.opens(f"/actions/{first}")
    page.get_by_role("link", name="Edit").click()
    page.get_by_label("Priority").fill("-3")
    page.get_by_label("JSON", exact=True).fill('{"n": 2}')
    assert viewer.faults() == []
    viewer.presses("Save changes")
    expect(page.get_by_role("status")).to_have_text("Saved.")
    viewer.presses("Run now")
    expect(page.locator(".timeline")).to_contain_text("by token:operator of tests: scheduled_at")
    page.get_by_role("link", name="Clone").click()
    expect(page.get_by_label("JSON", exact=True)).to_have_value('{\n  "n": 2\n}')
    viewer.presses("Schedule action")
    expect(page.get_by_role("status")).to_have_text("Scheduled.")
    viewer.opens(f"/actions/{second}")
    page.get_by_text("Cancel action…").click()
    page.get_by_role("textbox", name="Reason").fill("not needed any more")
    viewer.presses("Cancel action")
    expect(page.locator(".why")).to_contain_text("not needed any more")
    viewer.presses("Retry action")
    connection.execute("update scheduled_actions set status = 'failed', completed_at = now() where id = %s", [second])
    page.reload()
    viewer.presses("Delete action")
    expect(page.get_by_role("status")).to_contain_text("deleted")

    changed = row(connection, first)
    assert (changed["payload"], changed["priority"]) == ({"n": 2}, -3)
    assert second not in statuses(connection)
    assert len(statuses(connection)) == 2


def test_a_viewer_sees_no_buttons(busy_site, a_holder, connection):
    action_id = failed(connection)
    viewer = a_holder("viewer")

    for path in ("", "/actions", f"/actions/{action_id}", "/ticks", "/action-types/search:index"):
        viewer.opens(path)
        buttons = viewer.page.locator("main button").all_inner_texts()
        assert set(buttons) <= {"Filter actions"}, path
    assert viewer.opens(f"/actions/{action_id}/edit").status == 403


def test_an_action_due_very_soon_shows_that_it_is_locked(site, a_holder, connection):
    action_id = insert(
        connection, action_type="search:index", scheduled_at=database_now(connection) + timedelta(seconds=60)
    )
    viewer = a_holder("operator")
    viewer.opens(f"/actions/{action_id}/edit")

    viewer.page.get_by_label("Priority").fill("5")
    viewer.presses("Save changes")
    expect(viewer.page.get_by_role("alert")).to_contain_text("locked")
    viewer.page.get_by_label("Change the action even though it is locked").check()
    viewer.presses("Save changes")

    assert row(connection, action_id)["priority"] == 5


def test_a_form_built_from_the_schema_shows_errors_next_to_its_inputs(site, a_holder, connection):
    viewer = a_holder("operator")
    page = viewer.page
    viewer.opens("/action-types/invoice:send")

    page.get_by_label("Number").fill("2026-0501")
    page.get_by_label("Total").fill("-1")
    page.get_by_label("Lines").fill('[{"article": "Chair", "amount": "many"}]')
    page.get_by_label("Notes").fill("call before\nleave at the door")
    page.get_by_label("At", exact=True).check()
    page.get_by_label("Date and time in Europe/Berlin").fill("2030-03-05T09:30:00")
    viewer.presses("Schedule action")
    expect(page.get_by_label("Total")).to_have_attribute("aria-invalid", "true")
    expect(page.locator(".wrong").first).to_be_visible()
    assert viewer.faults() == []
    page.get_by_label("Total").fill("19.5")
    page.get_by_label("Customer").fill("Ada Lovelace")
    page.get_by_label("Lines").fill('[{"article": "Chair", "amount": 2}]')
    viewer.presses("Schedule action")

    expect(page.get_by_role("status")).to_have_text("Scheduled.")
    ((action_id, _),) = statuses(connection).items()
    made = row(connection, action_id)
    assert made["payload"]["lines"] == [{"article": "Chair", "amount": 2}]
    assert made["payload"]["notes"] == ["call before", "leave at the door"]
    assert made["scheduled_at"] == "2030-03-05T08:30:00+00:00"


def test_a_bulk_change_shows_its_progress(site, a_holder, connection):
    connection.execute(
        "insert into scheduled_actions (action_type, status, scheduled_at, completed_at)"
        " select 'search:index', 'failed', now(), now() from generate_series(1, 1200)"
    )
    viewer = a_holder("operator")
    viewer.opens("/actions?status=failed")
    viewer.page.get_by_role("link", name="Retry matching actions…").click()
    expect(viewer.page.locator("#progress")).to_contain_text("1,200 failed actions")
    assert viewer.faults() == []

    viewer.presses("Retry 1,200 actions")

    expect(viewer.page.locator("#progress")).to_contain_text("1,200 of 1,200 retried")
    expect(viewer.page.locator("#progress")).to_contain_text("Done.")
    assert set(statuses(connection).values()) == {"pending"}


# -- live --------------------------------------------------------------------------------------------------------------


def test_a_live_page_refreshes_without_closing_open_parts(site, a_holder, connection):
    action_id = in_an_hour(connection, action_type="search:index", payload={"deep": {"deeper": {"deepest": [1, 2]}}})
    viewer = a_holder("operator")
    page = viewer.page
    viewer.opens(f"/actions/{action_id}")
    page.get_by_text("deeper", exact=True).click()
    seen = page.locator("#action details[open]").count()

    connection.execute(
        "update scheduled_actions set status = 'completed', completed_at = now(), attempts = 1 where id = %s",
        [action_id],
    )
    viewer.refreshes("action")

    expect(page.locator(".why")).to_contain_text("How the action ended")
    assert page.locator("#action details[open]").count() == seen
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    expect(page.get_by_role("button", name="Run now")).to_have_count(0)
    expect(page.get_by_role("button", name="Delete")).to_have_count(1)


def test_the_list_counts_new_actions_without_moving(site, a_holder, connection):
    ids = [in_an_hour(connection, action_type="search:index") for _ in range(5)]
    viewer = a_holder("viewer")
    page = viewer.page
    viewer.opens("/actions")
    page.locator(f"#a-{ids[2]}").focus()

    in_an_hour(connection)
    connection.execute(
        "update scheduled_actions set status = 'cancelled', completed_at = now() where id = %s", [ids[0]]
    )
    viewer.refreshes("actions")

    expect(page.locator("tbody tr")).to_have_count(5)
    expect(page.locator("tbody tr").last).to_contain_text("cancelled")
    assert page.evaluate("document.activeElement.id") == f"a-{ids[2]}"
    page.get_by_role("link", name="1 newer").click()
    expect(page.locator("tbody tr")).to_have_count(6)


def test_a_page_shows_a_message_while_it_cannot_be_refreshed(site, a_holder, connection):
    in_an_hour(connection, action_type="search:index")
    viewer = a_holder("viewer")
    page = viewer.page
    viewer.opens("/actions")
    expect(page.locator("#away")).to_be_empty()

    page.route("**/dashboard/actions*", lambda route: route.fulfill(status=503, body="the database is unavailable"))
    viewer.refreshes("actions")
    expect(page.locator("#away")).to_contain_text("could not be refreshed")
    expect(page.locator("tbody tr")).to_have_count(1)
    assert viewer.faults() == []
    page.unroute("**/dashboard/actions*")
    viewer.refreshes("actions")

    expect(page.locator("#away")).to_be_empty()
    assert [one for one in viewer.complaints if "503" not in one] == []
    viewer.complaints.clear()


def test_a_live_page_redirects_to_sign_in_after_the_session_ended(site, a_holder, connection):
    viewer = a_holder("viewer")
    viewer.opens("/actions")
    connection.execute("update scheduled_action_tokens set revoked_at = now()")

    viewer.page.evaluate("htmx.trigger('#actions', 'refresh')")

    viewer.page.wait_for_url("**/login?next=*")


# -- untrusted values --------------------------------------------------------------------------------------------------


def test_markup_in_a_payload_name_or_error_is_not_executed(site, a_holder, connection):
    ids = []
    for text in HOSTILE:
        names = dict.fromkeys(("team_id", "lock_group", "target_id", "target_type", "user_id", "created_by"), text)
        entry = {"attempt": 1, "outcome": text, "by": text, "error": text}
        ids.append(
            failed(
                connection,
                **names,
                action_type=text,
                payload={text: [text]},
                error_message=text,
                history=[entry],
            )
        )
    viewer = a_holder("operator")

    for path in ("", "/actions", *(f"/actions/{action_id}" for action_id in ids)):
        assert viewer.opens(path).status == 200
        assert viewer.page.title() != "got in", path
        assert viewer.page.locator("img, main script, main svg[onload]").count() == 0, path
    # The markup is shown as text.
    viewer.opens(f"/actions/{ids[0]}")
    assert viewer.page.locator(".timeline pre").first.inner_text() == HOSTILE[0]
