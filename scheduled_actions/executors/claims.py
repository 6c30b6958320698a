"""Claim due actions for a worker: from the queue of its executor, and from the queues of limit keys."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple
from uuid import UUID, uuid4

from scheduled_actions.actions.claims import (
    START as FIRST_DUE,
    BatchClaimer,
    ClaimHook,
    ClaimResult,
    ScanPosition,
    TickRow,
    claim_with,
)
from scheduled_actions.core.action import Claimed
from scheduled_actions.core.config import Settings
from scheduled_actions.database.connection import Connection
from scheduled_actions.database.statements import Statements, uuids
from scheduled_actions.executors.turns import Turns
from scheduled_actions.limits import claims as limit_claims, parking
from scheduled_actions.limits.rules.admission import QueuedAction
from scheduled_actions.ticks.rules.plan import FRESH_SECONDS

sql = Statements(__file__)

#: The position before the first action of a queue.
START = ScanPosition(-32768, "-infinity", UUID(int=0))
#: Maximum number of actions that one search reads, and maximum number of searches of one claim.
WINDOW, MAX_SEARCHES = 1_000, 4
#: The same for a search for teams that would otherwise wait behind a team that fills the first window.
WIDE_WINDOW = 10_000
#: Maximum number of actions that one claim parks.
_MAX_PARKED = 1_000
#: Part of the time that a worker spends on searches for other teams: one twentieth.
_SEARCH_SHARE = 20
#: Seconds between two searches that have found no action with a team.
_RARE_SECONDS = 5.0
#: Number of candidates beyond those wanted: from these, teams are chosen, and actions that other workers have claimed
#: meanwhile are replaced.
_MORE_CANDIDATES = 100
#: Maximum number of attempts of one claim while other workers claim all of its candidates.
_MAX_TRIES = 3


class _Search(NamedTuple):
    """What a search in the queue of the executor has found."""

    candidates: list[QueuedAction]
    #: The last action read; None if there are no further ones.
    position: ScanPosition | None
    #: The teams that have more than a tenth of a full window; '' for none.
    dominant: frozenset[str]
    #: Whether the queue returns to the claims, because the executor has lost types.
    is_returning: bool
    #: Whether actions are in the queues of limit keys.
    has_queued: bool
    has_pauses: bool
    now: datetime
    lease_expires_at: datetime


class ExecutorQueue:
    """Claims due actions of one executor.

    The types of the executor are those in the database. Actions of all executors that are due and not parked yet are
    parked first, so that a worker does not depend on ticks.

    Args:
        executor: The name of the executor.
        hooks: Run in the claiming transaction, in this order.
        settings: Whether teams take turns.
        monotonic: A monotonic clock, in seconds.
        outstanding: Maximum number of claimed actions that no worker has taken over; None: no limit.
    """

    #: Minimum time between two claims that found nothing: other action types cause notifications, too.
    futile_seconds = 0.1
    #: The claims see all due actions.
    expects_more = False

    def __init__(
        self,
        executor: str,
        hooks: Sequence[ClaimHook],
        settings: Settings,
        monotonic: Callable[[], float] = time.monotonic,
        outstanding: int | None = None,
    ) -> None:
        self._executor = executor
        self._outstanding = outstanding
        self._batches = BatchClaimer(hooks)
        self._turns = Turns() if settings.fair_by_team else None
        self._monotonic = monotonic
        #: Whether the last claim found no room for further untaken actions.
        self._is_full = False
        #: Where parking continues among the due actions, and searches in the queue and in those of limit keys.
        self._due = FIRST_DUE
        self._deep: ScanPosition | None = None
        self._limits = limit_claims.START
        #: Where the search for other teams continues, and when it may begin again.
        self._others: ScanPosition | None = None
        self._others_at = float("-inf")
        #: When actions were claimed from each kind of queue that a hook returned; they must not keep the actions behind
        #: them waiting. A hook may return an action from the queue of the executor to that of a limit key.
        self._returned: dict[UUID, float] = {}
        self._returned_to_limits: dict[UUID, float] = {}

    def claim(self, connection: Connection, *, wanted: int, lease_seconds: float) -> ClaimResult:
        """Claim due actions; the kept ones are in the order in which they should run.

        Args:
            connection: In autocommit mode.
            wanted: Maximum number of actions.
            lease_seconds: Seconds until the leases end unless the actions are taken over.
        """
        result = ClaimResult([])
        if wanted < 1:
            return result
        self._forget_returned(self._monotonic())
        self._is_full = False
        self._park(connection)
        for _ in range(_MAX_TRIES):
            row, candidates = self._find(connection, wanted=wanted, lease_seconds=lease_seconds)
            chosen = self._choose(candidates, wanted)
            if not chosen:
                break
            claimed, result = self._claim_chosen(connection, row, chosen, candidates)
            # Otherwise, other workers have claimed all of them; the next ones may be free.
            if claimed or self._is_full or all(one.keys for one in chosen):
                break
            self._returned |= {one.id: self._monotonic() for one in chosen if not one.keys}
        return result

    def count_untaken(self, connection: Connection, most: int) -> int:
        """Return the number of claimed actions that no worker has taken over, at most `most`."""
        found: int = sql.run_one(connection, "count_untaken", {"executor": self._executor, "most": most})[0]
        return found

    def take_rest(self, connection: Connection) -> list[Claimed]:  # noqa: ARG002 - as the queue of tickets
        """Return nothing: what a worker has not claimed stays in Postgres."""
        return []

    def ended(self, ids: Iterable[UUID]) -> None:
        """Do nothing: the queue keeps no claimed actions."""

    def give_back_turns(self, team_ids: Iterable[str | None]) -> None:
        """Give the teams of claimed actions that are released without a start their turns back, one for each action."""
        if self._turns is not None:
            self._turns.give_back(team_id or "" for team_id in team_ids)

    def _find(
        self, connection: Connection, *, wanted: int, lease_seconds: float
    ) -> tuple[TickRow, dict[UUID, QueuedAction]]:
        """Return candidates by id, and the end of their leases; first return and park what has to leave the queue."""
        now = self._monotonic()
        search = partial(self._search, connection, wanted=wanted, lease_seconds=lease_seconds)
        first = search(START)
        if first.is_returning:
            parking.return_queues(connection)
            self._park(connection)
            first = search(START)
        if first.has_pauses:
            parking.park_in_executor_queues(connection, most=_MAX_PARKED)
        candidates = first.candidates + self._search_deeper(search, first, wanted=wanted, now=now)
        if first.has_queued:
            candidates += self._search_limits(connection, wanted)
        return TickRow(uuid4(), first.now, first.lease_expires_at), {one.id: one for one in candidates}

    def _claim_chosen(
        self,
        connection: Connection,
        row: TickRow,
        chosen: Sequence[QueuedAction],
        candidates: Mapping[UUID, QueuedAction],
    ) -> tuple[list[Claimed], ClaimResult]:
        """Claim the chosen actions, and other candidates in place of those that other workers have locked."""
        if keys := {key for one in chosen for key in one.keys}:
            limit_claims.insert_keys(connection, keys)
        taken = {one.id for one in chosen}
        spare = [one for one in candidates.values() if one.id not in taken and not one.keys and one.lock_group is None]
        spare.sort(key=lambda one: one.place)
        claimed, result, _ = self._batches.claim(
            connection, lambda: (self._claim(connection, row, chosen, spare), FIRST_DUE)
        )
        decided = {one.id for one in (*result.kept, *(one for one, _ in (*result.skipped, *result.refused)))}
        for one in claimed:
            if one.id not in decided:
                returned = self._returned if one.limit_keys is None else self._returned_to_limits
                returned[one.id] = self._monotonic()
        order = {one.id: number for number, one in enumerate((*chosen, *spare))}
        result.kept = sorted(result.kept, key=lambda one: order[one.id])
        return claimed, result

    def _forget_returned(self, now: float) -> None:
        for returned in (self._returned, self._returned_to_limits):
            for action_id in [key for key, at in returned.items() if now - at >= FRESH_SECONDS]:
                del returned[action_id]

    def _park(self, connection: Connection) -> None:
        """Park a bite of the due actions; the next call continues there."""
        position = parking.park(connection, parking.Position(self._due), most=_MAX_PARKED).position
        self._due = FIRST_DUE if position is None or position.due is None else position.due

    def _search(
        self,
        connection: Connection,
        after: ScanPosition,
        *,
        wanted: int,
        lease_seconds: float,
        left_out: Collection[str] = (),
        window: int = WINDOW,
    ) -> _Search:
        ids, team_ids, lock_groups, hold_groups, priorities, epochs, *rest = sql.run_one(
            connection,
            "find_in_queue",
            {
                "executor": self._executor,
                "after_priority": after.priority,
                "after_at": after.scheduled_at,
                "after_id": after.id,
                "window": window,
                "wanted": wanted + _MORE_CANDIDATES,
                "is_fair": self._turns is not None,
                "left_out": list(left_out),
                "passed_over": uuids(self._returned),
                "lease_seconds": lease_seconds,
            },
        )
        columns = zip(
            ids, team_ids or (), lock_groups or (), hold_groups or (), priorities or (), epochs or (), strict=True
        )
        candidates = [
            QueuedAction(
                action_id,
                (),
                None if lock_group is None else (team_id or "", lock_group),
                holds_group,
                priority,
                scheduled_epoch,
                team_id or "",
            )
            for action_id, team_id, lock_group, holds_group, priority, scheduled_epoch in columns
        ]
        priority, scheduled_at, last_id, dominant, *state = rest
        position = None if last_id is None else ScanPosition(priority, scheduled_at, last_id)
        return _Search(candidates, position, frozenset(dominant), *state)

    def _search_deeper(
        self, search: Callable[..., _Search], first: _Search, *, wanted: int, now: float
    ) -> list[QueuedAction]:
        """Return candidates behind the first window: if it has too few, or for teams that it leaves out.

        A search continues where the last one ended, so that every action is read in time, however many of those before
        it have to wait.
        """
        found: list[QueuedAction] = []
        number = 1
        while first.position is not None and len(first.candidates) + len(found) < wanted and number < MAX_SEARCHES:
            later = search(self._deep or first.position)
            found += later.candidates
            self._deep = later.position
            number += 1
            if later.position is None:
                break
        if self._turns is not None and first.dominant and now >= self._others_at:
            others = search(self._others or first.position, left_out=first.dominant, window=WIDE_WINDOW)
            found += others.candidates
            # After a result, it begins at the front again: some of the candidates may be left.
            self._others = None if others.candidates else others.position
            pause = _SEARCH_SHARE * (self._monotonic() - now)
            if not others.candidates and first.dominant == {""}:
                # Probably no action has a team.
                pause = max(pause, _RARE_SECONDS)
            elif not others.candidates and others.position is None:
                pause = max(pause, FRESH_SECONDS)
            self._others_at = now + pause
        return found

    def _search_limits(self, connection: Connection, wanted: int) -> list[QueuedAction]:
        """Return candidates from the queues of limit keys that are open, after the last queue visited."""
        queued = limit_claims.find_queued(
            connection,
            wanted=wanted,
            after=self._limits,
            excluded=(),
            passed_over=self._returned_to_limits,
            executor=self._executor,
        )
        self._limits = queued.position
        return queued.candidates

    def _choose(self, candidates: Mapping[UUID, QueuedAction], wanted: int) -> list[QueuedAction]:
        """Return the actions to claim, in the order in which they should run."""
        if self._turns is not None:
            return self._turns.choose(candidates.values(), wanted=wanted)
        return sorted(candidates.values(), key=lambda one: one.place)[:wanted]

    def _claim(
        self, connection: Connection, row: TickRow, chosen: Sequence[QueuedAction], spare: Sequence[QueuedAction]
    ) -> list[Claimed]:
        """Claim actions, in the claiming transaction: limit keys and lock groups are locked before them."""
        if self._outstanding is not None:
            chosen = chosen[: self._lock_room(connection, self._outstanding)]
            if not chosen:
                self._is_full = True
                return []
        admitted = limit_claims.admit_candidates(connection, chosen)
        admitted, taken = limit_claims.hold_groups(connection, admitted)
        token = uuid4()
        limited = [one for one in admitted if one.keys]
        claimed: list[Claimed] = []
        if limited:
            claimed += limit_claims.claim_admitted(connection, row, limited, token=token, executor=self._executor)
        others = [*(one for one in admitted if not one.keys), *spare]
        wanted = len(chosen) - len(limited)
        if others and wanted:
            claimed += self._claim_in_queue(connection, row, others, wanted=wanted, token=token)
        if taken and not {one.id for one in admitted if one.lock_group is not None} <= {one.id for one in claimed}:
            limit_claims.drop_empty_holds(connection, taken, token)
        return claimed

    def _lock_room(self, connection: Connection, outstanding: int) -> int:
        """Return how many actions may be claimed; other processes claim none for this executor until the commit.

        0 if another process is claiming.
        """
        if not sql.run(connection, "lock_executor", {"executor": self._executor}).rowcount:
            return 0
        # A separate statement: it sees the claims that were committed before the lock was taken.
        return outstanding - self.count_untaken(connection, outstanding)

    def _claim_in_queue(
        self, connection: Connection, row: TickRow, actions: Sequence[QueuedAction], *, wanted: int, token: UUID
    ) -> list[Claimed]:
        parameters = {
            "executor": self._executor,
            "ids": uuids(one.id for one in actions),
            "holding": uuids(one.id for one in actions if one.holds_group),
            "wanted": wanted,
            "token": token,
        }
        return claim_with(connection, sql.text("claim_in_queue"), row, parameters)
