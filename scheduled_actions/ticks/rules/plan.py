"""What a tick may start, how large a wave is, and how much it claims: decided here, without a clock."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scheduled_actions.core.config import Settings

#: What is kept of `max_duration_seconds` for the last settlement and the answer.
ANSWER_MARGIN_SECONDS = 1.0
#: A type whose handlers take no longer may be announced in larger waves than there are threads.
FAST_SECONDS = 0.005
#: A wave of them is no more than one thread does in this time: what a crash charges beside what it ends stays small.
_WAVE_SECONDS = 0.5
#: Neither a wave nor a claim grows beyond it.
LARGEST = 500
#: How many times `batch_size` a claim may take of what takes next to no time.
_GROWTH = 5
#: Durations remembered per type.
_REMEMBERED = 64
#: A p95 of fewer durations is a guess.
_ENOUGH_FOR_FAST = 5
_ENOUGH_FOR_P95 = 20
#: A claim takes about as much work as the threads do in this time, so that other ticks find some too.
_CLAIM_SECONDS = 1.0


class Pace:
    """How long handlers of each type have taken in this process."""

    def __init__(self) -> None:
        self._durations: dict[str, deque[float]] = {}
        self._p95: dict[str, tuple[int, float]] = {}
        self._recorded: dict[str, int] = {}

    def record(self, action_type: str, seconds: float) -> None:
        """Remember one duration."""
        if action_type not in self._durations:
            self._durations[action_type] = deque(maxlen=_REMEMBERED)
            self._recorded[action_type] = 0
        self._durations[action_type].append(seconds)
        self._recorded[action_type] += 1

    def p95(self, action_type: str, *, at_least: int = _ENOUGH_FOR_P95) -> float | None:
        """Return the 95th percentile of the last durations in seconds; None while there are too few to tell."""
        durations = self._durations.get(action_type)
        if durations is None or len(durations) < at_least:
            return None
        recorded = self._recorded[action_type]
        cached = self._p95.get(action_type)
        # Sorting at each question would cost more than some handlers do: a few durations more change little.
        if cached is not None and recorded - cached[0] < len(durations) // 4:
            return cached[1]
        ordered = sorted(durations)
        value = ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
        self._p95[action_type] = (recorded, value)
        return value

    def wave(self, action_type: str) -> int | None:
        """Return how many of the type may be announced at once, where its handlers take next to no time.

        None where they do not, or were not measured: each is announced when a thread is free for it.
        """
        p95 = self.p95(action_type, at_least=_ENOUGH_FOR_FAST)
        return None if p95 is None or p95 >= FAST_SECONDS else _in_half_a_second(p95)

    def mean(self) -> float | None:
        """Return the mean of all remembered durations in seconds; None before the first."""
        counted = sum(len(durations) for durations in self._durations.values())
        return sum(sum(durations) for durations in self._durations.values()) / counted if counted else None


@dataclass(frozen=True, slots=True)
class Budget:
    """The two limits of a tick, on the process's monotonic clock in seconds."""

    started: float
    #: After it nothing starts.
    run_until: float
    #: By it everything has been settled or given up, and the answer is out.
    answer_by: float
    #: Until then it waits for what comes due; its start where it does not linger.
    linger_until: float = 0.0

    @classmethod
    def of(
        cls,
        *,
        started: float,
        duration_seconds: float,
        run_seconds: float,
        linger_seconds: float,
        timeout_seconds: float,
    ) -> Budget:
        """Return the limits of a tick.

        Args:
            started: On the monotonic clock.
            duration_seconds: Until the answer; the host's limit may be shorter than the settings have it.
            run_seconds: How long it starts what is due.
            linger_seconds: How long it waits for more, where the host leaves an action its usual time after that.
            timeout_seconds: An action's usual time.
        """
        linger = min(linger_seconds, max(0.0, duration_seconds - timeout_seconds))
        return cls(
            started=started,
            run_until=started + min(max(run_seconds, linger), duration_seconds),
            answer_by=started + duration_seconds,
            linger_until=started + linger,
        )

    @classmethod
    def by_settings(cls, settings: Settings, *, started: float, duration_seconds: float, lingers: bool) -> Budget:
        """Return the limits that the settings give a tick.

        Args:
            settings: Those of the project.
            started: On the monotonic clock.
            duration_seconds: What the tick has, as `tick_seconds` says.
            lingers: Whether it keeps the watch.
        """
        return cls.of(
            started=started,
            duration_seconds=max(0.0, duration_seconds - ANSWER_MARGIN_SECONDS),
            run_seconds=settings.max_run_seconds,
            linger_seconds=settings.linger_seconds if lingers else 0.0,
            timeout_seconds=settings.default_timeout_seconds,
        )

    def may_start(self, now: float) -> bool:
        """Whether anything may start at all."""
        return now < self.run_until

    def fits(self, seconds: float, now: float) -> bool:
        """Whether something that takes `seconds` would end in time."""
        return now + seconds <= self.answer_by

    def could_ever_fit(self, seconds: float) -> bool:
        """Whether something that takes `seconds` would end in time in a tick that had only this to do."""
        return seconds <= self.answer_by - self.started - _SETTLING_SECONDS


def tick_seconds(settings: Settings, host_seconds: float | None) -> float:
    """Return how long a tick may take, answer included: the setting, or the host's limit where that is shorter."""
    duration = settings.max_duration_seconds
    return duration if host_seconds is None else min(duration, host_seconds)


class Within(NamedTuple):
    """How a tick answers a caller that does not wait for ever, in whole seconds."""

    #: How long it may start what is due: `max_run_seconds`.
    run_seconds: int
    #: What starts last has as long to end.
    left_seconds: int


def within(caller_seconds: float) -> Within | None:
    """Return how to answer a caller that waits so long; None: no tick is sure to.

    Two thirds are for starting, as by default of half a minute; a second is for the way there and back.
    """
    whole = int(caller_seconds)
    run = whole * 2 // 3
    left = whole - run - 1
    return Within(run, left) if min(run, left) >= 1 else None


def too_long(*, timeout_seconds: float, tick_seconds: float) -> str:
    """Return why an action is not started that could never end within a tick."""
    return (
        f"not started: it may take {timeout_seconds:g} s (its timeout), and a tick has "
        f"{tick_seconds:g} s; raise max_duration_seconds and the host's limit, or lower timeout_seconds"
    )


#: What a tick needs around its handlers: claiming before, settling after.
_SETTLING_SECONDS = 1.0


class Candidate(NamedTuple):
    """What the plan needs to know of a claimed action."""

    action_type: str
    #: The longest it may take: its timeout.
    timeout_seconds: float
    is_last_attempt: bool
    #: Its last attempt ended with its process: nothing else may be in flight beside it.
    runs_alone: bool


def expected_seconds(candidate: Candidate, pace: Pace) -> float:
    """Return how long the action will take: its type's measured p95, or its timeout while that is unknown."""
    p95 = pace.p95(candidate.action_type)
    return candidate.timeout_seconds if p95 is None else min(p95, candidate.timeout_seconds)


def next_wave(
    candidates: Sequence[Candidate],
    *,
    free: int,
    in_flight: int,
    one_runs_alone: bool,
    now: float,
    budget: Budget,
    pace: Pace,
    has_room: Callable[[int], bool] | None = None,
) -> list[int]:
    """Return the positions of the candidates to start now, in their order.

    Args:
        candidates: Claimed and not started, in the order of the claim.
        free: Threads without work.
        in_flight: Actions announced and not settled.
        one_runs_alone: What is in flight must stay alone.
        now: On the monotonic clock of `budget`.
        budget: The tick's limits.
        pace: What has been measured.
        has_room: Whether one more of the team of the candidate at a position may start, which is counted then; None:
            everybody may.
    """
    if free <= 0 or one_runs_alone or not budget.may_start(now):
        return []
    if in_flight == 0:
        alone = (position for position, one in enumerate(candidates) if one.runs_alone)
        for position in alone:
            fits = budget.fits(expected_seconds(candidates[position], pace), now)
            if fits and (has_room is None or has_room(position)):
                return [position]
    wave: list[int] = []
    threads_taken = 0
    # Most candidates are like the one before: each sort is judged once.
    judged: dict[Candidate, tuple[bool, int | None]] = {}
    for position, one in enumerate(candidates):
        if threads_taken == free:
            break
        if one not in judged:
            may_start = not one.runs_alone and budget.fits(expected_seconds(one, pace), now)
            judged[one] = (may_start, _queued_most(one, pace))
        may_start, most = judged[one]
        is_wave_full = most is not None and len(wave) >= max(free, most - in_flight)
        if not may_start or is_wave_full or (has_room is not None and not has_room(position)):
            continue
        if most is None:
            threads_taken += 1
        wave.append(position)
    return wave


def _queued_most(candidate: Candidate, pace: Pace) -> int | None:
    """Return in how large a wave the candidate may wait for its thread; None: it takes one that is free.

    A fast one needs no thread of its own, but a charged attempt that never started must not be the last one.
    """
    return None if candidate.is_last_attempt else pace.wave(candidate.action_type)


def claim_size(*, batch_size: int, concurrency: int, pace: Pace) -> int:
    """Return how many actions to claim: what the threads do in about a second, at most `batch_size`.

    What takes next to no time is claimed in larger batches, of no more than one thread does in half a second: a claim
    and a settlement each cost a commit, however much they are for.
    """
    mean = pace.mean()
    if mean is None:
        return min(batch_size, 2 * concurrency)
    most = max(batch_size, min(_GROWTH * batch_size, _in_half_a_second(mean)))
    return max(min(batch_size, concurrency), min(most, int(_CLAIM_SECONDS * concurrency / max(mean, 1e-6))))


def _in_half_a_second(seconds: float) -> int:
    """Return how many that take so long one thread does in half a second, at most `LARGEST`."""
    return min(LARGEST, int(_WAVE_SECONDS / max(seconds, 1e-6)))
