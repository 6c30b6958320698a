"""The handler of all benchmarks: it does nothing, so that what is measured is everything around it."""

from __future__ import annotations

from scheduled_actions import action

ACTION_TYPE = "noop:run"


@action("noop:run")
def run(payload: dict[str, object]) -> None:
    """Do nothing."""
    del payload
