"""A handler that does nothing, so that the benchmarks measure only the package."""

from __future__ import annotations

from scheduled_actions import action

ACTION_TYPE = "noop:run"


@action("noop:run")
def run(payload: dict[str, object]) -> None:
    """Do nothing."""
    del payload
