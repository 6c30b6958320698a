"""A project that is the process's own."""

from __future__ import annotations

import pytest

from scheduled_actions import action
from tests.deadlines.deadline_project import deadline_project, send, start


@action("test:run")
def run(payload: dict):
    """Take any object."""


@pytest.fixture
def project(database_url):
    """Give a project with a handler and with deadlines, as the process's own."""
    with deadline_project(database_url, run, send, start) as project:
        yield project
