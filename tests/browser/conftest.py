"""The pages in real Chromium, served by a real server; any error that the browser logs fails the test."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Response, sync_playwright

from scheduled_actions.operations import tokens
from tests.browser import sample_data
from tests.browser.serving import ADMIN_TOKEN, served

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg

    from scheduled_actions.runtime import Runtime

_AXE = next((Path(__file__).parent / "vendor").glob("axe-core-*.min.js")).read_text(encoding="utf-8")
#: The timeout for each page, in milliseconds.
_TIMEOUT_MS = 15_000
#: Maximum transferred bytes and requests of one page.
BYTES_MOST = 100 * 1024
REQUESTS_MOST = 10


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder with `browser`."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)


def chromium() -> str:
    """Return the path of the system's Chromium."""
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    assert found, "these tests need Chromium: apt-get install chromium, or set CHROMIUM to the path of its program"
    return found


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Return one Chromium for all tests; each test gets an empty profile in it."""
    with sync_playwright() as playwright:
        # The sandbox does not work as root, and the tests open only their own pages.
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass
class Site:
    """An application that is being served."""

    url: str
    runtime: Runtime


@pytest.fixture
def site(database_url: str) -> Iterator[Site]:
    """Serve a project whose tables are empty."""
    with served(database_url, sample_data.registry()) as (url, runtime):
        yield Site(url, runtime)


@pytest.fixture
def busy_site(site: Site, connection: psycopg.Connection[Any]) -> Site:
    """Serve a project after a busy day."""
    sample_data.insert_sample_data(connection)
    return site


@dataclass
class Viewer:
    """A caller with a browser; collects the errors that the browser logs."""

    page: Page
    site: Site
    complaints: list[str] = field(default_factory=list)
    fetched: list[Response] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Listen for errors and responses."""
        self.page.set_default_timeout(_TIMEOUT_MS)
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.complaints.append(f"script: {error}"))
        self.page.on("response", lambda response: self.fetched.append(response))  # noqa: PLW0108 - needs a function
        self.page.on("dialog", lambda dialog: (self.complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))

    def _hear(self, message: Any) -> None:
        # Chromium reports each 4xx response as an error of the page; the tests check statuses themselves.
        is_status = message.text.startswith("Failed to load resource: the server responded with a status of 4")
        if message.type in {"error", "warning"} and not is_status:
            self.complaints.append(f"{message.type}: {message.text}")

    def opens(self, path: str = "") -> Response:
        """Open a page of the dashboard and wait until it is loaded."""
        self.fetched.clear()
        response = self.page.goto(f"{self.site.url}/dashboard{path}")
        assert response is not None
        return response

    def signs_in(self, token: str) -> None:
        """Sign in."""
        self.opens("/login")
        self.page.get_by_label("Token").fill(token)
        self.page.keyboard.press("Enter")
        self.page.wait_for_url(f"{self.site.url}/dashboard")

    def presses(self, name: str) -> None:
        """Press a button and wait for the page that it leads to."""
        with self.page.expect_navigation():
            self.page.get_by_role("button", name=name, exact=True).click()

    def refreshes(self, part: str) -> None:
        """Refresh a live part immediately."""
        with self.page.expect_response(lambda response: "hx-request" in response.request.headers):
            self.page.evaluate("id => htmx.trigger('#' + id, 'refresh')", part)
        # Not a polled function: the page's content security policy forbids evaluating one.
        for state in ("request", "swapping", "settling"):
            self.page.locator(f".htmx-{state}").first.wait_for(state="detached")

    def cost(self) -> tuple[int, int]:
        """Return the bytes and the requests of the page that was opened last."""
        self.page.wait_for_load_state("networkidle")
        sizes = [one.request.sizes() for one in self.fetched]
        return sum(one["responseBodySize"] + one["responseHeadersSize"] for one in sizes), len(sizes)

    def faults(self) -> list[str]:
        """Return the accessibility errors that axe finds on the page."""
        # Evaluated by the debugger: the page's content security policy would refuse a script.
        self.page.evaluate(_AXE)
        found = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        serious = [one for one in found["violations"] if one["impact"] in {"serious", "critical"}]
        return [f"{one['id']}: {json.dumps([node['html'][:200] for node in one['nodes']][:3])}" for one in serious]


@pytest.fixture
def a_viewer(browser: Browser, site: Site) -> Iterator[Callable[..., Viewer]]:
    """Return a function that creates a caller with an empty browser; fail if a browser logged an error."""
    contexts: list[BrowserContext] = []
    viewers: list[Viewer] = []

    def make(**options: Any) -> Viewer:
        settings = {"timezone_id": "Europe/Berlin", "locale": "en-GB", "viewport": {"width": 1280, "height": 900}}
        contexts.append(browser.new_context(**settings | options))
        viewers.append(Viewer(contexts[-1].new_page(), site))
        return viewers[-1]

    yield make
    for context in contexts:
        context.close()
    assert [complaint for viewer in viewers for complaint in viewer.complaints] == []


@pytest.fixture
def admin_viewer(a_viewer: Callable[..., Viewer]) -> Viewer:
    """Return a caller who is signed in with `ADMIN_TOKEN`."""
    viewer = a_viewer()
    viewer.signs_in(ADMIN_TOKEN)
    return viewer


@pytest.fixture
def a_holder(a_viewer: Callable[..., Viewer], connection: psycopg.Connection[Any]) -> Callable[..., Viewer]:
    """Return a function that creates a caller who is signed in with a new token."""

    def make(role: str, team_id: str | None = None, **options: Any) -> Viewer:
        _, secret = tokens.create(connection, name=f"{role} of tests", role=role, team_id=team_id)
        viewer = a_viewer(**options)
        viewer.signs_in(secret)
        return viewer

    return make
