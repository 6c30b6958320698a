"""The executors on the overview in the browser."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduled_actions.core.config import settings_of
from scheduled_actions.executors.store import write_executors
from tests.browser.test_pages import does_not_spill, looks_right
from tests.executors.test_service import write
from tests.factories import due_for, insert_many

PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}


@pytest.mark.parametrize("options", [PHONE, {"color_scheme": "dark"}], ids=["phone", "dark"])
def test_executors_are_accessible_and_fit_on_a_phone(site, a_holder, connection, options):
    executors = settings_of(
        {"executors": {"media": {"types": ["video:*"]}, "gpu": {"types": [f"{'long' * 20}:{n}" for n in range(8)]}}}
    ).executors
    runtime = site.runtime
    runtime.config = replace(runtime.config, settings=replace(runtime.config.settings, executors=executors))
    write_executors(connection, executors, replace=True)
    insert_many(connection, 3, action_type="video:cut", **due_for(connection, seconds=600))
    write(connection, "gpu-1:7", executor="gpu")
    viewer = a_holder("viewer", **options)

    looks_right(viewer, "")
    does_not_spill(viewer, "")
    table = viewer.page.get_by_role("table", name="Executors and their workers, by name")
    assert table.locator("tbody tr").count() == 2
    viewer.refreshes("overview")
    assert "no worker" in table.inner_text()
