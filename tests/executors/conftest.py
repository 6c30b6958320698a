"""Projects with an executor `media` of the types `video:*`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from scheduled_actions.core import config
from scheduled_actions.executors import dispatch, store
from scheduled_actions.registry import Registry
from scheduled_actions.runtime import Runtime
from tests.executors.broker import Broker
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


#: The settings of an executor whose tickets Celery carries.
CARRIED = {"types": ["video:*"], "carrier": "celery", "url_env_var": "MEDIA_BROKER_URL"}


@pytest.fixture
def broker(monkeypatch):
    """Return a broker in memory that carries the tickets of all executors."""
    broker = Broker()
    monkeypatch.setattr(dispatch, "build_carrier", lambda *_: broker)
    return broker


@pytest.fixture
def a_carried_project(a_project, broker):
    """Return a function that creates a project whose executor `media` uses the broker."""

    def make(*handlers, **settings):
        given = {name: settings.pop(name) for name in list(settings) if name in config.Executor.__dataclass_fields__}
        return a_project(*handlers, executors={"media": CARRIED | given}, **settings)

    return make
