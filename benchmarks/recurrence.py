"""Time to compute the next occurrence for each kind of rule, compared with the underlying libraries."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo

from croniter import croniter  # type: ignore[import-untyped]
from dateutil.relativedelta import relativedelta
from dateutil.rrule import rrulestr

from benchmarks.comparison import Comparison, Target
from benchmarks.harness import Bench, WrongResultError, seconds_of
from scheduled_actions.recurrence.compiling import compile_recurrence
from scheduled_actions.recurrence.skips.model import Skips

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_ZONE = ZoneInfo("Europe/Berlin")
#: No daylight saving change within the next hundred days, so that the libraries return the same instants.
_ANCHOR = datetime(2026, 4, 1, 9, tzinfo=_ZONE)
#: Distance of the evaluated instants; all differ, so that no result comes from a cache.
_STEP = timedelta(hours=2, minutes=7)
_INTERVAL_MICROSECONDS, _CRON_MICROSECONDS = 10.0, 150.0


class Kind(NamedTuple):
    """A rule, and a library function that computes the same."""

    name: str
    text: str
    baseline_name: str
    #: Takes and returns an aware instant.
    baseline: Callable[[datetime], datetime]
    target: Target | None = None
    skips: Skips | None = None


def run(bench: Bench) -> list[Comparison]:
    """Return the time of one `next_after`, and of compiling a rule, in microseconds."""
    return [*(_next(bench, kind) for kind in _kinds()), _compile(bench)]


def _kinds() -> list[Kind]:
    minutes, workdays = "*/5 * * * *", "0 9 * * 1-5"
    last = "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1"
    interval, cron = (Target("measured", "at most", bound) for bound in (_INTERVAL_MICROSECONDS, _CRON_MICROSECONDS))
    return [
        Kind("interval, PT10M", "PT10M", "timedelta", _by_timedelta, interval),
        Kind("interval, daily", "daily", "relativedelta", _by_relativedelta, interval),
        Kind("cron, every 5 minutes", minutes, "croniter", partial(_by_croniter, minutes), cron),
        Kind("cron, workdays at 9", workdays, "croniter", partial(_by_croniter, workdays), cron),
        Kind("RRULE, daily", "RRULE:FREQ=DAILY", "dateutil", _by_dateutil("FREQ=DAILY")),
        Kind("RRULE, last weekday of the month", f"RRULE:{last}", "dateutil", _by_dateutil(last)),
        Kind(
            "last business day of the month", "last business day of the month at 09:00", "dateutil", _by_dateutil(last)
        ),
        Kind(
            "daily, weekends skipped",
            "daily",
            "dateutil, five days a week",
            _by_dateutil("FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR"),
            skips=Skips(weekends=True),
        ),
    ]


def _by_timedelta(moment: datetime) -> datetime:
    step = timedelta(minutes=10)
    return _ANCHOR + ((moment - _ANCHOR) // step + 1) * step


def _by_relativedelta(moment: datetime) -> datetime:
    local = moment.astimezone(_ZONE)
    days = (local.replace(tzinfo=None) - _ANCHOR.replace(tzinfo=None)).days
    return (_ANCHOR.replace(tzinfo=None) + relativedelta(days=days + 1)).replace(tzinfo=_ZONE).astimezone(UTC)


def _by_croniter(text: str, moment: datetime) -> datetime:
    found: datetime = croniter(text, moment.astimezone(_ZONE)).get_next(datetime)
    return found.astimezone(UTC)


def _by_dateutil(text: str) -> Callable[[datetime], datetime]:
    """Return `rrule.after` of a rule that is parsed once; without rrule's cache, which would hold all occurrences."""
    rule = rrulestr(text, dtstart=_ANCHOR.replace(tzinfo=None))

    def after(moment: datetime) -> datetime:
        found: datetime = rule.after(moment.astimezone(_ZONE).replace(tzinfo=None))  # type: ignore[assignment]
        return found.replace(tzinfo=_ZONE).astimezone(UTC)

    return after


def _next(bench: Bench, kind: Kind) -> Comparison:
    moments = [_ANCHOR.astimezone(UTC) + n * _STEP for n in range(1, bench.scale.instants + 1)]
    rule = compile_recurrence(kind.text, timezone=_ZONE.key, anchor=_ANCHOR, skips=kind.skips)

    def ours(moment: datetime) -> datetime | None:
        found = rule.next_after(moment)
        return None if found is None else found.at

    for moment in moments:
        if ours(moment) != kind.baseline(moment):
            raise WrongResultError(f"{kind.name} after {moment}", found=ours(moment), expected=kind.baseline(moment))
    bench.say(kind.name)
    took = bench.take_turns({"ours": partial(_each, ours, moments), "baseline": partial(_each, kind.baseline, moments)})
    return Comparison(
        name=f"next: {kind.name}",
        baseline_name=kind.baseline_name,
        unit="µs",
        measured=took["ours"],
        baseline=took["baseline"],
        target=kind.target,
    )


def _each(next_after: Callable[[datetime], datetime | None], moments: Sequence[datetime]) -> float:
    """Return the mean time of a call in microseconds."""
    return seconds_of(lambda: [next_after(moment) for moment in moments]) / len(moments) * 1_000_000


def _compile(bench: Bench) -> Comparison:
    """Measure compiling a rule that is not cached and computing its first occurrence."""
    starts = iter(range(10**9))

    def ours(_: datetime) -> datetime | None:
        anchor = _ANCHOR + timedelta(seconds=next(starts))
        found = compile_recurrence("0 9 * * 1-5", timezone=_ZONE.key, anchor=anchor).next_after(anchor)
        return None if found is None else found.at

    moments = [_ANCHOR] * max(1, bench.scale.instants // 10)
    bench.say("compile")
    took = bench.take_turns(
        {
            "ours": partial(_each, ours, moments),
            "baseline": partial(_each, partial(_by_croniter, "0 9 * * 1-5"), moments),
        }
    )
    return Comparison(
        name="compile and next: cron, workdays at 9",
        baseline_name="croniter",
        unit="µs",
        measured=took["ours"],
        baseline=took["baseline"],
    )
