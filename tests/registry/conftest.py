"""What several tests of the hands stand on."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """Give a project of its own: every project's package is called `handlers`, and Python keeps the first it saw."""
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
