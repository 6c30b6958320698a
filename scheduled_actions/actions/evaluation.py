"""Actions that have something to wait for: judged when they would be dispatched, many with a few statements."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Protocol, TypeVar

from scheduled_actions.actions import store, waits
from scheduled_actions.actions.rules import settlement
from scheduled_actions.actions.rules.settlement import Held
from scheduled_actions.conditions.rules.evaluation import Progress, Ruled, Ruling, rule
from scheduled_actions.conditions.rules.model import BUDGETED, PREFIX_MARK, Known, Needs
from scheduled_actions.conditions.rules.plan import plan_of
from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.core.evaluation_budget import EvaluationBudget

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from uuid import UUID

    from scheduled_actions.conditions.rules.model import Checked, Condition, Fact, FactKey, Outside
    from scheduled_actions.conditions.rules.plan import Plan
    from scheduled_actions.core.action import Claimed
    from scheduled_actions.database.connection import Connection

Result = TypeVar("Result")

#: Facts that are read at once: 4 MiB of the largest.
_FACTS_MOST = 256


class Do(Protocol):
    """Does a step on a connection in autocommit mode; again, where the connection was lost."""

    def __call__(self, step: Callable[[Connection], Result], /) -> Result:
        """Return what the step returns."""


@dataclass(frozen=True, slots=True)
class Asking:
    """An action whose condition only the world can answer, with what is known already."""

    plan: Plan
    known: Known
    progress: Progress


def judge(claimed: Sequence[Claimed], do: Do) -> dict[UUID, Held | Asking]:
    """Return what is to become of the claimed actions that are not dispatched as they are, by id.

    Args:
        claimed: Those that have something to wait for.
        do: In no transaction: what is registered has to be seen by all before the look.
    """
    found: dict[UUID, Held | Asking] = {}
    plans: dict[UUID, Plan] = {}
    for one in claimed:
        try:
            plans[one.id] = plan_of(one.condition_text or "")
        except InvalidArgument as error:
            found[one.id] = Held(settlement.Failed(f"its condition cannot be read: {error}", is_final=True))
    judged = [one for one in claimed if one.id in plans]
    if not judged:
        return found
    waiters = {one.id: waits.Waiter(one.id, one.team_id or "", _needs(plans[one.id])) for one in judged}
    waiting = [waiters[one.id] for one in judged if _is_waiting(plans[one.id])]
    if waiting:
        do(lambda connection: waits.register(connection, waiting))
    ended: list[UUID] = []
    for some in _bites(judged, waiters):
        seen = do(partial(waits.look, waiters=[waiters[one.id] for one in some]))
        for one in some:
            plan = plans[one.id]
            held = _judged(plan, _known(waiters[one.id], one, seen), seen.progress.get(one.id, Progress()))
            if held is not None:
                found[one.id] = held
            if _is_waiting(plan) and not isinstance(held, Asking) and not (held and held.is_waiting):
                ended.append(one.id)
    if ended:
        do(lambda connection: waits.end(connection, ended))
    return found


def cycles_among_waiting(connection: Connection, *, action_id: UUID | None = None, most: int) -> list[list[UUID]]:
    """Return cycles of actions that wait for one another for ever, as `cycle_of` does; no two begin with one action.

    Args:
        connection: Where.
        action_id: Only those that this one waits for, or is part of; None: all.
        most: How many, at most.
    """
    awaited = waits.among_waiting(connection, action_id=action_id)
    cycles: list[list[UUID]] = []
    while len(cycles) < most and (cycle := cycle_of(awaited)) is not None:
        cycles.append(cycle)
        del awaited[cycle[0]]
    return cycles


def cycle_of(awaited: Mapping[UUID, Collection[UUID]]) -> list[UUID] | None:
    """Return actions each of which waits for the next, the first for the last one; None where there are none.

    Args:
        awaited: For each waiting action, those that it comes after.
    """
    try:
        TopologicalSorter(awaited).prepare()
    except CycleError as error:
        # Each node comes before what it is a predecessor of; the first one is repeated at the end.
        return list(reversed(error.args[1][1:]))
    return None


def _bites(claimed: Iterable[Claimed], waiters: Mapping[UUID, waits.Waiter]) -> Iterator[list[Claimed]]:
    """Yield the actions in slices whose facts fit into memory together."""
    bite: list[Claimed] = []
    room = _FACTS_MOST
    for one in claimed:
        wanted = len(waiters[one.id].needs.facts)
        if bite and wanted > room:
            yield bite
            bite, room = [], _FACTS_MOST
        bite.append(one)
        room -= wanted
    if bite:
        yield bite


def _judged(plan: Plan, known: Known, progress: Progress) -> Held | Asking | None:
    ruled = rule(plan, known, progress)
    return Asking(plan, known, progress) if ruled.ruling is Ruling.ASK else held_of(plan, ruled)


def ask(asking: Asking, claimed: Claimed, question: Callable[[Outside, Claimed], Checked], do: Do) -> Held | None:
    """Ask the world; return what is written of the action, None where its handler is to start.

    Args:
        asking: What only the world can answer.
        claimed: The action.
        question: Asks one thing.
        do: As `judge` takes it.
    """
    answers: dict[Outside, Checked] = {}
    # On a thread of its own: it holds up no other action, and judges again after each answer.
    known = replace(asking.known, budget=EvaluationBudget(BUDGETED))
    while True:
        # One at a time: what is answered may settle it, or leave only a part of the rest to be asked.
        ruled = rule(asking.plan, replace(known, answers=answers), asking.progress)
        if ruled.ruling is not Ruling.ASK:
            break
        wanted = asking.plan.condition.outsides() if asking.plan.condition is not None else ()
        left = next((one for one in wanted if one not in answers), None)
        if left is None:
            break
        answers[left] = question(left, claimed)
    if ruled.ruling is not Ruling.WAIT and _is_waiting(asking.plan):
        do(lambda connection: waits.end(connection, [claimed.id]))
    return held_of(asking.plan, ruled)


def held_of(plan: Plan, ruled: Ruled) -> Held | None:
    """Return what is written of an action after the ruling; None where its handler is to start."""
    match ruled.ruling:
        case Ruling.RUN | Ruling.ASK:
            return None
        case Ruling.WAIT:
            return Held(settlement.Waited(ruled.reason, plan.check_seconds, ruled.changes_at))
        case Ruling.SKIP:
            return Held(settlement.Unmet(ruled.reason))
        case Ruling.EXPIRE:
            return Held(settlement.Unmet(ruled.reason), tuple(store.as_element(one) for one in plan.on_timeout))
        case Ruling.FAIL:
            return Held(settlement.Failed(ruled.reason, is_final=ruled.is_final))


def _is_waiting(plan: Plan) -> bool:
    return plan.after is not None or plan.waits


def _needs(plan: Plan) -> Needs:
    needs = Needs()
    for part in _parts(plan):
        part.add_needs(needs)
    return needs


def _parts(plan: Plan) -> Iterator[Condition]:
    if plan.after is not None:
        yield plan.after
    if plan.condition is not None:
        yield plan.condition


def _known(waiter: waits.Waiter, claimed: Claimed, seen: waits.Seen) -> Known:
    team, needs = waiter.team_id, waiter.needs
    facts: dict[FactKey, Fact] = {}
    # What is wanted by its whole name comes last: it is known as it is.
    for key in sorted(needs.facts, key=_is_whole_name):
        facts.update(seen.facts.get((team, key), ()))
    # Most need nothing but facts.
    pairs = [(one, seen.actions.get((team, one))) for one in needs.actions] if needs.actions else ()
    dated = [(one, seen.deadlines.get((team, one))) for one in needs.deadlines] if needs.deadlines else ()
    return Known(
        now=seen.now,
        created_at=datetime.fromtimestamp(claimed.created_epoch, UTC),
        facts=facts,
        cut=frozenset(key for key in needs.facts if (team, key) in seen.cut),
        actions={action_id: state for action_id, state in pairs if state is not None},
        deadlines={deadline_id: state for deadline_id, state in dated if state is not None},
    )


def _is_whole_name(key: FactKey) -> bool:
    return not key.name.endswith(PREFIX_MARK)
