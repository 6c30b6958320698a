"""Turns between teams: whom a batch leaves waiting, who comes next, and what looking for them may cost.

Actions without a team are a team of their own, written as an empty text.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: Looking for other teams may take a twentieth of the time.
_SHARE = 20
#: A team with more than this part of a batch fills it.
_PART = 10


def crowd_of(teams: Iterable[str | None], *, wanted: int) -> frozenset[str]:
    """Return the teams that fill a batch.

    Args:
        teams: One for each action of the batch.
        wanted: How many it could have held.
    """
    counted = Counter(team or "" for team in teams)
    return frozenset(team for team, count in counted.items() if count * _PART > wanted)


def by_turns(teams: Sequence[str | None]) -> list[int]:
    """Return the positions of actions so that teams take turns; those of one team stay in their order.

    Args:
        teams: One for each action.
    """
    seen: Counter[str | None] = Counter()
    turns = []
    for team in teams:
        turns.append(seen[team])
        seen[team] += 1
    return sorted(range(len(teams)), key=turns.__getitem__)


@dataclass(slots=True)
class Allowance:
    """What looking for other teams has cost a tick, in seconds of a clock that never goes back, and what it may."""

    started: float
    #: After it the tick starts nothing.
    run_until: float
    spent: float = 0.0

    def has_more(self) -> bool:
        """Whether there is time left of the whole tick's."""
        return self.spent * _SHARE < self.run_until - self.started

    def may_begin(self, now: float) -> bool:
        """Whether to look from the front again: the looks until now took a twentieth of the time that has passed."""
        return self.spent * _SHARE <= now - self.started

    def spend(self, seconds: float, *, claimed: int, wanted: int) -> None:
        """Count a look; what it claimed had to be claimed anyhow, and costs nothing."""
        self.spent += seconds * max(0.0, 1 - claimed / wanted)
