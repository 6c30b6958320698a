"""Decide which actions a tick starts, how large its waves and claims are, and how teams share them; reads no clock.

Actions without a team count as one more team, represented by an empty string.
"""

import math
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

from scheduled_actions.core.config import Settings

#: A scan starts from the front of the due range at least this often, so that newly urgent actions do not wait.
FRESH_SECONDS = 1.0
#: The part of `max_duration_seconds` that is reserved for the last settlement and the answer.
ANSWER_MARGIN_SECONDS = 1.0
#: Action types whose handlers are faster than this may be announced in waves larger than the number of free threads.
FAST_SECONDS = 0.005
#: Attempts of action types whose handlers take longer than `FAST_SECONDS` but less than this are started before earlier
#: results are written, unless all of these are plain completions: the write would keep their threads idle for a
#: noticeable part of the time.
_BRIEF_SECONDS = 0.25
#: If the handlers take at least this long, such attempts start without a wait for further results. Results of faster
#: handlers arrive so close together that most statements write several of them after a short wait.
_PROMPT_SECONDS = 0.025
#: Such a wave has at most as many actions as one thread runs in this time, because a crash charges an attempt to all of
#: them, even to those that never ran.
_WAVE_SECONDS = 0.5
#: Maximum size of a wave and of a claim.
MAX_BATCH = 500
#: Claims of fast actions may be this many times as large as `batch_size`.
_GROWTH = 5
#: Number of durations kept per action type.
_KEPT_DURATIONS = 64
#: Minimum number of durations: to treat a type as fast, and for a usable 95th percentile.
_MIN_FOR_FAST = 5
_MIN_FOR_P95 = 20
#: A claim takes about as many actions as the threads run in this time; further ones stay available to other ticks.
_CLAIM_SECONDS = 1.0
#: Time that a tick needs in addition to its handlers, for claiming and settling.
_SETTLING_SECONDS = 1.0
#: Scans for other teams may take one twentieth of the time.
_SCAN_SHARE = 20
#: A team with more than one tenth of a batch dominates it.
_DOMINANT_PART = 10


class DurationStats:
    """Stores the latest handler durations of this process, by action type."""

    def __init__(self) -> None:
        self._durations: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_KEPT_DURATIONS))
        self._p95: dict[str, tuple[int, float]] = {}
        self._recorded: Counter[str] = Counter()

    def record(self, action_type: str, seconds: Sequence[float]) -> None:
        """Add the durations of handlers, in seconds."""
        self._durations[action_type].extend(seconds)
        self._recorded[action_type] += len(seconds)

    def p95(self, action_type: str, *, at_least: int = _MIN_FOR_P95) -> float | None:
        """Return the 95th percentile of the latest durations in seconds; None with fewer than `at_least` durations."""
        durations = self._durations.get(action_type, ())
        if len(durations) < at_least:
            return None
        recorded = self._recorded[action_type]
        cached = self._p95.get(action_type)
        # Sorting on each call would cost more than some handlers do, and a few more durations change little.
        if cached is not None and recorded - cached[0] < len(durations) // 4:
            return cached[1]
        value = sorted(durations)[min(len(durations) - 1, int(len(durations) * 0.95))]
        self._p95[action_type] = (recorded, value)
        return value

    def wave(self, action_type: str) -> int | None:
        """Return the number of actions of a fast type that may be announced at once.

        None for types that are slow or have fewer than five measured durations: their actions are announced when a
        thread is free.
        """
        p95 = self.p95(action_type, at_least=_MIN_FOR_FAST)
        return None if p95 is None or p95 >= FAST_SECONDS else _wave_size(p95)

    def is_brief(self, action_type: str) -> bool:
        """Return whether attempts of a type are started before earlier results that are not plain completions.

        False for fast types, whose threads have further attempts announced, and for types with fewer than five measured
        durations.
        """
        p95 = self.p95(action_type, at_least=_MIN_FOR_FAST)
        return p95 is not None and FAST_SECONDS <= p95 < _BRIEF_SECONDS

    def is_prompt(self, action_type: str) -> bool:
        """Return whether attempts of a type start without a wait for further results: if they take 25 to 250 ms."""
        p95 = self.p95(action_type, at_least=_MIN_FOR_FAST)
        return p95 is not None and _PROMPT_SECONDS <= p95 < _BRIEF_SECONDS

    def mean(self) -> float | None:
        """Return the mean of all stored durations in seconds; None if there are none."""
        recorded = sum(map(len, self._durations.values()))
        return sum(map(sum, self._durations.values())) / recorded if recorded else None


@dataclass(frozen=True, slots=True)
class TickBudget:
    """The time limits of a tick, in seconds of the process's monotonic clock."""

    started: float
    #: When the last handler may start.
    run_until: float
    #: When the attempts that are still running are abandoned, and the last settlement begins.
    answer_by: float
    #: Until when the tick waits for actions to become due; `started` if it does not linger.
    linger_until: float = 0.0
    #: The time limit of the tick including its answer.
    duration_seconds: float = math.inf

    @classmethod
    def by_settings(
        cls, settings: Settings, *, started: float, host_seconds: float | None, lingers: bool
    ) -> "TickBudget":
        """Return the limits of a tick under these settings.

        Args:
            settings: The settings of the project.
            started: The start of the tick, on the monotonic clock.
            host_seconds: The host's time limit for the tick, in seconds; None: only the setting applies.
            lingers: Whether the tick waits for actions to become due. The wait ends early enough to leave time for an
                action with the default timeout.
        """
        duration_seconds = min(settings.max_duration_seconds, math.inf if host_seconds is None else host_seconds)
        duration = max(0.0, duration_seconds - ANSWER_MARGIN_SECONDS)
        linger = min(settings.linger_seconds, max(0.0, duration - settings.default_timeout_seconds)) if lingers else 0.0
        return cls(
            started=started,
            run_until=started + min(max(settings.max_run_seconds, linger), duration),
            answer_by=started + duration,
            linger_until=started + linger,
            duration_seconds=duration_seconds,
        )

    def may_start(self, now: float) -> bool:
        """Return whether handlers may still start."""
        return now < self.run_until

    def fits(self, seconds: float, now: float) -> bool:
        """Return whether a handler that takes `seconds` would end before the answer is due."""
        return now + seconds <= self.answer_by

    def could_ever_fit(self, seconds: float) -> bool:
        """Return whether a handler that takes `seconds` would end in time if the tick ran nothing else."""
        return seconds <= self.answer_by - self.started - _SETTLING_SECONDS


class CallerBudget(NamedTuple):
    """The division of the time that the caller of a tick waits, in whole seconds."""

    #: Time in which handlers may start: `max_run_seconds`.
    run_seconds: int
    #: Time left for the handlers that start last.
    left_seconds: int


def caller_budget(caller_seconds: float) -> CallerBudget | None:
    """Divide the time that a caller waits, in seconds; return None if this time is too short for any tick.

    Two thirds are for starting handlers, as in the default settings, and one second is for the network.
    """
    run = int(caller_seconds) * 2 // 3
    left = int(caller_seconds) - run - 1
    return CallerBudget(run, left) if min(run, left) >= 1 else None


def too_long(*, timeout_seconds: float, tick_seconds: float) -> str:
    """Return the error message for an action whose timeout does not fit into any tick."""
    return (
        f"not started: its timeout of {timeout_seconds:g} s does not fit into a tick of {tick_seconds:g} s; lower "
        "timeout_seconds, or raise max_duration_seconds and the host's limit"
    )


class Candidate(NamedTuple):
    """The properties of a claimed action that decide when it may start."""

    action_type: str
    timeout_seconds: float
    is_last_attempt: bool
    #: Whether nothing else may be in flight at the same time, because the action's previous attempt crashed.
    runs_alone: bool


def expected_seconds(candidate: Candidate, stats: DurationStats) -> float:
    """Return the expected duration of an action in seconds: the 95th percentile of its type, at most its timeout.

    With fewer than 20 measured durations of its type, it is the timeout.
    """
    p95 = stats.p95(candidate.action_type)
    return candidate.timeout_seconds if p95 is None else min(p95, candidate.timeout_seconds)


def next_wave(
    candidates: Sequence[Candidate],
    *,
    free: int,
    in_flight: int,
    one_runs_alone: bool,
    now: float,
    budget: TickBudget,
    stats: DurationStats,
    has_room: Callable[[int], bool] | None = None,
) -> list[int]:
    """Return the positions of the candidates to start now, in ascending order.

    Args:
        candidates: The actions claimed and not started, in the order of the claim.
        free: Number of idle threads.
        in_flight: Number of announced actions without a result.
        one_runs_alone: Whether an action in flight has to run alone.
        now: The current time on the monotonic clock of `budget`.
        budget: The time limits of the tick.
        stats: The measured durations of handlers.
        has_room: Returns whether the candidate at a position may start under the limits of teams and imports, and
            counts it; None without such limits.
    """
    if free <= 0 or one_runs_alone or not budget.may_start(now):
        return []
    if in_flight == 0:
        for position, one in enumerate(candidates):
            may_start = one.runs_alone and budget.fits(expected_seconds(one, stats), now)
            if may_start and (has_room is None or has_room(position)):
                return [position]
    wave: list[int] = []
    threads_taken = 0
    # Each distinct candidate is evaluated once; most are the same object as the one before.
    evaluated: dict[Candidate, tuple[bool, int | None]] = {}
    before: Candidate | None = None
    may_start, max_wave = False, None
    for position, one in enumerate(candidates):
        if threads_taken == free:
            break
        if one is not before:
            before = one
            if one not in evaluated:
                may_start = not one.runs_alone and budget.fits(expected_seconds(one, stats), now)
                # A fast action may wait for a thread after its announcement, unless this is its last attempt: a crash
                # would charge that attempt although it never started.
                evaluated[one] = (may_start, None if one.is_last_attempt else stats.wave(one.action_type))
            may_start, max_wave = evaluated[one]
        is_wave_full = max_wave is not None and len(wave) >= max(free, max_wave - in_flight)
        if not may_start or is_wave_full or (has_room is not None and not has_room(position)):
            continue
        threads_taken += max_wave is None
        wave.append(position)
    return wave


def claim_size(*, batch_size: int, concurrency: int, stats: DurationStats) -> int:
    """Return the number of actions to claim: about as many as the threads run in one second, by their mean duration.

    The minimum is one action per thread; the maximum is `batch_size`, which takes precedence. For fast actions, the
    maximum rises to the number that one thread runs in half a second, at most 500 and five times `batch_size`, because
    each claim and each settlement costs a commit, whatever its size. As long as no duration is known, two actions per
    thread are claimed, at most `batch_size`.
    """
    mean = stats.mean()
    if mean is None:
        return min(batch_size, 2 * concurrency)
    most = max(batch_size, min(_GROWTH * batch_size, _wave_size(mean)))
    return max(min(batch_size, concurrency), min(most, int(_CLAIM_SECONDS * concurrency / max(mean, 1e-6))))


def _wave_size(seconds: float) -> int:
    """Return the number of handlers of this duration that one thread runs within a wave, at most `MAX_BATCH`."""
    return min(MAX_BATCH, int(_WAVE_SECONDS / max(seconds, 1e-6)))


def dominant_teams(teams: Iterable[str | None], *, wanted: int) -> frozenset[str]:
    """Return the teams that have more than a tenth of a full batch.

    Args:
        teams: The team of each action in the batch.
        wanted: The size of a full batch.
    """
    counted = Counter(team or "" for team in teams)
    return frozenset(team for team, actions in counted.items() if actions * _DOMINANT_PART > wanted)


def round_robin(teams: Sequence[str | None]) -> list[int]:
    """Return the positions of actions in an order in which teams alternate; each team's actions keep their order.

    Args:
        teams: The team of each action.
    """
    counters: defaultdict[str | None, Iterator[int]] = defaultdict(count)
    rounds = [next(counters[team]) for team in teams]
    return sorted(range(len(teams)), key=rounds.__getitem__)


@dataclass(slots=True)
class ScanBudget:
    """The time that a tick may spend on scans for other teams, in seconds of the monotonic clock."""

    started: float
    #: When the last handler may start.
    run_until: float
    spent: float = 0.0

    def has_more(self) -> bool:
        """Return whether the scans so far took less than one twentieth of the tick's time for starting handlers."""
        return self.spent * _SCAN_SHARE < self.run_until - self.started

    def may_begin(self, now: float) -> bool:
        """Return whether a new scan may begin: the scans so far took at most one twentieth of the elapsed time."""
        return self.spent * _SCAN_SHARE <= now - self.started

    def spend(self, seconds: float, *, claimed: int, wanted: int) -> None:
        """Add the duration of a scan in seconds, reduced by the share of the wanted actions that the scan claimed."""
        self.spent += seconds * max(0.0, 1 - claimed / wanted)
