"""Save screenshots of the pages that the README and the docs show, light and dark: `make screenshots`.

Inter and JetBrains Mono should be installed (Debian: fonts-inter, fonts-jetbrains-mono).
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from playwright.sync_api import sync_playwright

from scheduled_actions.database.embedded import attach
from scheduled_actions.database.migrate import migrate
from tests.browser import sample_data
from tests.browser.conftest import Site, Viewer, chromium
from tests.browser.serving import ADMIN_TOKEN, served

if TYPE_CHECKING:
    from playwright.sync_api import Browser

IMAGES = Path(__file__).parents[2] / "docs" / "images"
#: The name of the file, the path of the page, and the height of the window.
PAGES = (
    ("overview", "", 920),
    ("actions", "/actions", 660),
    ("action", f"/actions/{sample_data.STORY}", 900),
    ("deadline", "/deadlines/0197a000-0000-7000-8000-00000000dead", 780),
    ("webhooks", "/webhooks/endpoints/0197a000-0000-7000-8000-00000000e002", 600),
    ("schedule-an-action", "/action-types/invoice:send", 820),
    ("calendar", "/calendar?team_id=north", 1000),
    ("schedules", "/schedules", 620),
    ("simulate", "/simulate?window=day", 700),
)
_WIDTH = 1280
#: The maximum size of a file, in bytes.
_LARGEST = 200 * 1024


def main() -> None:
    """Save all screenshots."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o711)
        with attach(Path(directory) / "postgres") as server:
            with psycopg.connect(server.dsn, autocommit=True) as connection:
                migrate(connection)
                sample_data.insert_sample_data(connection)
            with served(server.dsn, sample_data.registry()) as (url, runtime), sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
                for scheme in ("light", "dark"):
                    _draw(browser, Site(url, runtime), scheme)
                browser.close()


def _draw(browser: Browser, site: Site, scheme: str) -> None:
    context = browser.new_context(
        color_scheme=scheme,  # type: ignore[arg-type]  # a literal
        timezone_id="Europe/Berlin",
        locale="en-GB",
        viewport={"width": _WIDTH, "height": 900},
    )
    viewer = Viewer(context.new_page(), site)
    viewer.signs_in(ADMIN_TOKEN)
    for name, path, height in PAGES:
        viewer.page.set_viewport_size({"width": _WIDTH, "height": height})
        viewer.opens(path)
        target = IMAGES / f"{name}-{scheme}.png"
        viewer.page.screenshot(path=target)
        size = target.stat().st_size
        assert size <= _LARGEST, f"{target.name} has {size:,} bytes: reduce the height of the window"
        print(f"{target.relative_to(IMAGES.parents[1])}: {size:,} bytes")  # noqa: T201 - output of the command
    context.close()


if __name__ == "__main__":
    main()
