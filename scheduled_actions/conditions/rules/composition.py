"""Conditions made of conditions: all of them, any of them, not this one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduled_actions.conditions.rules.model import MET, Truth, Verdict
from scheduled_actions.core.errors.families import short_text

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from scheduled_actions.conditions.rules.model import Condition, Known, Needs, Outside


#: Characters of a condition that a reason shows.
_SHOWN_MOST = 200


@dataclass(frozen=True, slots=True)
class _Parts:
    parts: tuple[Condition, ...]

    def add_needs(self, needs: Needs) -> None:
        """Add what each part needs."""
        for part in self.parts:
            part.add_needs(needs)

    def outsides(self) -> tuple[Outside, ...]:
        """Return what the parts have to ask the world."""
        return tuple(outside for part in self.parts for outside in part.outsides())

    def _judged(self, known: Known) -> list[Verdict]:
        known.budget.spend(len(self.parts))
        return [part.judge(known) for part in self.parts]


class All(_Parts):
    """Holds while each part does."""

    __slots__ = ()

    def judge(self, known: Known) -> Verdict:
        """Say so; a part that is not met settles it, whatever is open or broken beside."""
        verdicts = self._judged(known)
        decisive = _first(verdicts, Truth.UNMET, Truth.OPEN, Truth.BROKEN)
        if decisive is None:
            return Verdict(Truth.MET, changes_at=_earliest(verdicts))
        return Verdict(decisive.truth, decisive.reason, _earliest(verdicts))


class Any(_Parts):
    """Holds while one part does."""

    __slots__ = ()

    def judge(self, known: Known) -> Verdict:
        """Say so; a part that is met settles it, whatever is open or broken beside."""
        verdicts = self._judged(known)
        if _first(verdicts, Truth.MET) is not None:
            return MET
        decisive = _first(verdicts, Truth.OPEN, Truth.BROKEN)
        if decisive is not None:
            return Verdict(decisive.truth, decisive.reason, _earliest(verdicts))
        reasons = [verdict.reason for verdict in verdicts]
        reason = reasons[0] if len(reasons) == 1 else f"none of {len(reasons)} holds: {'; '.join(reasons)}"
        return Verdict(Truth.UNMET, reason, _earliest(verdicts))


@dataclass(frozen=True, slots=True)
class Not:
    """Holds while the part does not. What could not be judged does not become true by being denied."""

    where: str
    part: Condition
    #: The part as it was given: a condition that holds says no more of itself.
    given: object

    def judge(self, known: Known) -> Verdict:
        """Say so."""
        verdict = self.part.judge(known)
        match verdict.truth:
            case Truth.MET:
                what = short_text(json.dumps(self.given, ensure_ascii=False), _SHOWN_MOST)
                return Verdict(Truth.UNMET, f"{self.where}: what should not hold does: {what}", verdict.changes_at)
            case Truth.UNMET:
                return Verdict(Truth.MET, changes_at=verdict.changes_at)
            case _:
                return verdict

    def add_needs(self, needs: Needs) -> None:
        """Add what the part needs."""
        self.part.add_needs(needs)

    def outsides(self) -> tuple[Outside, ...]:
        """Return what the part has to ask the world."""
        return self.part.outsides()


def _first(verdicts: Iterable[Verdict], *truths: Truth) -> Verdict | None:
    """Return the first verdict of the first of these truths that any has."""
    found = list(verdicts)
    return next((verdict for truth in truths for verdict in found if verdict.truth is truth), None)


def _earliest(verdicts: Iterable[Verdict]) -> datetime | None:
    return min((verdict.changes_at for verdict in verdicts if verdict.changes_at is not None), default=None)
