"""Webhooks in the browser: the life of an endpoint, recovery after an outage, calendar feeds."""

from __future__ import annotations

from tests.browser.test_pages import does_not_spill, looks_right

FAILING = "/webhooks/endpoints/0197a000-0000-7000-8000-00000000e002"
DELIVERY = "/webhooks/deliveries/01b00000-0000-7000-8000-00000000d001"
XSS = "<img src=x onerror=alert(1)>'\"</script><script>alert(2)</script>"


def test_an_endpoint_is_created_tested_rotated_and_deleted(site, admin_viewer):
    page = admin_viewer.page
    admin_viewer.opens("/webhooks")
    page.get_by_role("link", name="New endpoint").first.click()
    page.get_by_label("URL").fill("https://receiver.example/hook")
    page.get_by_label("Description").fill(XSS)
    page.keyboard.press("Enter")
    # The form has a field of the same name.
    page.wait_for_url("**/secret")

    secret = page.get_by_label("Secret", exact=True).inner_text()
    assert secret.startswith("whsec_")
    assert admin_viewer.faults() == []
    page.reload()
    assert "The secret was shown once" in page.locator("main").inner_text()
    assert "whsec_" not in page.content()
    page.get_by_role("link", name="Back to the endpoint").click()
    assert XSS in page.locator("main").inner_text()
    page.get_by_role("button", name="Send a test event").click()
    assert "The next tick sends the event" in page.get_by_role("status").inner_text()
    assert page.locator("h1").inner_text() == "webhook:test"
    page.get_by_role("link", name="receiver.example").first.click()
    page.get_by_text("New secret", exact=True).click()
    page.get_by_role("button", name="Create secret").click()
    assert page.get_by_label("Secret", exact=True).inner_text() not in {"", secret}
    page.get_by_role("link", name="Done").click()
    page.get_by_text("Delete endpoint", exact=True).first.click()
    page.get_by_role("button", name="Delete endpoint").click()
    assert "deleted" in page.get_by_role("status").inner_text()
    assert page.get_by_text("No endpoints yet").is_visible()


def test_reloading_the_page_of_a_new_feed_creates_no_second_feed(site, admin_viewer):
    page = admin_viewer.page
    admin_viewer.opens("/calendar/feeds")
    page.get_by_label("Name").fill("Nightly work")
    page.keyboard.press("Enter")

    address = page.get_by_label("Address of the feed").input_value()
    assert address.endswith(".ics")
    page.reload()

    assert page.get_by_label("Address of the feed").count() == 0
    assert page.get_by_text("Nightly work").count() == 1
    assert admin_viewer.faults() == []


def test_failed_deliveries_are_resent_after_an_outage(busy_site, a_holder):
    viewer = a_holder("operator")
    viewer.opens()
    viewer.page.get_by_role("link", name="books.nordlicht.example").click()
    viewer.page.get_by_role("link", name="Recover").click()

    assert "2 failed or skipped deliveries" in viewer.page.locator("main").inner_text()
    viewer.page.get_by_role("button", name="Resend deliveries").click()

    assert "2 deliveries will be sent" in viewer.page.get_by_role("status").inner_text()


def test_the_pages_of_an_endpoint_and_a_delivery_are_accessible(busy_site, a_holder):
    for scheme in ("light", "dark"):
        viewer = a_holder("operator", color_scheme=scheme)
        for path in (FAILING, DELIVERY, f"{FAILING}/edit", "/webhooks/recover?since=2026-01-01T00:00"):
            looks_right(viewer, path)


def test_an_endpoint_and_a_delivery_fit_on_a_phone(busy_site, a_holder):
    viewer = a_holder("viewer", viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)

    for path in (FAILING, DELIVERY):
        viewer.opens(path)
        does_not_spill(viewer, path)
