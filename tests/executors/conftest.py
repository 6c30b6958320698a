"""Projects with an executor `media` of the types `video:*`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from scheduled_actions.core import config
from scheduled_actions.executors import store
from scheduled_actions.registry import Registry
from scheduled_actions.runtime import Runtime
from tests.factories import CRON_SECRET

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def a_project(database_url, connection, tmp_path) -> Iterator[object]:
    """Return a function that creates a project with handlers, whose executor is in the database."""
    made = []

    def make(*handlers, executors=None, **settings):
        loaded = config.load(tmp_path, {"DATABASE_URL": database_url, "CRON_SECRET": CRON_SECRET})
        given = {"executors": {"media": {"types": ["video:*"]}} if executors is None else executors}
        changed = config.settings_of({**given, "concurrency": 2, **settings})
        made.append(Runtime(replace(loaded, settings=changed), registry=Registry.of(*handlers)))
        store.write_executors(connection, changed.executors, replace=True)
        return made[-1]

    yield make
    for runtime in made:
        runtime.close()
