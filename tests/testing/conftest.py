"""The fixtures of the plugin, on the server of this run; also where the plugin is not installed yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from scheduled_actions.testing import kit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def a_kit(database_url: str, tmp_path: Path) -> Iterator[Callable[..., kit.Kit]]:
    """Return a function that gives the kit of a project of these handlers, this file and this environment."""
    from contextlib import ExitStack

    with ExitStack() as stack:

        def make(*handlers: Callable[..., Any], toml: str = "", **environ: str) -> kit.Kit:
            (tmp_path / "scheduled_actions.toml").write_text(toml, encoding="utf-8")
            return stack.enter_context(kit.kit(tmp_path, database_url, handlers=handlers, environ=environ))

        yield make
