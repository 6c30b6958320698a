"""Deadlines in the browser: the list, the timeline, the form with its preview, and the buttons."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.test_pages import does_not_spill, looks_right

LICENCE = "/deadlines/0197a000-0000-7000-8000-00000000dead"


def test_a_deadline_is_found_moved_and_completed(busy_site, a_holder):
    viewer = a_holder("operator")
    page = viewer.page
    viewer.opens()
    page.get_by_role("link", name="Deadlines").click()
    page.get_by_role("link", name="Trade license").click()

    page.locator("summary", has_text="Move").click()
    page.get_by_role("textbox", name="Due").fill("2040-05-03T17:00")
    page.get_by_role("button", name="Move deadline", exact=True).click()
    assert "rescheduled" in page.get_by_role("status").inner_text()
    assert "3 May" in page.locator("main").inner_text() or "2040-05-03" in page.locator("main").inner_text()
    page.get_by_role("button", name="Complete").click()

    assert "No further reminders or escalations are sent" in page.get_by_role("status").inner_text()
    assert page.get_by_role("button", name="Complete").count() == 0


def test_a_deadline_and_its_timeline_are_accessible(busy_site, a_holder):
    for scheme in ("light", "dark"):
        viewer = a_holder("operator", color_scheme=scheme)
        looks_right(viewer, LICENCE)
        assert viewer.page.locator("svg.stages g").count() == 7


def test_a_deadline_fits_on_a_phone(busy_site, a_holder):
    viewer = a_holder("viewer", viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)

    viewer.opens(LICENCE)

    does_not_spill(viewer, LICENCE)


def test_the_preview_follows_the_form_of_a_new_and_of_an_edited_deadline(site, admin_viewer):
    page = admin_viewer.page
    admin_viewer.opens("/deadlines/new")
    expect(page.get_by_text("Choose a due date")).to_be_visible()
    page.get_by_role("textbox", name="Due").fill("2040-05-03T17:00")
    chart = page.locator("aside svg.stages")
    expect(chart.locator("g")).to_have_count(2)

    page.get_by_label("14 days").check()
    expect(chart.locator("g")).to_have_count(3)
    page.get_by_label("Target type").fill("license")
    page.get_by_label("Target id").fill("42")
    page.get_by_label("Responsible").fill("ann@example.org")
    page.keyboard.press("Enter")
    assert "Deadline created" in page.get_by_role("status").inner_text()

    page.get_by_role("link", name="Edit").click()
    expect(chart.locator("g")).to_have_count(3)
    page.get_by_label("reminder 7 days before").uncheck()
    expect(chart.locator("g")).to_have_count(2)
    page.get_by_role("button", name="Save").press("Enter")

    assert "Saved" in page.get_by_role("status").inner_text()
    assert page.locator("svg.stages g").count() == 2
    assert admin_viewer.faults() == []


def test_the_form_of_a_deadline_is_accessible(busy_site, a_holder):
    for scheme in ("light", "dark"):
        viewer = a_holder("operator", color_scheme=scheme)
        looks_right(viewer, f"{LICENCE}/edit")
