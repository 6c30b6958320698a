"""What the latest pings mean: whether they come, come twice, are waited for, end, and show the right secret."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from scheduled_actions.operations.doctor.rules import Check, Level
from scheduled_actions.operations.doctor.rules.database import TICKS_MISSED, in_words
from scheduled_actions.ticks.rules.plan import within

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: How far back the verdicts look.
WINDOW = timedelta(hours=1)
#: Pings that come so soon after another did not mean to.
CLOSE = timedelta(seconds=10)
#: Fewer are chance.
_ENOUGH = 3
#: A caller that pinged thrice within this time does so by a clock.
_REGULAR = timedelta(minutes=15)
#: Callers that are no cron: people at a keyboard, listeners, and pings right after an action.
_NO_CRON = ("cli:", "listen", "scheduled-actions-wake")
#: That a caller has gone is seen as much later.
_LOOK = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ping:
    """A call of the cron endpoint that became a tick."""

    ago: timedelta
    #: None while it is at work, and for one that ended without a word.
    duration: timedelta | None = None
    caller: str = ""
    #: It ended without a word: its process died.
    is_lost: bool = False
    is_at_work: bool = False
    #: After how long its caller hung up; None for one that heard the answer, or that nobody could see.
    hung_up_after: timedelta | None = None
    #: Who else pinged while it was at work.
    joined: tuple[str, ...] = ()
    #: How the heartbeat before it went; None where its process sends none.
    heartbeat: str | None = None

    @property
    def is_by_cron(self) -> bool:
        """Whether a cron sent it, as far as its name tells."""
        return _is_cron(self.caller)


@dataclass(frozen=True, slots=True, kw_only=True)
class TicksFound:
    """Whether pings come at all."""

    #: The latest; None where there was never one.
    last: Ping | None
    #: How many actions are due.
    due: int

    @property
    def is_missing(self) -> bool:
        """Whether no cron seems to ping: a tick that lingers may have begun long before."""
        if self.last is None:
            return True
        ended = self.last.ago - (self.last.duration or timedelta(0))
        return not self.last.is_at_work and ended > TICKS_MISSED

    def judged(self) -> Check:
        """Return a warning where no cron seems to ping."""
        waiting = f"; {self.due:,} due action{' waits' if self.due == 1 else 's wait'}" if self.due else ""
        every = "let a cron ping /cron/process every minute (`scheduled-actions cron-setup`)"
        if self.last is None:
            return Check("ticks", Level.WARNING, f"there was none yet{waiting}", every)
        by = f", by {self.last.caller}" if self.last.caller else ""
        ago = in_words(self.last.ago)
        if self.is_missing:
            remedy = f"see whether that cron still runs, and what it is answered; or {every}"
            last = f": the last one came{by.removeprefix(',')}" if by else ""
            return Check("ticks", Level.WARNING, f"no ping for {ago}{last}{waiting}", remedy)
        return Check("ticks", Level.OK, f"the last one was {ago} ago{by}")


@dataclass(frozen=True, slots=True)
class DoublesFound:
    """Whether two crons ping."""

    #: Of the last hour, the latest first.
    pings: Sequence[Ping]

    def judged(self) -> Check:
        """Return a warning where pings come in pairs, beside one another, or from two callers by the clock."""
        pings = [ping for ping in self.pings if ping.is_by_cron]
        close = _close_pairs(pings)
        joined = [caller for ping in pings for caller in ping.joined if _is_cron(caller)]
        regular = _regular_callers(pings)
        if len(close) >= _ENOUGH:
            callers = _named(ping.caller for pair in close for ping in pair)
            share = f"{len(close)} of {len(pings)} began within {in_words(CLOSE)} of another"
            detail = f"pings come twice: {share} ({callers})"
        elif len(joined) >= _ENOUGH:
            callers = _named([*joined, *(ping.caller for ping in pings if ping.joined)])
            detail = f"pings come twice: {len(joined)} came while another one's tick was at work ({callers})"
        elif len(regular) > 1:
            detail = f"two crons ping: {_named(regular)}"
        else:
            return Check("doubled_pings", Level.OK, "no ping comes twice")
        remedy = (
            "keep one of these crons and remove the others; nothing runs twice, but each ping looks for work anew "
            "(pings by hand, with curl say, are counted for an hour, too)"
        )
        return Check("doubled_pings", Level.WARNING, detail, remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class HangUpsFound:
    """Whether callers wait for the answer."""

    pings: Sequence[Ping]
    max_run_seconds: float
    linger_seconds: float

    def judged(self) -> Check:
        """Return a warning where a caller hung up twice: its time limit is shorter than a tick may take."""
        by_caller: dict[str, list[timedelta]] = {}
        for ping in self.pings:
            if ping.hung_up_after is not None:
                by_caller.setdefault(ping.caller, []).append(ping.hung_up_after)
        caller, waits = max(by_caller.items(), key=lambda item: len(item[1]), default=("", []))
        if len(waits) < _ENOUGH - 1:
            return Check("hung_up_pings", Level.OK, "callers wait for the answer")
        limit = min(waits)
        of = sum(ping.caller == caller for ping in self.pings)
        detail = (
            f"{caller or 'a caller'} hung up within {_seconds(limit)} in {len(waits)} of its last {of} pings, before "
            "the tick had ended: the work goes on, but that caller counts a failure, and some give up for good"
        )
        return Check("hung_up_pings", Level.WARNING, detail, self._remedy(limit))

    def _remedy(self, seen: timedelta) -> str:
        """Return which settings let a tick answer in time, as far as there are such."""
        raise_it = "let that caller wait longer (60 seconds)"
        waits = (seen - _LOOK).total_seconds()
        found = within(waits)
        if found is None:
            return f"{raise_it}: no tick is sure to answer in {_seconds(seen)}"
        to_lower = [
            f"{name} = {bound} (SCHEDULED_ACTIONS_{name.upper()})"
            for name, value, bound in (
                ("max_run_seconds", self.max_run_seconds, f"{found.run_seconds}"),
                ("linger_seconds", self.linger_seconds, f"0, or {found.run_seconds} at most"),
            )
            if value > found.run_seconds
        ]
        if to_lower:
            last = f"what a tick starts last then has {found.left_seconds} seconds to end"
            return f"{raise_it}, or set {' and '.join(to_lower)}: {last}"
        starts = max(self.max_run_seconds, self.linger_seconds)
        left = int(waits - starts) - 1
        return (
            f"{raise_it}, or shorten the handlers: what a tick starts last, after {starts:g} seconds, has {left} to end"
        )


@dataclass(frozen=True, slots=True)
class LossesFound:
    """Whether ticks end."""

    pings: Sequence[Ping]

    def judged(self) -> Check:
        """Return a warning where processes died in the middle of ticks."""
        lost = [ping for ping in self.pings if ping.is_lost]
        if not lost:
            return Check("lost_ticks", Level.OK, "every tick has ended")
        longest = max((ping.duration for ping in self.pings if ping.duration is not None), default=None)
        told = "" if longest is None else f"; the longest that ended took {_seconds(longest)}"
        detail = (
            f"{len(lost)} of the last {len(self.pings)} ticks ended without a word: their process was killed, by the "
            f"host's time limit or for its memory{told}"
        )
        remedy = (
            "set max_duration_seconds below the host's limit for a request, and max_run_seconds below that; see the "
            "host's log for kills"
        )
        return Check("lost_ticks", Level.WARNING, detail, remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalsFound:
    """Pings that were refused in the last day of them."""

    #: Those that showed a secret or a signature, and those that showed nothing.
    wrong: int = 0
    without: int = 0
    #: None where there was none.
    last_ago: timedelta | None = None
    callers: tuple[str, ...] = ()
    #: Whether no cron seems to ping.
    is_missing: bool = False

    def judged(self) -> Check:
        """Return a warning where a wrong secret is being tried, or where pings without one may be the cron's own."""
        if self.last_ago is None:
            return Check("refused_pings", Level.OK, "none was refused")
        when = f"the last one {in_words(self.last_ago)} ago"
        by = f", by {_named(self.callers)}" if any(self.callers) else ""
        if self.last_ago <= WINDOW and self.wrong:
            detail = f"a wrong secret is being tried: {_pings(self.wrong)} in a day, {when}{by}"
            remedy = "if that is your cron, give it this deployment's CRON_SECRET; if it is not, it opens nothing"
            return Check("refused_pings", Level.WARNING, detail, remedy)
        detail = f"{_pings(self.wrong + self.without)} refused in a day, {when}{by}"
        if self.last_ago <= WINDOW and self.is_missing:
            remedy = "have your cron send CRON_SECRET as x-cron-secret (`scheduled-actions cron-setup` prints how)"
            return Check("refused_pings", Level.WARNING, f"{detail}: without a secret, and no other comes", remedy)
        return Check("refused_pings", Level.OK, detail)


def anonymous(caller: str) -> str:
    """Return what kind of caller it is, without its name."""
    return next((kind for kind in _NO_CRON if caller.startswith(kind)), "")


def _is_cron(caller: str) -> bool:
    return not caller.startswith(_NO_CRON)


def _close_pairs(pings: Sequence[Ping]) -> list[tuple[Ping, Ping]]:
    """Return the pairs that began much closer to one another than pings usually do here."""
    pairs = list(pairwise(pings))
    gaps = sorted(before.ago - after.ago for after, before in pairs)
    if not gaps:
        return []
    usual = gaps[len(gaps) * 3 // 4]
    return [(after, before) for after, before in pairs if before.ago - after.ago <= min(CLOSE, usual / 4)]


def _regular_callers(pings: Sequence[Ping]) -> list[str]:
    counted = Counter(ping.caller for ping in pings if ping.ago <= _REGULAR)
    return [caller for caller, count in counted.items() if count >= _ENOUGH]


def _named(callers: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(caller or "a caller" for caller in callers))


def _seconds(span: timedelta) -> str:
    return f"{span.total_seconds():.1f} seconds"


def _pings(count: int) -> str:
    return f"{count:,} ping{'' if count == 1 else 's'}"
