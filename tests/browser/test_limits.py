"""Limit keys in the browser."""

from __future__ import annotations

from tests.browser.test_pages import does_not_spill, looks_right
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
