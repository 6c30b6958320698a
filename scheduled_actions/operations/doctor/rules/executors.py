"""Checks of executors: missing workers, differences between the settings and the database, types without a handler."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from scheduled_actions.core.messages import counted, listed
from scheduled_actions.executors.model import ExecutorState, is_of_types
from scheduled_actions.operations.doctor.rules import WARNING, Check, first_problem
from scheduled_actions.operations.doctor.rules.project import COUNTED

#: Maximum number of names listed in one check.
_NAMES_MOST = 5
#: How long a ticket may be untaken before its executor is reported.
_PATIENCE = timedelta(minutes=2)


def executors(
    found: Sequence[ExecutorState],
    declared: Mapping[str, Collection[str]],
    known: Collection[str] | None,
    *,
    now: datetime,
) -> list[Check]:
    """Return warnings for executors without workers, without a row or a section of the settings, and without handlers.

    Args:
        found: The executors in the database.
        declared: The types of the executors of the settings, by name.
        known: The action types of this build; None if the registry cannot be read.
        now: The time of the database's clock.
    """
    return [_workers(found, now), _stored(found, declared), *([] if known is None else [_types(declared, known)])]


def _workers(found: Sequence[ExecutorState], now: datetime) -> Check:
    unattended = [one for one in found if one.types and not one.is_attended]
    idle = [one for one in unattended if one.due and one.carrier == "postgres"]
    untaken = [one for one in unattended if one.oldest_untaken_at and now - one.oldest_untaken_at > _PATIENCE]
    untaken = [one for one in untaken if one.carrier != "postgres"]
    workers = sum(one.workers for one in found)
    return first_problem(
        "executors",
        (
            idle,
            WARNING,
            listed([_idle(one) for one in idle], most=_NAMES_MOST),
            (
                f"start a worker: `scheduled-actions executors work {idle[0].name if idle else ''}`, or ping "
                "/cron/process?executor=NAME; then check why the previous ones have ended"
            ),
        ),
        (
            untaken,
            WARNING,
            listed([_untaken(one) for one in untaken], most=_NAMES_MOST),
            (
                "check that its workers run (`celery -A APP worker -Q QUEUE`, or for SQS `scheduled-actions executors "
                "work NAME`), with the same broker and the same database as the ticks"
            ),
        ),
        ok=f"{counted(workers, 'worker')} of {counted(len(found), 'executor')} seen in the last two minutes",
    )


def _idle(one: ExecutorState) -> str:
    number = f"{one.due:,}{'+' if one.due >= COUNTED else ''} due {'action' if one.due == 1 else 'actions'}"
    return f"executor {one.name}: no worker has taken an action {_since(one)} ({number})"


def _untaken(one: ExecutorState) -> str:
    number = counted(one.untaken, "untaken ticket") if one.untaken < COUNTED else f"{one.untaken:,}+ untaken tickets"
    return f"executor {one.name}: no worker has taken a ticket {_since(one)} ({number})"


def _since(one: ExecutorState) -> str:
    taken = one.last_taken_at
    return "within the last day" if taken is None else f"since {taken:%Y-%m-%d %H:%M:%S}Z"


def _stored(found: Sequence[ExecutorState], declared: Mapping[str, Collection[str]]) -> Check:
    stored = {one.name: set(one.types) for one in found if one.types}
    undeclared = sorted(stored.keys() - declared.keys())
    missing = sorted(declared.keys() - stored.keys())
    different = sorted(name for name in stored.keys() & declared.keys() if stored[name] != set(declared[name]))
    return first_problem(
        "executor_settings",
        (
            missing,
            WARNING,
            (
                "executors of the settings that are not in the database, so that ticks run their types: "
                f"{listed(missing, most=_NAMES_MOST)}"
            ),
            "run `scheduled-actions migrate`",
        ),
        (
            different,
            WARNING,
            (
                "executors whose types differ between the settings and the database: "
                f"{listed(different, most=_NAMES_MOST)}"
            ),
            "run `scheduled-actions migrate` with the settings that apply, and deploy them everywhere",
        ),
        (
            undeclared,
            WARNING,
            (
                f"executors in the database that the settings do not have: {listed(undeclared, most=_NAMES_MOST)}; no "
                "tick runs their types"
            ),
            "add their sections to scheduled_actions.toml, or run `scheduled-actions migrate` to remove them",
        ),
        ok="the settings and the database have the same executors",
    )


def _types(declared: Mapping[str, Collection[str]], known: Collection[str]) -> Check:
    unhandled = [
        f"{pattern} ({name})"
        for name, types in sorted(declared.items())
        for pattern in types
        if not any(is_of_types(action_type, [pattern]) for action_type in known)
    ]
    return first_problem(
        "executor_types",
        (
            unhandled,
            WARNING,
            f"types of executors without a handler in this build: {listed(unhandled, most=_NAMES_MOST)}",
            "correct the types in scheduled_actions.toml, or write the handlers",
        ),
        ok="every type of an executor has a handler",
    )
