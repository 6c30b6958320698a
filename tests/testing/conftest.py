"""Fixture with the test kit on the server of this run; works without the installed plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from scheduled_actions.testing import kit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def create_kit(database_url: str, tmp_path: Path) -> Iterator[Callable[..., kit.Kit]]:
    """Return a function that creates the kit of a project with these handlers, settings and environment variables."""
    from contextlib import ExitStack

    with ExitStack() as stack:

        def create(*handlers: Callable[..., Any], toml: str = "", **environ: str) -> kit.Kit:
            (tmp_path / "scheduled_actions.toml").write_text(toml, encoding="utf-8")
            return stack.enter_context(kit.kit(tmp_path, database_url, handlers=handlers, environ=environ))

        yield create
