"""Settle due actions that have to wait for their condition, without a claim: the row is written once, not twice."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from scheduled_actions.core.log import log
from scheduled_actions.database.boundary import contain, reason_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from scheduled_actions.actions.claims import ScanPosition
    from scheduled_actions.ticks.attempts.attempt import RunningTick
    from scheduled_actions.ticks.settling import ResultWriter

#: Number of due actions read at once, and time after which a look reads no more, so that results are settled in time.
_WINDOW = 1000
_LOOK_SECONDS = 0.5


class LookAhead:
    """Looks at the conditions of the due actions that the next claims would find.

    An action whose condition is met, or needs an external check, is left to the claims, which evaluate it again. After
    an error, the claims evaluate all conditions.
    """

    def __init__(self, tick: RunningTick, writer: ResultWriter) -> None:
        self._tick = tick
        self._writer = writer
        self._is_refused = False

    def look(self, after: ScanPosition, excluded: Collection[str]) -> bool:
        """Look at the actions after a position of the claims; return whether some of them are due again."""
        state, has_woken = self._tick.state, False
        until = state.monotonic() + _LOOK_SECONDS
        position: ScanPosition | None = after
        while position is not None and not self._is_refused and state.monotonic() < until:
            step = partial(self._look_at_window, position, excluded)
            position, is_woken = contain(step, self._refuse)
            has_woken |= is_woken
        return has_woken

    def _refuse(self, error: BaseException) -> tuple[None, bool]:
        log.info("waits.deferred error=%s", reason_of(error))
        self._is_refused = True
        return None, False

    def _look_at_window(self, after: ScanPosition, excluded: Collection[str]) -> tuple[ScanPosition | None, bool]:
        """Settle the waiting actions of one window; return the position of the next one, None if no action waits."""
        from scheduled_actions.actions import evaluation, waits  # noqa: PLC0415 - most projects have no conditions

        tick, do = self._tick, self._tick.connection.do
        found, position = do(partial(waits.unchecked, after=after, excluded=excluded, window=_WINDOW))
        unmet = evaluation.unmet(found, do)
        if not unmet:
            return None, False
        settled = do(partial(tick.state.settler.settle_waiting, tick_id=tick.row.id, settlements=unmet))
        self._writer.count_waiting([(one.id, one.action_type) for one in found if one.id in settled.statuses])
        return position, settled.has_woken
