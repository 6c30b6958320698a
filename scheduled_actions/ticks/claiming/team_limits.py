"""How many handlers of one team are at work at once in this process, and what waits for its turn meanwhile."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from scheduled_actions.actions.rules import settlement
from scheduled_actions.ticks.attempts.attempt import Ended
from scheduled_actions.ticks.rules.plan import claim_size

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from scheduled_actions.ticks.attempts.attempt import Attempt
    from scheduled_actions.ticks.worker_state import Process


class TeamLimits:
    """The limits of one tick: who may start, and whose actions are left where they are.

    A tick keeps about a second's work of each team at hand. What a claim brings beyond that goes back uncharged, and
    the claims after it leave out the teams that have enough.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self._teams = process.settings.teams
        #: Teams that had more due than they may run: claims bring so few that nothing has to go back again.
        self._large: set[str] = set()

    def has_room(self, ready: Sequence[Attempt], in_flight: Iterable[Attempt]) -> Callable[[int], bool]:
        """Return what tells, position by position of `ready`, whether one more of its team may start, and counts it."""
        at_work = self._process.stuck_by_team.counted()
        at_work.update(one.claimed.team_id for one in in_flight)

        def takes_room(position: int) -> bool:
            team = ready[position].claimed.team_id
            limit = self._limit(team)
            if limit is not None and at_work[team] >= limit:
                return False
            at_work[team] += 1
            return True

        return takes_room

    def waiting(self, ready: Sequence[Attempt]) -> int:
        """Return how many of those ready wait for a thread, and not for their team."""
        crowded = self.left_out(ready)
        return len(ready) if not crowded else sum(1 for one in ready if (one.claimed.team_id or "") not in crowded)

    def left_out(self, ready: Iterable[Attempt]) -> frozenset[str]:
        """Return the teams that claims leave out: they have enough at hand."""
        counted = Counter(one.claimed.team_id for one in ready)
        return frozenset(
            team
            for team, count in counted.items()
            if team is not None and (most := self._at_hand(team)) is not None and 2 * count >= most
        )

    def wanted(self, wanted: int, left_out: Collection[str]) -> int:
        """Return how many to claim at once, so that a team which has more due gets no more than it may run."""
        return min([wanted, *(self._at_hand(team) or wanted for team in self._large if team not in left_out)])

    def surplus(self, ready: Sequence[Attempt]) -> dict[Attempt, Ended]:
        """Return those ready that are beyond what is kept at hand of their teams, the last of each: they go back."""
        counted: Counter[str] = Counter()
        beyond: dict[Attempt, Ended] = {}
        for one in ready:
            team = one.claimed.team_id
            most = self._at_hand(team)
            if team is None or most is None:
                continue
            counted[team] += 1
            if counted[team] > 2 * most:
                self._large.add(team)
                beyond[one] = Ended(settlement.Unstarted())
        return beyond

    def _limit(self, team: str | None) -> int | None:
        return None if team is None else self._teams.concurrency_of.get(team, self._teams.concurrency)

    def _at_hand(self, team: str | None) -> int | None:
        limit = self._limit(team)
        process = self._process
        return limit and claim_size(batch_size=process.settings.batch_size, concurrency=limit, pace=process.pace)
