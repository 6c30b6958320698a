"""Checks of the latest pings and heartbeats: missing, doubled, aborted and refused pings, and lost ticks."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise

from scheduled_actions.core.messages import counted
from scheduled_actions.operations.doctor.rules import FAULT, WARNING, Check, Level, first_problem, in_words
from scheduled_actions.ticks.rules.plan import caller_budget

#: Older pings are ignored.
WINDOW = timedelta(hours=1)
#: After this time without a ping, a cron that pings every minute has failed several times.
TICKS_MISSED = timedelta(minutes=5)
#: Two pings within this time are suspected duplicates.
CLOSE = timedelta(seconds=10)
#: Minimum number of observations for a warning: fewer may be chance.
_ENOUGH = 3
#: A caller that pinged `_ENOUGH` times within this time counts as a regular one.
_REGULAR = timedelta(minutes=15)
#: Prefixes of callers other than crons: the command line, listeners, and the pings that follow a scheduled action.
_NO_CRON = ("cli:", "listen", "scheduled-actions-wake")
#: Maximum time until the disconnection of a caller is noticed.
_DISCONNECT_DELAY = timedelta(seconds=1)
#: The previous heartbeat in the row of a tick: none was sent yet, or it was answered; any other value is its error.
UNSENT, ANSWERED = "unsent", "answered"
_HEARTBEAT_URL = "SCHEDULED_ACTIONS_HEARTBEAT_URL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ping:
    """A call to the cron endpoint that became a tick."""

    ago: timedelta
    #: Duration of the tick; None while the tick is running, and if its process died.
    duration: timedelta | None = None
    caller: str = ""
    #: Whether the process of its tick died.
    is_lost: bool = False
    #: Whether its tick is running.
    is_at_work: bool = False
    #: Time from the start of the tick until the caller disconnected; None if the caller did not, or if unknown.
    hung_up_after: timedelta | None = None
    #: Callers that pinged while the tick was running.
    joined: tuple[str, ...] = ()
    #: The result of the previous heartbeat of the process; None if the process sends none.
    heartbeat: str | None = None

    @property
    def is_by_cron(self) -> bool:
        """Whether its caller looks like a cron."""
        return not self.caller.startswith(_NO_CRON)


def recent(pings: Iterable[Ping]) -> list[Ping]:
    """Return the pings of the last hour."""
    return [ping for ping in pings if ping.ago <= WINDOW]


def is_missing(last: Ping | None) -> bool:
    """Return whether no cron seems to ping: no tick is running, and no tick has ended within `TICKS_MISSED`.

    A tick whose process died counts as ended when it started.
    """
    if last is None:
        return True
    return not last.is_at_work and last.ago - (last.duration or timedelta(0)) > TICKS_MISSED


def ticks(last: Ping | None, *, due: int, names_caller: bool = True) -> Check:
    """Return a warning if no cron seems to ping.

    Args:
        last: The latest ping; None: there was none.
        due: Number of due actions.
        names_caller: Whether the text may contain the name of the latest caller.
    """
    waiting = f"; {due:,} due {'action is' if due == 1 else 'actions are'} waiting" if due else ""
    remedy = "have a cron ping /cron/process every minute: `scheduled-actions cron-setup` prints instructions"
    if last is None:
        return Check(
            "ticks",
            WARNING,
            f"nothing has called /cron/process yet{waiting}",
            f"on your own machine, run `scheduled-actions dev`; for a deployment, {remedy}",
        )
    ago, caller = in_words(last.ago), last.caller if names_caller else ""
    return first_problem(
        "ticks",
        (
            is_missing(last),
            WARNING,
            f"nothing has called /cron/process for {ago}{f' (last caller: {caller})' if caller else ''}{waiting}",
            f"check that the cron job runs, and which HTTP status it receives; or {remedy}",
        ),
        ok=f"last ping {ago} ago{f', by {caller}' if caller else ''}",
    )


def doubled_pings(recent: Sequence[Ping]) -> Check:
    """Return a warning if three or more pings came soon after another one or during a tick, or if several crons ping.

    Args:
        recent: The pings of the last hour, the latest first.
    """
    pings = [ping for ping in recent if ping.is_by_cron]
    close = _close_pairs(pings)
    joined = [caller for ping in pings for caller in ping.joined if not caller.startswith(_NO_CRON)]
    counts = Counter(ping.caller for ping in pings if ping.ago <= _REGULAR)
    regular = [caller for caller, count in counts.items() if count >= _ENOUGH]
    remedy = (
        "keep one of these crons and remove the others; no action runs twice, but each ping searches for work "
        "(manual pings, for example with curl, count for an hour)"
    )
    return first_problem(
        "doubled_pings",
        (
            len(close) >= _ENOUGH,
            WARNING,
            (
                f"pings come twice: {len(close)} of {len(pings)} started within {in_words(CLOSE)} of another "
                f"({_named(ping.caller for pair in close for ping in pair)})"
            ),
            remedy,
        ),
        (
            len(joined) >= _ENOUGH,
            WARNING,
            (
                f"pings come twice: {len(joined)} arrived during another tick "
                f"({_named([*joined, *(ping.caller for ping in pings if ping.joined)])})"
            ),
            remedy,
        ),
        (len(regular) > 1, WARNING, f"several crons ping: {_named(regular)}", remedy),
        ok="no ping comes twice",
    )


def _close_pairs(pings: Sequence[Ping]) -> list[tuple[Ping, Ping]]:
    """Return the consecutive pings that started within `CLOSE`, and much closer to each other than usual."""
    pairs = list(pairwise(pings))
    gaps = sorted(before.ago - after.ago for after, before in pairs)
    if not gaps:
        return []
    limit = min(CLOSE, gaps[len(gaps) * 3 // 4] / 4)
    return [(after, before) for after, before in pairs if before.ago - after.ago <= limit]


def hung_up_pings(pings: Sequence[Ping], *, max_run_seconds: float, linger_seconds: float) -> Check:
    """Return a warning if the caller that disconnected most often did so at least twice, before its ticks had ended."""
    callers = Counter(ping.caller for ping in pings if ping.hung_up_after is not None)
    caller = max(callers, key=callers.__getitem__, default="")
    waits = [ping.hung_up_after for ping in pings if ping.caller == caller and ping.hung_up_after is not None]
    if len(waits) < _ENOUGH - 1:
        return Check("hung_up_pings", Level.OK, "callers wait for the answer")
    limit = min(waits)
    return Check(
        "hung_up_pings",
        WARNING,
        f"{caller or 'a caller'} disconnected within {_seconds(limit)} in {len(waits)} of its last "
        f"{sum(ping.caller == caller for ping in pings)} pings, "
        "before the tick had ended: the work continues, but that caller counts the pings as failures, and some crons "
        "stop after many failures",
        _remedy_of_timeouts(limit, max_run_seconds=max_run_seconds, linger_seconds=linger_seconds),
    )


def _remedy_of_timeouts(limit: timedelta, *, max_run_seconds: float, linger_seconds: float) -> str:
    """Return the remedy for disconnecting callers: a longer timeout, or settings with which a tick answers in time."""
    wait_longer = "raise that caller's timeout to 60 seconds"
    waits = (limit - _DISCONNECT_DELAY).total_seconds()
    found = caller_budget(waits)
    if found is None:
        return f"{wait_longer}: no tick is certain to answer within {_seconds(limit)}"
    to_lower = [
        f"{name} = {bound} (SCHEDULED_ACTIONS_{name.upper()})"
        for name, value, bound in (
            ("max_run_seconds", max_run_seconds, f"{found.run_seconds}"),
            ("linger_seconds", linger_seconds, f"0, or {found.run_seconds} at most"),
        )
        if value > found.run_seconds
    ]
    if to_lower:
        return (
            f"{wait_longer}, or set {' and '.join(to_lower)}: handlers that start last then have "
            f"{found.left_seconds} seconds to finish"
        )
    starts = max(max_run_seconds, linger_seconds)
    last = f"those that start last, after {starts:g} seconds, have {int(waits - starts) - 1} to finish"
    return f"{wait_longer}, or shorten the handlers: {last}"


def lost_ticks(pings: Sequence[Ping]) -> Check:
    """Return a warning if processes died during ticks."""
    lost = sum(ping.is_lost for ping in pings)
    durations = [ping.duration for ping in pings if ping.duration is not None]
    longest_text = f"; the longest that ended took {_seconds(max(durations))}" if durations else ""
    return first_problem(
        "lost_ticks",
        (
            lost,
            WARNING,
            (
                f"{lost} of the last {len(pings)} ticks did not end: the process was killed, by the host's time "
                f"limit or for lack of memory{longest_text}"
            ),
            (
                "set max_duration_seconds below the host's request limit, and max_run_seconds below both; look for "
                "kills in the host's log"
            ),
        ),
        ok="no tick was lost",
    )


def refused_pings(
    *,
    wrong: int = 0,
    without: int = 0,
    last_ago: timedelta | None = None,
    callers: Sequence[str] = (),
    is_missing: bool = False,
) -> Check:
    """Return a warning if a caller uses a wrong secret, or sends none while no valid pings arrive.

    There is no warning if the last refused ping was more than an hour ago.

    Args:
        wrong: Number of pings with a wrong secret or signature in the current counting period, which is a day.
        without: Number of pings in this period with neither a secret nor a signature.
        last_ago: Time since the last refused ping; None: there was none.
        callers: The names of the callers of refused pings; empty if they may not be shown.
        is_missing: Whether no valid pings arrive.
    """
    if last_ago is None:
        return Check("refused_pings", Level.OK, "none was refused")
    named = f" ({_named(callers)})" if any(callers) else ""
    number, last_try = counted(wrong + without, "ping"), f"last try {in_words(last_ago)} ago"
    is_recent = last_ago <= WINDOW
    return first_problem(
        "refused_pings",
        (
            is_recent and wrong,
            WARNING,
            f"a caller{named} uses a wrong CRON_SECRET: {counted(wrong, 'ping')} in a day, {last_try}",
            "if it is your cron, update its secret",
        ),
        (
            is_recent and is_missing,
            WARNING,
            f"a caller{named} sends no secret, and no other pings arrive: {number} refused in a day, {last_try}",
            "make your cron send CRON_SECRET as x-cron-secret: `scheduled-actions cron-setup` prints instructions",
        ),
        ok=f"{number} refused in a day, {last_try}{named}",
    )


def heartbeat(pings: Sequence[Ping], *, is_set: bool, problem: str | None) -> Check:
    """Return a fault if the address is invalid, a warning if the last heartbeat failed or the ticks send none.

    Args:
        pings: The pings of the last hour, the latest first.
        is_set: Whether an address is configured in this process; another process may run the ticks.
        problem: Why the address cannot be used; None if it can.
    """
    sending = [ping for ping in pings if ping.heartbeat is not None]
    known = next((ping for ping in sending if ping.heartbeat != UNSENT), None)
    last = "" if known is None else f"{known.heartbeat}, according to the tick of {in_words(known.ago)} ago"
    # A process stores the result of a heartbeat with its next tick. A process that ended after its first tick stored
    # none.
    passed = "configured; its first result is not known yet"
    if len(sending) >= _ENOUGH:
        passed = (
            "configured; results are unknown, because every process of the last hour ended after its first tick: see "
            "heartbeat.failed in the log, and the monitoring service"
        )
    if known is not None:
        passed = "the last one was answered"
    elif not is_set and not sending:
        passed = f"not configured (optional); set {_HEARTBEAT_URL} to be alerted when ticks stop"
    return first_problem(
        "heartbeat",
        (
            problem,
            FAULT,
            f"{_HEARTBEAT_URL}: {problem}",
            f"set {_HEARTBEAT_URL} to the address from your monitoring service, or unset it",
        ),
        (
            known is not None and known.heartbeat != ANSWERED,
            WARNING,
            f"the last heartbeat {last}",
            f"check that the address in {_HEARTBEAT_URL} exists, and is reachable from the processes that run ticks",
        ),
        (
            is_set and len(pings) >= _ENOUGH and not sending,
            WARNING,
            f"{_HEARTBEAT_URL} is set here, but not in the processes that ran the ticks of the last hour",
            "set it for the process that answers /cron/process, too, and restart that process",
        ),
        ok=passed,
    )


def anonymous(caller: str) -> str:
    """Return the kind of a caller without its name; empty for a cron."""
    return next((kind for kind in _NO_CRON if caller.startswith(kind)), "")


def _named(callers: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(caller or "a caller" for caller in callers))


def _seconds(span: timedelta) -> str:
    return f"{span.total_seconds():.1f} seconds"
