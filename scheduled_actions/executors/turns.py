"""Decide which of the due actions of an executor are claimed next, so that teams take turns."""

import heapq
from collections import defaultdict, deque
from collections.abc import Iterable

from scheduled_actions.limits.rules.admission import QueuedAction


class Turns:
    """Chooses actions of the teams in turn, across the claims of one worker.

    A claim may take one action only: without a memory, it would always be one of the same team.
    """

    def __init__(self) -> None:
        #: How many turns each team of the last choice has had, compared with the team that had fewest.
        self._had: dict[str, int] = {}

    def choose(self, candidates: Iterable[QueuedAction], *, wanted: int) -> list[QueuedAction]:
        """Return at most `wanted` candidates: next is always the team with the fewest turns, then the first in order.

        A team without candidates at the last choice has had as many turns as the team with the fewest.

        Args:
            candidates: In any order; each team's are chosen by priority, then time, then age.
            wanted: Maximum number of candidates.
        """
        by_team: defaultdict[str, deque[QueuedAction]] = defaultdict(deque)
        for one in sorted(candidates, key=lambda action: action.place):
            by_team[one.team_id].append(one)
        fewest = min((self._had[team] for team in by_team if team in self._had), default=0)
        self._had = {team: self._had.get(team, fewest) - fewest for team in by_team}
        heads = [(self._had[team], waiting[0].place, team) for team, waiting in by_team.items()]
        heapq.heapify(heads)
        chosen: list[QueuedAction] = []
        while heads and len(chosen) < wanted:
            *_, team = heapq.heappop(heads)
            chosen.append(by_team[team].popleft())
            self._had[team] += 1
            if by_team[team]:
                heapq.heappush(heads, (self._had[team], by_team[team][0].place, team))
        return chosen

    def give_back(self, teams: Iterable[str]) -> None:
        """Take one turn away from a team for each of its chosen actions that could not run."""
        for team in teams:
            if team in self._had:
                self._had[team] -= 1
