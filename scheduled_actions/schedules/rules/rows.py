"""Build schedules from rows that SQL may have written with values that no function of ours stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduled_actions.core.stored_values import (
    COUNT,
    OBJECT,
    OBJECT_OR_NULL,
    count_rule,
    or_null,
    seconds_rule,
    usable,
)
from scheduled_actions.schedules.model import Schedule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduled_actions.core.stored_values import ValueRule

_COLUMNS: dict[str, ValueRule] = {
    "jitter_seconds": seconds_rule(0.0),
    "misfire_grace_seconds": seconds_rule(300.0),
    "catch_up_seconds": seconds_rule(604800.0),
    "catch_up_limit": count_rule(1, 10_000, expected="between 1 and 10000", default=100),
    "pause_after_failures": or_null(count_rule(1, expected="a count of at least 1")),
    "consecutive_failures": COUNT,
    "executions": COUNT,
    "skipped": COUNT,
    "missed": COUNT,
    "skip": OBJECT_OR_NULL,
    "metadata": OBJECT_OR_NULL,
    "definition": OBJECT,
}


def schedule_of(values: Mapping[str, Any]) -> Schedule:
    """Return the schedule of a row's columns by name; its `problem` names the first value that cannot be used."""
    found, problem = usable(values, _COLUMNS)
    return Schedule(**found, problem=problem)
