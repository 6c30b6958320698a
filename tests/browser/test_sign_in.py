"""Signing in and out with the keyboard; times in the viewer's zone; themes."""

from __future__ import annotations

from tests.browser.serving import ADMIN_TOKEN


def test_signing_in_with_an_error_and_out_works_with_the_keyboard_alone(busy_site, a_viewer):
    viewer = a_viewer()
    page = viewer.page
    viewer.opens("/?window=day")
    assert page.get_by_label("Token").evaluate("one => one === document.activeElement")

    page.keyboard.type("not a token of ours")
    page.keyboard.press("Enter")
    assert page.get_by_role("alert").inner_text() == "Unknown token"
    assert viewer.faults() == []
    page.keyboard.type(ADMIN_TOKEN)
    page.keyboard.press("Enter")
    page.wait_for_url("**/dashboard/?window=day")

    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('main') !== null")
    page.get_by_role("button", name="Sign out").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/dashboard/login")
    viewer.opens()
    assert page.url.endswith("/dashboard/login")


def test_scripts_cannot_read_the_session_cookie(admin_viewer):
    kept = admin_viewer.page.evaluate("document.cookie")

    assert "session" not in kept
    assert {one["name"] for one in admin_viewer.page.context.cookies()} >= {"scheduled_actions_session"}


def test_times_are_shown_in_the_viewers_zone_and_in_utc(busy_site, a_holder):
    viewer = a_holder("viewer", timezone_id="Pacific/Chatham")

    assert "Pacific/Chatham" in viewer.page.locator("footer").inner_text()
    title = viewer.page.locator("time").first.get_attribute("title")
    assert "+1345" in title
    assert title.endswith(" UTC")


def test_the_dark_theme_is_applied(admin_viewer):
    page = admin_viewer.page
    background = "getComputedStyle(document.documentElement).backgroundColor"
    light = page.evaluate(background)

    page.get_by_role("button", name="Dark").click()
    page.wait_for_selector("[data-theme=dark]")

    assert page.evaluate(background) != light
    assert admin_viewer.faults() == []


def test_the_content_security_policy_blocks_injected_scripts_and_styles(admin_viewer):
    for markup in ("<style>body{color:red}</style>", "<p style='color:red'>x</p>"):
        admin_viewer.page.evaluate("markup => document.body.insertAdjacentHTML('beforeend', markup)", markup)
    admin_viewer.page.evaluate(
        "document.body.appendChild(Object.assign(document.createElement('script'), {text: 'window.got_in = true'}))"
    )

    assert admin_viewer.page.evaluate("window.got_in") is None
    refused = [one for one in admin_viewer.complaints if "Content Security Policy" in one]
    assert len(refused) == 3
    admin_viewer.complaints.clear()
