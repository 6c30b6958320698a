"""Limit keys and pauses in the browser."""

from __future__ import annotations

from tests.browser.test_pages import does_not_spill, looks_right
from tests.factories import insert
from tests.limits.test_claims import claim, limits, schedule


def test_limit_keys_are_accessible_and_fit_on_a_phone(site, a_holder, connection):
    limits(connection, {"api:*": {"at_once": 3, "rate": "2 per hour"}, "free:*": {}})
    for key in (f"api:{'long' * 60}", "free:x", "without a pattern"):
        schedule(connection, key, count=3, team_id="red")
    claim(connection)
    viewer = a_holder("operator", viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)

    looks_right(viewer, "/limits")
    does_not_spill(viewer, "/limits")
    assert viewer.page.locator("tbody tr").count() == 3
    viewer.page.get_by_label("Key begins with").fill("free:")
    viewer.page.keyboard.press("Enter")
    viewer.page.wait_for_url("**prefix=free**")
    assert viewer.page.locator("tbody tr").count() == 1
    viewer.refreshes("limits")
    assert viewer.page.locator("tbody tr").count() == 1


def test_pauses_fit_on_a_phone(site, a_holder, connection):
    for name in ("g", "long" * 60):
        connection.execute(
            "select scheduled_actions_pause('lock_group', %s, 'red', %s, 'ada', now() + interval '1 day')",
            (name, "note " * 150),
        )
    viewer = a_holder("operator", viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)

    looks_right(viewer, "/limits/pauses")
    does_not_spill(viewer, "/limits/pauses")
    assert viewer.page.get_by_role("button", name="Resume").count() == 2
    for path in ("", "/actions"):
        looks_right(viewer, path)
        does_not_spill(viewer, path)


def test_a_type_is_paused_its_action_held_back_and_resumed(site, a_holder, connection):
    viewer = a_holder("operator")
    page = viewer.page
    action_id = insert(connection, action_type="search:index", payload={})
    viewer.opens("/action-types")
    page.get_by_title("Pause search:index").click()
    page.get_by_label("Note").fill("provider down")
    page.get_by_label("Until").fill("2031-07-01T09:00:00")
    viewer.presses("Pause")

    assert "1 due action is held back" in page.get_by_role("status").inner_text()
    row = page.locator("tbody tr").inner_text()
    assert "search:index" in row
    assert "2031-07-01 09:00:00" in row
    looks_right(viewer, "/limits/pauses")
    viewer.refreshes("pauses")
    viewer.opens("/ticks")
    viewer.presses("Run a tick now")
    viewer.opens("/actions")
    assert "1 pause holds back 1 due action." in page.locator("main").inner_text()
    looks_right(viewer, f"/actions/{action_id}")
    assert 'action type "search:index" has been paused' in page.locator("main").inner_text()
    assert "provider down" in page.locator("main").inner_text()

    viewer.opens("/actions")
    page.get_by_role("link", name="Show pauses").click()
    viewer.presses("Resume")
    assert "Resumed." in page.get_by_role("status").inner_text()
    assert page.get_by_text("No pauses").is_visible()
    viewer.opens("/ticks")
    viewer.presses("Run a tick now")
    assert connection.execute("select status from scheduled_actions").fetchone() == ("completed",)
