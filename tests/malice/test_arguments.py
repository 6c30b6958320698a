"""Hostile arguments for every function that application code calls: rejected with our errors, or harmless."""

from __future__ import annotations

import inspect
import math
import random
import time
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID, uuid4

import pytest

import scheduled_actions
from scheduled_actions.core.errors import ScheduledActionsError
from tests.factories import NOW
from tests.malice import stored
from tests.malice.measuring import CPU_SECONDS_MOST, run_round
from tests.malice.sample_project import Reader, sample_project, seed

_TARGET = {"type": "license", "id": "42"}
_DUE = NOW + timedelta(days=400)
#: Every function that writes or reads for a caller, with valid arguments.
CALLS: dict[str, dict[str, Any]] = {
    "acknowledge_deadline": {"deadline": "renewal"},
    "backfill_schedule": {"schedule": "report", "start": NOW, "end": NOW},
    "cancel_action": {"action_id": uuid4()},
    "cancel_deadline": {"deadline": "x"},
    "complete_deadline": {"deadline": "x"},
    "delete_fact": {"target": _TARGET, "name": "x"},
    "delete_schedule": {"schedule": "x"},
    "emit_event": {"event": "license:renewed", "entity_id": "42", "data": {}},
    "explain_action": {"action_id": uuid4()},
    "fact_history": {"target": _TARGET, "name": "state"},
    "get_action": {"action_id": uuid4()},
    "get_calendar": {},
    "get_deadline": {"deadline": "renewal"},
    "get_fact": {"target": _TARGET, "name": "state"},
    "get_schedule": {"schedule": "report"},
    "list_actions": {},
    "list_deadlines": {},
    "list_executors": {},
    "list_facts": {},
    "list_limits": {},
    "list_pauses": {},
    "list_schedules": {},
    "move_deadline": {"deadline": "renewal", "due_at": _DUE},
    "move_deadlines": {"moves": {"renewal": _DUE}},
    "notify": {"recipients": ["ann@example.org"], "text": "x"},
    "pause": {"lock_group": "g", "until": timedelta(hours=1)},
    "pause_deadline": {"deadline": "renewal"},
    "pause_schedule": {"schedule": "report"},
    "reassign_deadline": {"deadline": "renewal", "recipients": ["a@example.org"]},
    "report_fact": {"target": _TARGET, "name": "state", "value": "x"},
    "resume": {"lock_group": "g"},
    "resume_deadline": {"deadline": "renewal"},
    "resume_schedule": {"schedule": "report"},
    "retry_action": {"action_id": uuid4()},
    "run_schedule": {"schedule": "x"},
    "schedule_action": {"action_type": "test:run", "payload": {}},
    "schedule_actions": {"new_actions": [{"action_type": "test:run", "payload": {}}]},
    "schedule_local": {"action_type": "test:run", "payload": {}, "local_time": "09:00", "users": [{"user_id": "ann"}]},
    "schedule_recurring_action": {"action_type": "test:run", "payload": {}, "recurrence": "daily"},
    "schedule_when": {"action_type": "test:run", "payload": {}, "condition": {"kind": "time_elapsed", "seconds": 5}},
    "set_deadline": {"target": _TARGET, "due_at": _DUE, "recipients": ["ann@example.org"]},
    "set_deadlines": {"deadlines": [{"target": _TARGET, "due_at": _DUE, "recipients": ["ann@example.org"]}]},
    "skip_next_occurrence": {"schedule": "report"},
    "update_action": {"action_id": uuid4()},
    "update_deadline": {"deadline": "renewal"},
    "update_schedule": {"schedule": "report"},
}


def parameters(name: str) -> list[str]:
    """Return the names of a public function's arguments; each is explicit."""
    found = inspect.signature(getattr(scheduled_actions, name)).parameters.values()
    assert all(one.kind is not inspect.Parameter.VAR_KEYWORD for one in found), name
    return [one.name for one in found]


class Unprintable:
    def __str__(self) -> str:
        raise ValueError

    __repr__ = __str__


HOSTILE: list[Any] = [
    None,
    True,
    0,
    -1,
    2**31,
    2**63,
    10**400,
    0.5,
    -0.0,
    math.nan,
    math.inf,
    -math.inf,
    1e308,
    Decimal("NaN"),
    Fraction(1, 3),
    "",
    " ",
    "x",
    "x" * 300_000,
    "\x00",
    "\ud800",
    "\u202e",
    "9" * 5_000,
    "*" * 5_000,
    b"x",
    b"\xff",
    [],
    [None],
    [[]],
    [1] * 20_000,
    {},
    {"": 1},
    {1: 2},
    {"x": math.nan},
    {"x": "\ud800"},
    {"x": b""},
    {"x": {1, 2}},
    (),
    (1, 2),
    {1},
    range(3),
    object(),
    Unprintable(),
    int,
    len,
    timedelta.max,
    timedelta.min,
    timedelta(-1),
    datetime.min.replace(tzinfo=UTC),
    datetime.max.replace(tzinfo=UTC),
    datetime(2026, 1, 1),
    datetime.min,
    date(1, 1, 1),
    UUID(int=0),
    uuid4(),
    datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=23, minutes=59))),
    NOW,
    *stored.TEXTS,
]
#: Number of calls between two rounds; the actions that they schedule are due in the next round.
_EACH_ROUND = 1_000
_SEED = 20261122


@pytest.fixture
def made(database_url):
    with sample_project(database_url) as made:
        seed(made)
        yield made


def test_each_hostile_argument_of_each_function_is_rejected_with_our_error_or_harmless(made):
    cases = [
        (name, argument, value)
        for name, arguments in CALLS.items()
        for argument in parameters(name)
        for value in HOSTILE
    ]
    random.Random(_SEED).shuffle(cases)
    print(f"{len(cases):,} calls")
    broken = []
    for number, (name, argument, value) in enumerate(cases):
        if number % _EACH_ROUND == 0:
            run_round(made.connection, made.requests)
        began = time.process_time()
        try:
            getattr(scheduled_actions, name)(**{**CALLS[name], argument: value})
        except ScheduledActionsError:
            pass
        except BaseException as error:
            broken.append(f"{name}({argument}={shown(value)}): {type(error).__name__}: {str(error)[:150]}")
        if time.process_time() - began > CPU_SECONDS_MOST:
            broken.append(f"{name}({argument}={shown(value)}): {time.process_time() - began:.1f} s of CPU")
    # The accepted values are due now, or shown on pages, and must do no harm.
    run_round(made.connection, made.requests)
    Reader(made).open_all()
    assert not broken, "\n".join(broken)


def shown(value: Any) -> str:
    try:
        return repr(value)[:60]
    except ValueError:
        return type(value).__name__


def test_every_public_function_is_called():
    functions = {
        name
        for name in scheduled_actions.__all__
        if name[0].islower() and inspect.isfunction(getattr(scheduled_actions, name))
    }
    decorators = {"action", "condition", "next_occurrence", "skip_occurrence", "resolve_recipients"}
    assert functions - decorators == set(CALLS)
