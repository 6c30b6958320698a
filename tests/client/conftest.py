"""A project whose runtime is that of the process."""

from __future__ import annotations

import pytest

from scheduled_actions import action
from tests.deadlines.deadline_project import deadline_project, send, start


@action("test:run")
def run(payload: dict):
    """Accept any payload."""


@pytest.fixture
def project(database_url):
    """Return a project with a handler and deadlines; its runtime is that of the process."""
    with deadline_project(database_url, run, send, start) as project:
        yield project
