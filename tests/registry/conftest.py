"""Fixtures for tests of the registry."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """Return an empty project; its modules are removed afterwards, because every project has a package `handlers`."""
    path = list(sys.path)
    others = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "handlers"}
    for name in others:
        del sys.modules[name]
    (tmp_path / "handlers").mkdir()

    yield tmp_path

    sys.path[:] = path
    for name in [name for name in sys.modules if name.split(".")[0] == "handlers"]:
        del sys.modules[name]
    sys.modules.update(others)
