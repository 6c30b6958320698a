"""Features whose cost is measured: how their actions are scheduled, and the steps until they are completed."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import scheduled_actions
from benchmarks import noop
from handlers import webhook
from scheduled_actions import Context, Snooze, action

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: The one webhook endpoint.
ENDPOINT_TOML = '[webhooks.endpoints.receiver]\nenv_var = "URL_OF_RECEIVER"\nsecret_env_var = "SECRET_OF_RECEIVER"\n'
#: Clock advances: to the next cron ping, past a delay, past an occurrence of a daily schedule.
_A_MINUTE, _TWO_HOURS, _A_DAY = timedelta(minutes=1), timedelta(hours=2), timedelta(hours=25)
_STATE = "approved"


@action("cost:retry", max_attempts=3)
def retry(payload: dict[str, object], context: Context) -> None:
    """Fail at the first attempt."""
    del payload
    if context.attempt == 1:
        raise RuntimeError("the first attempt fails")


@action("cost:snooze")
def snooze(payload: dict[str, object], context: Context) -> Snooze | None:
    """Snooze once."""
    del payload
    return Snooze(timedelta(hours=1), state={"snoozed": True}) if context.state is None else None


@action("cost:transactional", transactional=True)
def transactional(payload: dict[str, object], context: Context) -> None:
    """Do nothing in a transaction."""
    del payload, context


@action("reminder:send")
def remind(payload: dict[str, Any]) -> None:
    """Send nothing."""
    del payload


@action("deadline:miss")
def miss(payload: dict[str, Any]) -> None:
    """Send nothing."""
    del payload


#: Every handler that is measured.
HANDLERS: tuple[Callable[..., Any], ...] = (noop.run, retry, snooze, transactional, remind, miss, webhook.send)


@dataclass(frozen=True, slots=True)
class Advance:
    """Move the database's clock."""

    by: timedelta


@dataclass(frozen=True, slots=True)
class Step:
    """Call a function for each unit, measured as a separate step."""

    name: str
    do: Callable[[int], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """A feature and the steps of its actions."""

    name: str
    #: Schedules the unit with a number, and the units with several numbers in one call.
    one: Callable[[int], object]
    many: Callable[[Sequence[int]], object] | None = None
    #: Unit of the values: an action, or a group of actions that belong together.
    unit: str = "action"
    #: Number of completed actions per unit.
    actions: int = 1
    #: Called before a unit is scheduled; not measured.
    prepare: Callable[[int], object] | None = None
    #: Steps until all actions are completed; ticks run after scheduling and after each step.
    course: Sequence[Advance | Step] = ()
    #: False: a newly scheduled unit is not due yet.
    is_due: bool = True
    #: Fraction of the usual number of units; smaller for slow features.
    share: float = 1.0


def _plain(
    name: str,
    options: Callable[[int], Mapping[str, Any]] = lambda _: {},
    *,
    action_type: str = noop.ACTION_TYPE,
    **life: Any,  # noqa: ANN401 - the fields of Feature
) -> Feature:
    """Return a feature that is defined by arguments of `schedule_action` or by its action type."""

    def one(number: int) -> None:
        scheduled_actions.schedule_action(action_type, {"n": number}, **options(number))

    def many(numbers: Sequence[int]) -> None:
        scheduled_actions.schedule_actions(
            [{"action_type": action_type, "payload": {"n": number}, **options(number)} for number in numbers]
        )

    return Feature(name=name, one=one, many=many, **life)


def _target(number: int) -> dict[str, str]:
    return {"type": "order", "id": str(number)}


def _report(number: int) -> None:
    scheduled_actions.report_fact(_target(number), "state", _STATE)


def _condition(number: int) -> dict[str, Any]:
    wanted = {"kind": "document_state", "target": _target(number), "state": _STATE}
    return {"condition": {"wait": wanted, "check_interval": 3600}}


def _after_one(number: int) -> None:
    first = scheduled_actions.schedule_action(noop.ACTION_TYPE, {"n": number}, scheduled_at=timedelta(hours=1))
    scheduled_actions.schedule_action(noop.ACTION_TYPE, {"n": number}, after=first.id)


def _after_many(numbers: Sequence[int]) -> None:
    new = [{"action_type": noop.ACTION_TYPE, "payload": {"n": number}} for number in numbers]
    first = scheduled_actions.schedule_actions([one | {"scheduled_at": timedelta(hours=1)} for one in new])
    scheduled_actions.schedule_actions([one | {"after": earlier.id} for one, earlier in zip(new, first, strict=True)])


def _emit(number: int) -> None:
    scheduled_actions.emit_event("task:created", entity_id=str(number), data={"name": "Write the invoices"})


def _emit_many(numbers: Sequence[int]) -> None:
    scheduled_actions.schedule_actions(
        [
            {
                "action_type": "webhook:send",
                "payload": {
                    "event": "task:created",
                    "entity_type": "task",
                    "entity_id": str(number),
                    "data": {"name": "Write the invoices"},
                },
            }
            for number in numbers
        ]
    )


def _schedule(recurrence_type: str) -> Callable[[int], None]:
    def one(number: int) -> None:
        scheduled_actions.schedule_recurring_action(
            noop.ACTION_TYPE,
            {"n": number},
            "daily",
            timezone="Europe/Berlin",
            name=f"schedule-{number}",
            recurrence_type=recurrence_type,  # type: ignore[arg-type]  # fixed or rolling
        )

    return one


def _deadline(number: int) -> dict[str, Any]:
    return {
        "target": {"type": "license", "id": str(number)},
        "due_at": timedelta(days=90),
        "timezone": "Europe/Berlin",
        "recipients": "ann@example.org",
        "reminders": ["30 days before", "7 days before"],
    }


FEATURES = (
    _plain("plain action"),
    _plain("lock group", lambda number: {"lock_group": f"group-{number}"}),
    _plain("dedup key", lambda number: {"dedup_key": f"key-{number}"}),
    _plain("priority, metadata", lambda _: {"priority": 5, "metadata": {"source": "benchmark"}}),
    _plain("retried once", action_type="cost:retry", course=[Advance(_TWO_HOURS)]),
    _plain("snoozed once", action_type="cost:snooze", course=[Advance(_TWO_HOURS)]),
    Feature(
        name="fixed schedule",
        unit="occurrence",
        one=_schedule("fixed"),
        course=[Advance(_A_DAY)],
        is_due=False,
        share=0.3,
    ),
    Feature(
        name="rolling schedule",
        unit="occurrence",
        one=_schedule("rolling"),
        course=[Advance(_A_DAY)],
        is_due=False,
        share=0.3,
    ),
    _plain("condition that holds", _condition, prepare=_report),
    _plain("condition, waits once", _condition, course=[Step("report fact", _report)]),
    Feature(
        name="after",
        unit="pair",
        actions=2,
        one=_after_one,
        many=_after_many,
        # The second action of a pair wakes in the tick after the one that completed the first.
        course=[Advance(_TWO_HOURS), Advance(_A_MINUTE)],
    ),
    _plain(
        "on_success",
        lambda number: {"on_success": {"action_type": noop.ACTION_TYPE, "payload": {"n": number}}},
        unit="pair",
        actions=2,
    ),
    Feature(name="event, one endpoint", unit="event", actions=2, one=_emit, many=_emit_many, share=0.4),
    _plain("transactional", action_type="cost:transactional", share=0.3),
    Feature(
        name="deadline, two reminders",
        unit="deadline",
        actions=3,
        one=lambda number: scheduled_actions.set_deadline(**_deadline(number)),
        many=lambda numbers: scheduled_actions.set_deadlines(list(map(_deadline, numbers))),
        course=[Advance(timedelta(days=days)) for days in (61, 23, 7)],
        is_due=False,
        share=0.1,
    ),
)


def environment(receiver_url: str) -> dict[str, str]:
    """Return the environment variables of the endpoint."""
    return {
        "URL_OF_RECEIVER": f"{receiver_url}/at-once",
        "SECRET_OF_RECEIVER": "whsec_" + base64.b64encode(bytes(range(32))).decode(),
    }
