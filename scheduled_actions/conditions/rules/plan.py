"""What an action waits for, as its row keeps it: the ends of other actions, its condition, and how long it waits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

from scheduled_actions.conditions.rules.composition import All
from scheduled_actions.conditions.rules.kinds import ActionStatus
from scheduled_actions.conditions.rules.parsing import read_condition, seconds_of
from scheduled_actions.core import json_text
from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.core.json_text import Unquoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduled_actions.conditions.rules.model import Condition

#: The largest condition kept, in bytes of its JSON.
CONDITION_LIMIT = 16 * 1024
#: How often a waiting condition is checked where nobody says: what wakes it comes at once anyway.
CHECK_SECONDS = 60.0
_MAX_AFTER = 100
_MAX_CHECKS = 1_000_000
_WAIT_FIELDS = frozenset({"wait", "check_interval", "timeout", "max_checks", "on_timeout"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What has to be so before an action runs, and what becomes of it until then."""

    #: The ends it waits for; None where it waits for no other action.
    after: Condition | None = None
    condition: Condition | None = None
    #: Whether it is kept until its condition is met; else it is skipped when that is not so.
    waits: bool = False
    check_seconds: float = CHECK_SECONDS
    #: From its first check.
    timeout_seconds: float | None = None
    max_checks: int | None = None
    #: What is scheduled when it has waited in vain, as `schedule_actions` of SQL takes it.
    on_timeout: tuple[Mapping[str, Any], ...] = ()


def stored_plan(condition: Any) -> str:  # noqa: ANN401 - it is what is judged
    """Return a condition as its row keeps it, JSON text, having read it.

    Args:
        condition: A condition, for one look; or `{"wait": condition, "check_interval": …, "timeout": …,
            "max_checks": …, "on_timeout": […]}`, the last as `schedule_actions` of SQL takes it.

    Raises:
        InvalidArgument: It is none; names the place.
        TooLarge: It is over its limit.
    """
    text = json_text.encode("condition", condition, limit=CONDITION_LIMIT)
    _read(json_text.decode(text, name="condition"))
    return text


@lru_cache(maxsize=1024)
def plan_of(text: str) -> Plan:
    """Return the plan of a row.

    Args:
        text: As the row keeps it: a condition, or `{"after": [ids], "condition": condition}`.

    Raises:
        InvalidArgument: SQL has put something else there.
    """
    stored = json_text.decode(text, name="condition")
    if not isinstance(stored, dict) or "after" not in stored:
        return _read(stored)
    after = stored["after"]
    if not isinstance(after, list) or not 1 <= len(after) <= _MAX_AFTER or set(stored) - {"after", "condition"}:
        raise InvalidArgument("condition.after", Unquoted("this"), f"a list of 1 to {_MAX_AFTER} ids")
    ends = All(tuple(ActionStatus(f"after.{number}", _id(one), ("completed",)) for number, one in enumerate(after)))
    if stored.get("condition") is None:
        return Plan(after=ends)
    inside = _read(stored["condition"])
    return Plan(
        after=ends,
        condition=inside.condition,
        waits=inside.waits,
        check_seconds=inside.check_seconds,
        timeout_seconds=inside.timeout_seconds,
        max_checks=inside.max_checks,
        on_timeout=inside.on_timeout,
    )


def _id(value: Any) -> UUID:  # noqa: ANN401 - it is what is judged
    try:
        return UUID(value)
    except (ValueError, AttributeError, TypeError):
        raise InvalidArgument("condition.after", value, "the id of an action") from None


def _read(given: Any) -> Plan:  # noqa: ANN401 - it is what is judged
    if not isinstance(given, dict) or "wait" not in given:
        return Plan(condition=read_condition(given))
    unknown = set(given) - _WAIT_FIELDS
    if unknown:
        field = min(unknown, key=str)
        expected = f"there: beside a wait stand {', '.join(sorted(_WAIT_FIELDS - {'wait'}))}"
        raise InvalidArgument(f"condition.{field}", Unquoted("this"), expected)
    interval, timeout, checks = (given.get(name) for name in ("check_interval", "timeout", "max_checks"))
    return Plan(
        condition=read_condition(given["wait"], name="condition.wait"),
        waits=True,
        check_seconds=CHECK_SECONDS if interval is None else seconds_of(interval, "condition.check_interval", least=1),
        timeout_seconds=None if timeout is None else seconds_of(timeout, "condition.timeout", least=1),
        max_checks=None if checks is None else _checks(checks),
        on_timeout=_follow_ups(given.get("on_timeout")),
    )


def _checks(value: Any) -> int:  # noqa: ANN401 - it is what is judged
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MAX_CHECKS:
        raise InvalidArgument("condition.max_checks", value, f"a whole number from 1 to {_MAX_CHECKS:,}")
    return value


def _follow_ups(given: Any) -> tuple[Mapping[str, Any], ...]:  # noqa: ANN401 - it is what is judged
    listed = [] if given is None else [given] if isinstance(given, dict) else given
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise InvalidArgument("condition.on_timeout", Unquoted("this"), "an action to schedule, or a list of them")
    return tuple(listed)


def in_a_circle(cycle: Sequence[UUID]) -> str:
    """Return the ids of a cycle, its first one again at the end."""
    return " -> ".join(str(one) for one in (*cycle, cycle[0]))
