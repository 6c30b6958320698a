"""Pending actions whose time has not come: what moved it there, and when it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduled_actions.conditions.rules.plan import in_a_circle
from scheduled_actions.operations.doctor.rules.database import in_words
from scheduled_actions.operations.doctor.rules.work import BREAK_CYCLE
from scheduled_actions.operations.explain.rules.facts import Code, Explanation, Facts, at, iso

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Outcomes of an attempt that is repeated.
_FAILED = frozenset({"failed", "timed_out", "crashed"})
#: Entries of the history that set `scheduled_at`, beside a change of just that.
_MOVED = _FAILED | {"snoozed", "waited", "retried", "recovered"}
#: The last years that an instant can have stand for `infinity`.
_NEVER_YEAR = 9999


def waiting_for_retry(facts: Facts) -> Explanation | None:
    """Say that its latest attempt failed."""
    action = facts.action
    entry = _what_moved_it(facts)
    if not _waits(facts) or entry.get("outcome") not in _FAILED:
        return None
    most = facts.here.max_attempts
    error = action.error_message or entry.get("error")
    return Explanation(
        code=Code.WAITING_FOR_RETRY,
        sentence=f"attempt {action.attempts} of {most} {_words(entry)}{f' ({error})' if error else ''}; the next one "
        f"comes {_when(facts)}",
        remedy=f"mend the cause before then; {_at_once(facts)}",
        details={
            **_due(facts),
            "attempts": action.attempts,
            "next_attempt": action.attempts + 1,
            "max_attempts": most,
            "outcome": entry.get("outcome"),
            "error": error,
        },
    )


def delivery_put_off(facts: Facts) -> Explanation | None:
    """Say that its endpoint takes no more for now."""
    endpoint = _endpoint(facts)
    if not _waits(facts) or endpoint is None or _what_moved_it(facts).get("outcome") != "snoozed":
        return None
    rate = facts.here.endpoint_rate
    why = (
        "was slow or did not answer, so that others wait for it"
        if rate is None
        else f"takes {rate:g} a second at most, or was slow to answer"
    )
    return Explanation(
        code=Code.DELIVERY_PUT_OFF,
        sentence=f'the delivery was put off: endpoint "{endpoint}" {why}; it comes again {_when(facts)}',
        remedy="`scheduled-actions webhooks deliveries list` shows how that endpoint answers",
        details={**_due(facts), "endpoint": endpoint, "rate_limit": rate, **_snoozes(facts)},
    )


def snoozed(facts: Facts) -> Explanation | None:
    """Say that its handler asked to go on later."""
    if not _waits(facts) or _what_moved_it(facts).get("outcome") != "snoozed":
        return None
    return Explanation(
        code=Code.SNOOZED,
        sentence=f"its handler asked to go on later: {_when(facts)}",
        remedy=_at_once(facts),
        details={**_due(facts), **_snoozes(facts)},
    )


def waiting_cycle(facts: Facts) -> Explanation | None:
    """Say that it waits for what waits for it, or for actions that do."""
    action_id, cycle = facts.action.id, list(facts.cycle)
    if not facts.is_waiting or not cycle:
        return None
    words = "these actions wait for one another for ever"
    if action_id in cycle:
        first = cycle.index(action_id)
        cycle = cycle[first:] + cycle[:first]
    else:
        words = "it comes after actions that wait for one another for ever"
    return Explanation(
        code=Code.WAITING_CYCLE,
        sentence=f"{words}: {in_a_circle(cycle)}",
        remedy=BREAK_CYCLE,
        details={"scheduled_at": iso(facts.action.scheduled_at), "cycle": [str(one) for one in cycle]},
    )


def condition_not_met(facts: Facts) -> Explanation | None:
    """Say that what it waits for was not so when it was looked at last."""
    waiting = facts.action.waiting or {}
    if not _waits(facts) or not waiting.get("unmet") or _what_moved_it(facts).get("outcome") != "waited":
        return None
    return Explanation(
        code=Code.CONDITION_NOT_MET,
        sentence=f"its condition is not met: {waiting['unmet']}; "
        f"{_what_wakes(facts.action.condition)} is looked at again {_when(facts)}",
        remedy=f"see that what it waits for comes about; {_at_once(facts)}, and has it looked at again",
        details={**_due(facts), **{name: waiting.get(name) for name in ("unmet", "unmet_since", "since", "checks")}},
    )


#: Kinds of conditions that ask the world: nobody tells when its answer would be another one.
_ASKED = frozenset({"query", "http", "custom"})


def _what_wakes(condition: Any) -> str:  # noqa: ANN401 - any JSON
    kinds, parts = set(), [condition]
    while parts:
        match parts.pop():
            case list(inside):
                parts += inside
            case dict(part):
                kinds |= {str(part["kind"])} if "kind" in part else {"after"} & part.keys()
                parts += [part[name] for name in ("condition", "wait", "all", "any", "not") if name in part]
            case _:
                pass
    return "nothing wakes it, it" if kinds and kinds <= _ASKED else "a change wakes it, and it"


def not_due(facts: Facts) -> Explanation | None:
    """Say that its time has not come."""
    if not _waits(facts):
        return None
    return Explanation(
        code=Code.NOT_DUE,
        sentence=f"it is not due yet: it comes due {_when(facts)}",
        remedy=_at_once(facts),
        details=_due(facts),
    )


def _at_once(facts: Facts) -> str:
    action_id = facts.action.id
    return f"`scheduled-actions run-now {action_id}` (`POST /api/v1/actions/{action_id}/run-now`) makes it due at once"


def _waits(facts: Facts) -> bool:
    return facts.is_waiting and not facts.is_due


def _what_moved_it(facts: Facts) -> Mapping[str, Any]:
    """Return the latest entry of the history that set `scheduled_at`; empty where it stands as it was scheduled."""
    entry: Mapping[str, Any]
    for entry in reversed(facts.action.history):
        changes = entry.get("changes")
        if entry.get("outcome") in _MOVED or (isinstance(changes, list) and "scheduled_at" in changes):
            return entry
    return {}


def _words(entry: Mapping[str, Any]) -> str:
    return {"timed_out": "timed out", "crashed": "ended with its process"}.get(str(entry.get("outcome")), "failed")


def _when(facts: Facts) -> str:
    moment = facts.action.scheduled_at
    if moment.year >= _NEVER_YEAR:
        return "never: its time is infinitely far"
    return f"in {in_words(moment - facts.now)}, at {at(moment)}"


def _due(facts: Facts) -> dict[str, Any]:
    moment = facts.action.scheduled_at
    return {"scheduled_at": iso(moment), "due_in_seconds": round((moment - facts.now).total_seconds(), 3)}


def _snoozes(facts: Facts) -> dict[str, Any]:
    return {"snoozes": _what_moved_it(facts).get("count", 1)}


def _endpoint(facts: Facts) -> str | None:
    payload = facts.action.payload
    endpoint = payload.get("endpoint") if isinstance(payload, dict) else None
    return endpoint if facts.action.action_type == "webhook:send" and isinstance(endpoint, str) else None
