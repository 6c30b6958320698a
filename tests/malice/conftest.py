"""The extent of the malice suite: a part of it in a minute, or all of it."""

from __future__ import annotations

import logging
import os

import pytest

from tests.web.conftest import a_runtime

__all__ = ["a_runtime"]

#: Set by `make proof-malice`: every hostile value, and ten minutes of a hostile team.
IS_WHOLE = os.environ.get("MALICE") == "whole"


@pytest.fixture(autouse=True)
def unrecorded_logs():
    """Prevent pytest from keeping every log record in memory, with its exception and the values of its frames."""
    log = logging.getLogger("scheduled_actions")
    log.propagate = False
    yield
    log.propagate = True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder: `make test-malice` runs them."""
    for item in items:
        if "/tests/malice/" in str(item.path):
            item.add_marker(pytest.mark.malice)
