"""Every page, empty and after a busy day: without errors, small and accessible."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from email.message import EmailMessage

import pytest

from scheduled_actions.notifications import caught_mails
from scheduled_actions.web.dashboard.site_map import PAGES
from tests.browser.conftest import BYTES_MOST, REQUESTS_MOST

#: The pages without path parameters; the other pages are opened by the tests of their objects. Caught mails have pages
#: only where mails are caught.
PLAIN = sorted({page.path for page in PAGES if page.method == "GET" and "{" not in page.path} - {"/mail"})


def looks_right(viewer, path):
    """Open a page and check its size, requests and accessibility."""
    response = viewer.opens("" if path == "/" else path)
    size, requests = viewer.cost()

    assert response.status == 200, path
    assert viewer.page.locator("h1").count() == 1, path
    assert size <= BYTES_MOST, f"{path} costs {size:,} bytes"
    assert requests <= REQUESTS_MOST, f"{path} makes {requests} requests"
    assert {one.url.partition("/dashboard")[0] for one in viewer.fetched} == {viewer.site.url}, path
    assert viewer.faults() == [], path


def does_not_spill(viewer, path):
    """Check that a page fits the width of the window."""
    width = viewer.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert width <= 0, f"{path} is {width} pixels too wide"


def test_every_page_of_an_empty_installation_is_accessible(admin_viewer):
    for path in PLAIN:
        looks_right(admin_viewer, path)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_of_a_busy_installation_is_accessible(busy_site, a_holder, scheme):
    viewer = a_holder("operator", color_scheme=scheme)

    for path in PLAIN:
        looks_right(viewer, path)


def test_every_page_fits_on_a_phone(busy_site, a_holder):
    viewer = a_holder("operator", viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)

    for path in PLAIN:
        viewer.opens("" if path == "/" else path)
        does_not_spill(viewer, path)
        assert viewer.faults() == [], path


def test_every_page_can_be_read_without_a_script(busy_site, a_holder):
    viewer = a_holder("viewer", java_script_enabled=False)

    for path in PLAIN:
        assert viewer.opens("" if path == "/" else path).status in {200, 403}, path
        assert viewer.page.locator("h1").is_visible()
    viewer.opens()
    assert "UTC" in viewer.page.locator("footer").inner_text()


def test_caught_mails_are_accessible_and_their_html_runs_no_script(site, admin_viewer, tmp_path):
    site.runtime.config = replace(site.runtime.config, project=tmp_path)
    directory = tmp_path / caught_mails.DIRECTORY
    directory.mkdir(parents=True)
    looks_right(admin_viewer, "/mail")
    message = EmailMessage()
    message["Subject"] = "Trade license"
    message.set_content("Dear Ann")
    html = '<p id="found">Dear Ann</p><script>found.textContent = "ran"</script><img src="/favicon.ico">'
    message.add_alternative(html, subtype="html")
    mail = caught_mails.store(directory, message.as_bytes(), ["ann@example.org"], now=datetime.now(UTC))

    looks_right(admin_viewer, "/mail")
    looks_right(admin_viewer, f"/mail/{mail.id}")
    assert admin_viewer.opens(f"/mail/{mail.id}/html").status == 200
    assert admin_viewer.page.locator("#found").text_content() == "Dear Ann"
    assert [one.url for one in admin_viewer.fetched if not one.url.endswith("/html")] == []
    admin_viewer.complaints.clear()  # The browser reports what the policy has blocked.
