"""Incidents from the alert to the fix in the browser: a cron with a wrong secret, a failed action; and the calendar."""

from __future__ import annotations

import json
import urllib.request
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.error import HTTPError

import pytest
from playwright.sync_api import expect

from scheduled_actions import Fail, action
from scheduled_actions.registry import Registry
from tests.browser.conftest import Site
from tests.browser.serving import served
from tests.factories import CRON_SECRET, database_now, insert, statuses

if TYPE_CHECKING:
    from collections.abc import Iterator


@action("letter:send", max_attempts=1)
def send_letter(payload: dict):
    """Fail for an address without an @."""
    if "@" not in payload["to"]:
        raise Fail(f"no such address: {payload['to']}")


@pytest.fixture
def site(database_url: str) -> Iterator[Site]:
    """Serve a project that sends letters."""
    with served(database_url, Registry.of(send_letter)) as (url, runtime):
        yield Site(url, runtime)


def ping(site, secret):
    """Ping as a cron does; return the status."""
    request = urllib.request.Request(f"{site.url}/cron/process", method="POST", headers={"x-cron-secret": secret})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status
    except HTTPError as error:
        return error.code


def test_the_overview_shows_a_cron_with_a_wrong_secret_and_runs_the_due_actions(site, a_holder, connection):
    noon = database_now(connection) - timedelta(hours=3)
    values = {"action_type": "letter:send", "scheduled_at": noon}
    ids = [insert(connection, payload={"to": to}, **values) for to in ("a@b.example", "c@d.example")]
    assert ping(site, CRON_SECRET[::-1]) == 401
    viewer = a_holder("operator")
    page = viewer.page

    checks = page.locator(".check")
    expect(checks.filter(has_text="Refused pings")).to_contain_text("uses a wrong CRON_SECRET: 1 ping")
    expect(checks.filter(has_text="Refused pings")).to_contain_text("If it is your cron, update its secret")
    expect(checks.filter(has_text="Ticks")).to_contain_text("Nothing has called /cron/process yet")
    expect(page.locator(".trigger")).to_contain_text("No tick yet")
    assert viewer.faults() == []
    viewer.presses("Run a tick now")

    expect(page.get_by_role("status")).to_contain_text("2 actions settled, 0 of them failed; 0 still due")
    expect(page.locator(".trigger")).to_contain_text("Alive")
    expect(page.locator(".tiles")).to_contain_text("nothing is due")
    assert {statuses(connection)[one] for one in ids} == {"completed"}
    # The cron now has the right secret: the live page shows its ping.
    assert ping(site, CRON_SECRET) == 200
    viewer.refreshes("overview")
    page.get_by_role("link", name="one bar per minute").click()
    expect(page.locator("tbody tr")).to_have_count(2)


def test_a_failed_action_is_found_from_the_overview_corrected_and_completed(site, a_holder, connection):
    action_id = insert(connection, action_type="letter:send", payload={"to": "ada.example.org"}, max_attempts=1)
    assert ping(site, CRON_SECRET) == 200
    viewer = a_holder("operator")
    page = viewer.page

    expect(page.locator(".failures")).to_contain_text("no such address: ada.example.org")
    page.get_by_role("link", name="no such address").click()
    expect(page.locator(".why")).to_contain_text("no such address: ada.example.org")
    viewer.presses("Retry action")
    page.get_by_role("link", name="Edit").click()
    page.get_by_label("JSON", exact=True).fill(json.dumps({"to": "ada@example.org"}))
    viewer.presses("Save changes")
    page.get_by_label("Change the action even though it is locked").check()
    viewer.presses("Save changes")
    page.get_by_role("link", name="Ticks").click()
    viewer.presses("Run a tick now")
    expect(page.get_by_role("status")).to_contain_text("1 action settled, 0 of them failed")

    viewer.opens(f"/actions/{action_id}")
    expect(page.locator(".what-is")).to_contain_text("completed")
    expect(page.locator(".json")).to_contain_text(["ada@example.org"])
    assert viewer.faults() == []
    assert statuses(connection)[action_id] == "completed"


def test_a_day_of_the_month_opens_in_place_and_links_to_its_actions(site, a_holder, connection):
    at = database_now(connection) + timedelta(minutes=90)
    action_id = insert(connection, action_type="letter:send", payload={"to": "a@b.example"}, scheduled_at=at)
    viewer = a_holder("viewer", timezone_id="UTC")
    page = viewer.page
    viewer.opens(f"/calendar?day={at:%Y-%m-%d}")
    before = page.url

    day = page.locator(f"#d{at:%Y-%m-%d}")
    day.focus()
    page.keyboard.press("Enter")
    opened = page.locator("#open")
    expect(opened).to_contain_text("letter:send")
    assert (page.url, viewer.faults()) == (before, [])
    assert day.evaluate("one => one === document.activeElement")
    page.keyboard.press("Enter")
    expect(opened).to_have_count(0)

    page.locator("a.mark", has_text="letter:send").first.click()
    page.wait_for_url(f"**/actions/{action_id}")


def test_a_month_is_printed_without_navigation(site, a_holder, connection):
    insert(connection, action_type="letter:send", payload={"to": "a@b.example"})
    viewer = a_holder("operator")
    viewer.opens("/calendar")

    viewer.page.emulate_media(media="print")

    expect(viewer.page.locator(".month")).to_be_visible()
    for around in (".bar", ".calendar-bar", ".tools"):
        expect(viewer.page.locator(around)).to_be_hidden()
