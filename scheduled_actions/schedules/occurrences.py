"""The occurrences of schedules: the next is planned in the transaction that claims or settles the one before."""

from __future__ import annotations

import logging
import threading
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import psycopg

from scheduled_actions.actions import claims
from scheduled_actions.actions.rules import settlement
from scheduled_actions.core.action import Status
from scheduled_actions.core.errors import BudgetExceeded, FunctionTimedOut, ScheduledActionsError
from scheduled_actions.core.evaluation_budget import STEPS, EvaluationBudget
from scheduled_actions.database.boundary import CONTAINED, LATER, concerns_all, contain, reason_of
from scheduled_actions.database.transactions import wait_shortly
from scheduled_actions.registry.function_calls import all_within
from scheduled_actions.schedules import store
from scheduled_actions.schedules.model import functions_named, is_planned_alike, project_functions
from scheduled_actions.schedules.rules import series

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from uuid import UUID

    from scheduled_actions.core.action import Claimed
    from scheduled_actions.database.connection import Connection, Database
    from scheduled_actions.recurrence import Kind, Recurrence, Skips
    from scheduled_actions.recurrence.compiling import Outline
    from scheduled_actions.registry import Registry
    from scheduled_actions.schedules.model import Course, Schedule

log = logging.getLogger("scheduled_actions")

#: A crashed process or a hand in the tables may leave a live schedule without a planned occurrence for so long.
SWEEP_SECONDS = 300.0
#: Failures in a row are counted no further: the largest integer of Postgres.
_COUNTED_MOST = 2**31 - 1
#: Schedules mended by one statement.
_BITE = 500
#: How often a wanted occurrence may turn out to have been created before, until the sweep is left to find another.
_COLLISIONS_MOST = 100
#: What the rules of one transaction may use, a tenth of a second: the rest is planned after the commit.
_TRANSACTION_STEPS = 20_000
#: How many dates, ranges or windows of skips are read in one step.
_ENTRIES_A_STEP = 2
#: How long a lock is waited for that was waited for before, in milliseconds.
_HARDLY_MS = "5"
#: Schedules that one thread may leave unplanned until it plans them.
_UNPLANNED_MOST = 10_000
#: How many times the limit of one call all calls may take together that one planning needs.
PLANNING_CALLS = 4
#: Where the rules begin whose instants do not depend on it.
_ANY_ANCHOR = datetime(2000, 1, 1, tzinfo=UTC)
_RUN = series.Judgement("run")
_RAN = frozenset({Status.COMPLETED, Status.FAILED})
#: Claims a batch: what it claimed, and where the next one goes on.
Claim: TypeAlias = "Callable[[], tuple[list[Claimed], claims.Position]]"
_CONCLUDED = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED, Status.SKIPPED})


@dataclass(slots=True)
class Taking:
    """What became of claimed actions."""

    #: To be run.
    kept: list[Claimed]
    #: Occurrences that ended as skipped, each with the reason.
    skipped: list[tuple[Claimed, str]] = field(default_factory=list)
    #: Occurrences whose end nobody waits for: neither their schedule, to take its next step, nor another occurrence.
    unawaited: frozenset[UUID] = frozenset()
    #: Some of them are to be run before others that were claimed first: teams take turns.
    is_by_turns: bool = False
    #: Occurrences of schedules that cannot be followed, each with the reason: they fail.
    refused: list[tuple[Claimed, str]] = field(default_factory=list)

    def take_turns_with(self, other: Taking) -> None:
        """Add what was claimed for other teams."""
        self.kept = self.kept + other.kept
        self.skipped = self.skipped + other.skipped
        self.refused = self.refused + other.refused
        self.unawaited |= other.unawaited
        self.is_by_turns = bool(other.kept)


class Unplanned(NamedTuple):
    """A schedule whose next occurrence functions of the project find after the commit that left it unplanned."""

    schedule_id: UUID
    #: Their keys: schedules with the same keys are planned one after the other.
    functions: tuple[str, ...]
    #: Its start was named in the call that left it: it may be a moment ago.
    is_explicit: bool = False


class Occurrences:
    """The occurrences of one project's schedules.

    Args:
        database: For what a handler asks about its series.
        registry: Has the functions that rules and skips may name.
    """

    def __init__(self, database: Database, registry: Registry) -> None:
        self._database = database
        self._registry = registry
        self._lock = threading.Lock()
        #: What transactions left for after their commit, by thread; under None, of those that have ended. The sweep
        #: finds what is lost of it: with the process, or because there is too much.
        self._unplanned: dict[int | None, deque[Unplanned]] = {}
        #: By schedule that catches up: what was planned last, and until when all after it is selected. A selection is
        #: made once; one that is lost with the process is made again.
        self._selected: dict[UUID, tuple[datetime, datetime]] = {}

    def rule_of(
        self, schedule: Course | Schedule, *, anchor: datetime | None = None, budget: EvaluationBudget | None = None
    ) -> Recurrence:
        """Return the rule of a schedule.

        Args:
            schedule: Whose.
            anchor: Where intervals count from instead of its own anchor.
            budget: For reading the rule and for everything it is asked; None: a new one for each question.

        Raises:
            RecurrenceInvalid: It cannot be followed any more: a function is gone, say.
            BudgetExceeded: Its first occurrence, or with COUNT its last, takes more steps than are left.
        """
        if anchor is None:
            # A cron expression knows no start: all schedules that share one share what was made of it.
            anchor = _ANY_ANCHOR if schedule.kind == "cron" else schedule.anchor_at
        return self.rule(
            schedule.recurrence,
            timezone=schedule.timezone,
            anchor=anchor,
            skip=schedule.skip,
            until=schedule.until,
            budget=budget,
        )

    def rule(
        self,
        text: str,
        *,
        timezone: str,
        anchor: datetime,
        skip: Mapping[str, Any] | None,
        until: datetime | None,
        budget: EvaluationBudget | None = None,
    ) -> Recurrence:
        """Return a rule with this project's functions; arguments as for `rule_of`.

        Raises:
            RecurrenceInvalid: It is malformed, or names nothing that occurs.
            BudgetExceeded: As for `rule_of`.
        """
        from scheduled_actions.recurrence import compile_recurrence  # noqa: PLC0415 - a cold tick does without

        return compile_recurrence(
            text,
            timezone=timezone,
            anchor=anchor,
            skips=_skips(skip, budget),
            until=until,
            functions=self._registry.functions,
            budget=budget,
        )

    def kind(
        self, text: str, *, timezone: str, anchor: datetime, skip: Mapping[str, Any] | None, until: datetime | None
    ) -> Kind:
        """Return the kind of a rule that is to be stored; no function of the project is called.

        Raises:
            RecurrenceInvalid: It is malformed, or, without functions of the project, names nothing that occurs.
            BudgetExceeded: It takes more than half of the steps that its evaluation may take later.
        """
        budget = EvaluationBudget("the recurrence", steps=STEPS // 2)
        look = self._outline if functions_named(text, skip) else self.rule
        return look(text, timezone=timezone, anchor=anchor, skip=skip, until=until, budget=budget).kind

    def in_words(self, schedule: Course | Schedule, budget: EvaluationBudget) -> str:
        """Return the rule of a schedule in words; no function of the project is called.

        Raises:
            RecurrenceInvalid: It cannot be followed any more: a function is gone, say.
            BudgetExceeded: Its last occurrence, with COUNT, takes more steps than are left.
        """
        return self._outline(
            schedule.recurrence,
            timezone=schedule.timezone,
            anchor=schedule.anchor_at,
            skip=schedule.skip,
            until=schedule.until,
            budget=budget,
        ).description

    def all_in_words(self, schedules: Collection[Course | Schedule]) -> list[str]:
        """Return the rules of a list of schedules in words, within one budget for all of them.

        One that cannot be followed any more is returned as it was typed; so is one that takes more steps than its part
        of the budget has, with the reason.
        """
        budget, words = EvaluationBudget("the rule"), []
        for number, schedule in enumerate(schedules):
            try:
                words.append(self.in_words(schedule, budget.part(of=len(schedules) - number)))
            except BudgetExceeded as error:
                words.append(f"{schedule.recurrence} (not computed: {error})")
            except ScheduledActionsError:
                words.append(schedule.recurrence)
        return words

    def _outline(
        self,
        text: str,
        *,
        timezone: str,
        anchor: datetime,
        skip: Mapping[str, Any] | None,
        until: datetime | None,
        budget: EvaluationBudget,
    ) -> Outline:
        from scheduled_actions.recurrence import outline  # noqa: PLC0415 - a cold tick does without

        return outline(
            text,
            timezone=timezone,
            anchor=anchor,
            skips=_skips(skip, budget),
            until=until,
            functions=self._registry.functions,
            budget=budget,
        )

    def rule_since(self, schedule: Schedule, moment: datetime) -> Recurrence:
        """Return the rule of a schedule as if it had begun at `moment` or before, with the same phase.

        An RRULE keeps its start: its COUNT and INTERVAL have a meaning from there on only.
        """
        from scheduled_actions.core import checks as arguments  # noqa: PLC0415 - a cold tick does without
        from scheduled_actions.recurrence.phase import earlier_anchor  # noqa: PLC0415 - as above

        anchor = schedule.anchor_at
        if moment < anchor and schedule.kind == "interval":
            zone = arguments.check_timezone(schedule.timezone)
            anchor = earlier_anchor(schedule.recurrence, zone=zone, anchor=anchor, moment=moment)
        elif moment < anchor and schedule.kind != "rrule":
            anchor = moment
        return self.rule_of(schedule, anchor=anchor)

    # -- claiming ------------------------------------------------------------------------------------------------------

    def claim(self, connection: Connection, claim: Claim) -> tuple[list[Claimed], Taking, claims.Position]:
        """Claim a batch and judge the occurrences in it, in one transaction; where that is refused, each on its own.

        Args:
            connection: In autocommit mode.
            claim: Claims the batch; called again where the first transaction is refused.

        Returns:
            Those claimed, what became of them, and where the next claim goes on.
        """
        return contain(
            lambda: self._claim_and_take(connection, claim, self.take),
            lambda error: self._claim_and_take(connection, claim, self._take_each, after=error),
        )

    @staticmethod
    def _claim_and_take(
        connection: Connection,
        claim: Claim,
        take: Callable[[Connection, list[Claimed]], Taking],
        *,
        after: BaseException | None = None,
    ) -> tuple[list[Claimed], Taking, claims.Position]:
        if after is not None:
            log.warning("claim.refused error=%s", reason_of(after))
        with connection.transaction():
            claimed, position = claim()
            return claimed, take(connection, claimed), position

    def take(self, connection: Connection, claimed: list[Claimed]) -> Taking:
        """Judge the planned occurrences among what was just claimed, and plan the one after each.

        Args:
            connection: In the transaction that claimed them.
            claimed: Of any kind; those outside a series, and retries, are kept as they are.
        """
        by_id = {one.id: one for one in claimed if one.schedule_id is not None}
        if not by_id:
            return Taking(claimed)
        steps: list[store.Step] = []
        reasons: dict[UUID, str] = {}
        unawaited: set[UUID] = set()
        planned, waiting = store.take(connection, by_id.values())
        budget = _budget_of_a_transaction()
        for taken in planned:
            judgement = self._judge(taken, by_id[taken.action_id])
            if judgement.verdict == "wait":
                waiting.add(taken.action_id)
                continue
            if judgement.verdict == "skip":
                reasons[taken.action_id] = judgement.reason or ""
            step = self._step_at_claim(taken.course, taken.now, budget, is_skipped=judgement.verdict == "skip")
            if step is not None:
                steps.append(step)
                if _ends_alone(taken, step):
                    unawaited.add(taken.action_id)
        if waiting:
            store.unclaim(connection, waiting)
        if reasons:
            store.skip_claimed(connection, reasons)
        self._advance(connection, steps)
        skipped = [(by_id[action_id], reason) for action_id, reason in reasons.items()]
        gone = waiting | reasons.keys()
        return Taking([one for one in claimed if one.id not in gone], skipped, frozenset(unawaited))

    def _take_each(self, connection: Connection, claimed: list[Claimed]) -> Taking:
        """Judge as `take` does, each occurrence on its own: one that is refused fails, and its series is paused."""
        whole = Taking([])
        for one in claimed:
            taking = contain(partial(self._take_apart, connection, one), partial(self._untaken, connection, one))
            whole.kept += taking.kept
            whole.skipped += taking.skipped
            whole.refused += taking.refused
            whole.unawaited |= taking.unawaited
        return whole

    def _take_apart(self, connection: Connection, claimed: Claimed) -> Taking:
        with connection.transaction():
            return self.take(connection, [claimed])

    def _untaken(self, connection: Connection, claimed: Claimed, error: BaseException) -> Taking:
        if isinstance(error, LATER):
            # Another session is changing its schedule.
            store.unclaim(connection, [claimed.id])
            return Taking([])
        if claimed.schedule_id is not None:
            self._refused(connection, claimed.schedule_id, error)
        return Taking([], refused=[(claimed, f"its schedule cannot be followed: {reason_of(error)}")])

    def _judge(self, taken: store.Taken, claimed: Claimed) -> series.Judgement:
        course = taken.course
        if course.recurrence_type == "rolling" and (claimed.attempts or claimed.last_outcome):
            return _RUN
        return series.judge(
            course,
            due_at=claimed.scheduled_instant,
            now=taken.now,
            running_since=taken.running_since,
            waiting_since=taken.waiting_since,
            has_unhandled=taken.has_unhandled,
        )

    def _step_at_claim(
        self, course: Course, now: datetime, budget: EvaluationBudget, *, is_skipped: bool
    ) -> store.Step | None:
        at = course.next_occurrence_at
        if at is None:
            return None
        step = store.Step(course.id, is_past=True, skipped=int(is_skipped), executed=int(not is_skipped))
        if course.recurrence_type == "rolling":
            # Its next is planned, and its run counted, when this one has ended.
            return self._planned(step, course, now, budget) if is_skipped else None
        if course.remaining == 1 and not is_skipped:
            return step._replace(status="ended", note="all its executions have been started")
        return self._planned(step, course, now, budget, after=at)

    # -- settling ------------------------------------------------------------------------------------------------------

    def settle(
        self,
        connection: Connection,
        tick: claims.TickRow,
        outcomes: Sequence[claims.Outcome],
        *,
        running: Collection[UUID] | None,
        announcement: int = 0,
    ) -> claims.Settled:
        """Settle as `claims.settle` does, and take the step of every schedule that waited for an outcome.

        Raises:
            psycopg.errors.LockNotAvailable: Another transaction keeps a row locked; nothing was written.
            psycopg.Error: The database refuses a value; nothing was written.
        """
        recurring = {one.action_id: one.schedule_id for one in outcomes if one.schedule_id is not None}
        if not recurring:
            return claims.settle(connection, tick, outcomes, running=running, announcement=announcement)
        with connection.transaction():
            # Schedules are locked before actions wherever both are: nobody waits in a circle.
            watching = store.lock_those_that_watch(connection, set(recurring.values()), recurring)
            settled = claims.settle(connection, tick, outcomes, running=running, announcement=announcement)
            self._conclude(connection, watching, recurring, settled.statuses)
        return settled

    def settle_alone(self, connection: Connection, tick: claims.TickRow, outcome: claims.Outcome) -> claims.Settled:
        """Settle one outcome, then take the step of its schedule, which undoes nothing where it is refused.

        For an outcome that was refused together with others: a schedule that is locked was waited for then.
        """
        settled = claims.settle(connection, tick, [outcome], running=None)
        if outcome.schedule_id is not None:
            self._conclude_each(connection, {outcome.action_id: outcome.schedule_id}, settled.statuses)
        return settled

    def conclude_each(
        self, connection: Connection, schedule_ids: Mapping[UUID, UUID], statuses: Mapping[UUID, Status]
    ) -> None:
        """Take the steps as `conclude` does; a schedule whose step is refused is paused, one that is locked put off.

        The sweep plans what was put off. However many are locked, they are waited for once.
        """
        contain(
            partial(self.conclude, connection, schedule_ids, statuses),
            lambda _: self._conclude_each(connection, schedule_ids, statuses),
        )

    def _conclude_each(
        self, connection: Connection, schedule_ids: Mapping[UUID, UUID], statuses: Mapping[UUID, Status]
    ) -> None:
        """Take each step on its own; hardly wait for a schedule that is locked."""
        for action_id, schedule_id in schedule_ids.items():
            contain(
                partial(self.conclude, connection, {action_id: schedule_id}, statuses, patience_ms=_HARDLY_MS),
                lambda error, schedule_id=schedule_id: self._refused(connection, schedule_id, error),  # type: ignore[misc]  # mypy cannot infer a lambda's default
            )

    def _refused(self, connection: Connection, schedule_id: UUID, error: BaseException) -> bool:
        """Pause a schedule whose step was refused, with the reason; return whether it was changed."""
        reason = reason_of(error)
        if isinstance(error, LATER):
            log.info("schedules.put_off id=%s error=%s", schedule_id, reason)
            return False
        log.warning("schedule.refused id=%s error=%s", schedule_id, reason)
        step = store.Step(schedule_id, status="paused", note=settlement.clean(f"its next step was refused: {reason}"))

        def unwritten(refusal: BaseException) -> bool:
            log.error("schedule.unwritten id=%s error=%s", schedule_id, reason_of(refusal))
            return False

        return contain(partial(self._write_pause, connection, step), unwritten)

    @staticmethod
    def _write_pause(connection: Connection, step: store.Step) -> bool:
        with connection.transaction():
            store.lock(connection, [step.schedule_id])
            # Nothing of a paused schedule is waiting.
            store.drop_planned(connection, step.schedule_id)
            store.advance(connection, [step])
        return True

    def conclude(
        self,
        connection: Connection,
        schedule_ids: Mapping[UUID, UUID],
        statuses: Mapping[UUID, Status],
        *,
        patience_ms: str | None = None,
    ) -> None:
        """Take the step of every schedule that waited for one of these actions, which have been settled before.

        Args:
            connection: In a transaction or not.
            schedule_ids: By action.
            statuses: In which each action ended, by action.
            patience_ms: How long the transaction waits for a lock, in milliseconds; None: as the connection does.
        """
        with connection.transaction():
            if patience_ms is not None:
                wait_shortly(connection, patience_ms)
            watching = store.lock_those_that_watch(connection, set(schedule_ids.values()), schedule_ids)
            self._conclude(connection, watching, schedule_ids, statuses)

    def _conclude(
        self,
        connection: Connection,
        watching: Sequence[store.Found],
        schedule_ids: Mapping[UUID, UUID],
        statuses: Mapping[UUID, Status],
    ) -> None:
        steps: list[store.Step] = []
        budget = _budget_of_a_transaction()
        for schedule, now in watching:
            ended = {
                action_id: status
                for action_id, status in statuses.items()
                if schedule_ids.get(action_id) == schedule.id and status in _CONCLUDED
            }
            if ended:
                steps += self._steps_at_end(connection, schedule, now, ended, budget)
        self._advance(connection, steps)

    def _steps_at_end(
        self,
        connection: Connection,
        schedule: Schedule,
        now: datetime,
        ended: Mapping[UUID, Status],
        budget: EvaluationBudget,
    ) -> list[store.Step]:
        failures = schedule.consecutive_failures
        for status in ended.values():
            if status is Status.COMPLETED:
                failures = 0
            elif status is Status.FAILED:
                failures = min(failures + 1, _COUNTED_MOST)
        step = store.Step(schedule_id=schedule.id, failures=failures, keeps_pointer=True)
        if schedule.status != "active":
            # Of a rolling one that was paused while it ran, the run still counts.
            ran = sum(status in _RAN for status in ended.values()) if schedule.recurrence_type == "rolling" else 0
            return [step._replace(executed=ran)]
        pointed = ended.get(schedule.next_action_id) if schedule.next_action_id else None
        if pointed is not None:
            step = _past(step, schedule, pointed)
        if schedule.pause_after_failures is not None and failures >= schedule.pause_after_failures:
            store.drop_planned(connection, schedule.id)
            note = f"paused after {failures} final failures in a row"
            log.warning("schedule.paused id=%s action_type=%s failures=%d", schedule.id, schedule.action_type, failures)
            return [step._replace(keeps_pointer=False, status="paused", note=note)]
        if pointed is None:
            return [step]
        if schedule.remaining is not None and schedule.remaining <= step.executed:
            return [step._replace(status="ended", note="all its executions have been started")]
        return [self._planned(step, schedule, now, budget, after=schedule.next_occurrence_at)]

    # -- mending -------------------------------------------------------------------------------------------------------

    def sweep(self, connection: Connection, *, every_seconds: float = SWEEP_SECONDS) -> int:
        """Plan an occurrence for every live schedule that has none; return how many were mended.

        Nothing is done when another sweep ran within `every_seconds`.
        """
        if not store.is_due_for_a_sweep(connection, every_seconds=every_seconds):
            return 0
        mended, after = 0, None
        while True:
            met = contain(
                partial(self._mend, connection, after=after), partial(self._mend_each, connection, after=after)
            )
            mended += len(met)
            if len(met) < _BITE:
                return mended
            # Those that are planned after the commit, or that a refusal leaves, are met once.
            after = met[-1]

    def _mend(
        self, connection: Connection, schedule_id: UUID | None = None, *, after: UUID | None = None
    ) -> list[UUID]:
        """Plan an occurrence for schedules that have none, at most a bite of them; return their ids in order."""
        with connection.transaction():
            broken = store.broken(connection, limit=_BITE, schedule_id=schedule_id, after=after)
            budget = _budget_of_a_transaction()
            steps = [self._mended(schedule, now, budget) for schedule, now in broken]
            self._advance(connection, steps)
        for schedule, _ in broken:
            log.warning("schedule.mended id=%s action_type=%s", schedule.id, schedule.action_type)
        return [schedule.id for schedule, _ in broken]

    def _mend_each(self, connection: Connection, error: BaseException, *, after: UUID | None) -> list[UUID]:
        """Plan the occurrence of each schedule on its own; pause those where that is refused."""
        log.warning("schedules.refused error=%s", reason_of(error))
        with connection.transaction():
            ids = [schedule.id for schedule, _ in store.broken(connection, limit=_BITE, after=after)]
        for schedule_id in ids:
            contain(partial(self._is_mended, connection, schedule_id), partial(self._refused, connection, schedule_id))
        return ids

    def _is_mended(self, connection: Connection, schedule_id: UUID) -> bool:
        return bool(self._mend(connection, schedule_id))

    def _mended(self, schedule: Schedule, now: datetime, budget: EvaluationBudget) -> store.Step:
        after = schedule.next_occurrence_at or schedule.last_occurrence_at
        # Of one that is planned after the commit, what the pointer names has had its turn.
        is_past = bool(project_functions(schedule)) and schedule.next_occurrence_at is not None
        return self._planned(store.Step(schedule_id=schedule.id, is_past=is_past), schedule, now, budget, after=after)

    # -- planning outside of transactions ------------------------------------------------------------------------------

    def _leave(self, schedule: Course | Schedule, functions: tuple[str, ...], *, is_explicit: bool = False) -> None:
        """Leave a schedule unplanned in a transaction: its functions are called after the commit."""
        self._add_unplanned(threading.get_ident(), [Unplanned(schedule.id, functions, is_explicit)])

    def _add_unplanned(self, thread: int | None, left: Iterable[Unplanned]) -> None:
        with self._lock:
            self._unplanned.setdefault(thread, deque(maxlen=_UNPLANNED_MOST)).extend(left)

    def _take_unplanned(self, thread: int | None) -> Collection[Unplanned]:
        with self._lock:
            return self._unplanned.pop(thread, ())

    def release_unplanned(self) -> None:
        """Let any thread plan what this thread's transactions have left: they have ended.

        Before their end another thread would find their schedules locked, or not there yet.
        """
        if left := self._take_unplanned(threading.get_ident()):
            self._add_unplanned(None, left)

    def take_released(self) -> Collection[Unplanned]:
        """Return, once each, the schedules that may be planned by any thread."""
        return self._take_unplanned(None)

    def plan_left(self) -> None:
        """Plan what this thread's transactions have left, within the time of one planning; nothing is raised."""
        with all_within(PLANNING_CALLS * self._registry.calls.timeout_seconds):
            for left in self._take_unplanned(threading.get_ident()):
                self.plan_outside(left)

    def plan_outside(self, left: Unplanned) -> None:
        """Plan a schedule that was left unplanned; nothing is raised.

        One whose step is refused is paused with the reason. One that cannot be reached is left to the sweep.
        """
        try:
            contain(
                partial(self._plan_outside, left.schedule_id, is_explicit=left.is_explicit),
                partial(self._refused_outside, left.schedule_id),
            )
        except (psycopg.Error, ScheduledActionsError) as error:
            log.warning("schedule.unplanned id=%s error=%s", left.schedule_id, reason_of(error))

    def _refused_outside(self, schedule_id: UUID, error: BaseException) -> None:
        with self._database.connection() as connection:
            self._refused(connection, schedule_id, error)

    def _plan_outside(self, schedule_id: UUID, *, is_explicit: bool) -> None:
        """Plan the next occurrence of an active schedule that has none, calling its functions under no lock.

        The answer is written only while the schedule is as it was read. A function that outlives its time limit defers
        the series: the reason is stored, and the next sweep plans it.

        Raises:
            psycopg.errors.LockNotAvailable: Another transaction keeps the schedule locked; the next sweep plans it.
        """
        after = None
        for _ in range(_COLLISIONS_MOST):
            found = self._read_patiently(schedule_id)
            if found is None or found.schedule.status != "active" or found.schedule.next_action_id is not None:
                return
            try:
                step = self._found_outside(*found, after=after, is_explicit=is_explicit)
            except FunctionTimedOut as error:
                log.warning("schedule.deferred id=%s error=%s", schedule_id, error)
                note = f"the next occurrence is not planned yet: {error}; it is tried again every {SWEEP_SECONDS:g} s"
                step = store.Step(schedule_id, status="active", note=note, keeps_pointer=True)
            is_written, after = self._write_outside(found.schedule, step), step.occurrence_at
            if is_written:
                return

    def _read_patiently(self, schedule_id: UUID) -> store.Found | None:
        """Read a schedule as the last transaction left it: one that commits at this moment is waited for."""
        with self._database.connection() as connection, connection.transaction():
            wait_shortly(connection)
            return next(iter(store.lock(connection, [schedule_id])), None)

    def _found_outside(
        self, schedule: Schedule, now: datetime, *, after: datetime | None, is_explicit: bool
    ) -> store.Step:
        # A note on an active schedule is that of a planning that was deferred.
        status = "active" if schedule.status_note else None
        step = store.Step(schedule.id, status=status)
        last = None if is_explicit else schedule.last_occurrence_at
        find = self._finder(schedule, now, last, is_explicit=is_explicit)
        if after is not None:
            # The wanted occurrence had been created before.
            find = lambda rule: series.Next(series.instant(rule.next_after(after)))  # noqa: E731 - one of two finders
        has_begun = schedule.recurrence_type == "rolling" and schedule.last_action_id is not None
        with all_within(PLANNING_CALLS * self._registry.calls.timeout_seconds):
            return self._tried(step._replace(is_past=has_begun), schedule, now, find)._replace(is_past=False)

    def _write_outside(self, schedule: Schedule, step: store.Step) -> bool:
        """Write a step of a schedule that is as it was read; False where its occurrence had been created before.

        Raises:
            psycopg.errors.LockNotAvailable: Another transaction keeps it locked.
        """
        with self._database.connection() as connection, connection.transaction() as transaction:
            wait_shortly(connection)
            found = next(iter(store.lock(connection, [schedule.id])), None)
            if found is None or not is_planned_alike(found.schedule, schedule):
                return True
            if store.advance(connection, [step]):
                raise psycopg.Rollback(transaction)
            return True
        return False

    # -- planning ------------------------------------------------------------------------------------------------------

    def plan(
        self,
        connection: Connection,
        schedule: Schedule,
        now: datetime,
        *,
        is_explicit: bool = False,
        may_leave: bool = False,
    ) -> None:
        """Plan an occurrence of a schedule that has none planned; without one to come, it has ended.

        Args:
            connection: In the transaction that locked the schedule.
            schedule: As it stands in the table.
            now: The database's.
            is_explicit: Its start was named in this very call: it may be a moment ago.
            may_leave: `plan_left` is called after the commit: functions of the project need not be called before it.
        """
        functions = project_functions(schedule)
        if functions and may_leave:
            self._leave(schedule, functions, is_explicit=is_explicit)
            return
        found = self._tried(
            store.Step(schedule_id=schedule.id),
            schedule,
            now,
            lambda rule: series.Next(_first(schedule, rule, now, is_explicit=is_explicit)),
        )
        self._advance(connection, [found])

    def _planned(
        self,
        step: store.Step,
        schedule: Course | Schedule,
        now: datetime,
        budget: EvaluationBudget,
        *,
        after: datetime | None = None,
    ) -> store.Step:
        """Return the step with the next occurrence: counted from now if it is rolling, else as its policies have it.

        A rule that calls functions of the project, or takes more steps than the budget of a transaction has for it, is
        left to be planned after the commit.
        """
        functions = project_functions(schedule)
        if not functions:
            try:
                return self._tried(step, schedule, now, self._finder(schedule, now, after), budget=_part(budget))
            except BudgetExceeded:
                log.info("schedule.left id=%s action_type=%s", schedule.id, schedule.action_type)
        self._leave(schedule, functions)
        return step

    def _finder(
        self, schedule: Course | Schedule, now: datetime, after: datetime | None, *, is_explicit: bool = False
    ) -> Callable[[Recurrence], series.Next]:
        """Return what finds the next occurrence: counted from now if it is rolling, else as its policies say."""
        if schedule.recurrence_type == "rolling" or after is None:
            return lambda rule: series.Next(_first(schedule, rule, now, is_explicit=is_explicit))
        selected_at, selected_until = self._selected.get(schedule.id, (None, None))
        if selected_at != after:
            selected_until = None

        def find(rule: Recurrence) -> series.Next:
            found = series.following(schedule, rule, after=after, now=now, selected_until=selected_until)
            if found.at is not None and found.selected_until is not None:
                self._selected[schedule.id] = (found.at, found.selected_until)
            else:
                self._selected.pop(schedule.id, None)
            return found

        return find

    def _tried(
        self,
        step: store.Step,
        schedule: Course | Schedule,
        now: datetime,
        find: Callable[[Recurrence], series.Next],
        *,
        budget: EvaluationBudget | None = None,
    ) -> store.Step:
        """Return the step with what `find` found; a rule that cannot be followed pauses its schedule, and no other.

        Raises:
            BudgetExceeded: There is not enough of a budget that was given; one of its own pauses the schedule.
            FunctionTimedOut: A function of the project outlived its time limit.
        """
        # Its first run is at its start; from then on the interval counts from the end of the run before.
        has_begun = schedule.recurrence_type == "rolling" and step.is_past
        is_counted_from_now = has_begun and schedule.kind == "interval"
        try:
            rule = self.rule_of(
                schedule,
                anchor=now if is_counted_from_now else None,
                budget=budget or EvaluationBudget("the recurrence"),
            )
            found = find(rule)
            due_at = self.put_off(schedule, found.at) if found.at is not None and schedule.jitter_seconds else None
        except FunctionTimedOut:
            raise
        except CONTAINED as error:
            if concerns_all(error) or (isinstance(error, BudgetExceeded) and budget is not None):
                raise
            reason = str(error) if isinstance(error, ScheduledActionsError) else reason_of(error)
            log.warning("schedule.broken id=%s action_type=%s error=%s", schedule.id, schedule.action_type, reason)
            note = settlement.clean(f"the next occurrence could not be found: {reason}")
            return step._replace(status="paused", note=note)
        if found.at is None:
            return step._replace(missed=found.missed, status="ended", note="its rule names no further occurrence")
        return step._replace(missed=found.missed, occurrence_at=found.at, scheduled_at=due_at)

    @staticmethod
    def put_off(schedule: Course | Schedule, at: datetime) -> datetime:
        """Return when an occurrence comes due: its instant and its own share of the jitter."""
        if not schedule.jitter_seconds:
            return at
        from scheduled_actions.recurrence import jittered  # noqa: PLC0415 - a cold tick does without

        return jittered(at, key=str(schedule.id), seconds=schedule.jitter_seconds)

    def _advance(self, connection: Connection, steps: Sequence[store.Step]) -> None:
        """Write steps; where the wanted occurrence had been created before, plan the one after it."""
        wanted = {step.schedule_id: step for step in steps}
        budget = _budget_of_a_transaction()
        for _ in range(_COLLISIONS_MOST):
            if not wanted:
                return
            collided = store.advance(connection, list(wanted.values()))
            found = {one.schedule.id: one for one in store.lock(connection, collided)} if collided else {}
            wanted = {
                schedule_id: self._planned_after(found[schedule_id], wanted[schedule_id], budget)
                for schedule_id in collided
            }

    def _planned_after(self, found: store.Found, collided: store.Step, budget: EvaluationBudget) -> store.Step:
        after = collided.occurrence_at
        step = store.Step(schedule_id=collided.schedule_id)
        functions = project_functions(found.schedule)
        if not functions:
            with suppress(BudgetExceeded):
                return self._tried(
                    step,
                    found.schedule,
                    found.now,
                    lambda rule: series.Next(None if after is None else series.instant(rule.next_after(after))),
                    budget=_part(budget),
                )
        self._leave(found.schedule, functions)
        return step

    def next_of(self, schedule_id: UUID, after: datetime) -> datetime | None:
        """Return the rule's next instant after an occurrence, for a handler that asks; None when there is none."""
        with self._database.connection() as connection:
            found = store.get(connection, schedule_id=schedule_id)
        return None if found is None else series.instant(self.rule_of(found.schedule).next_after(after))


def _skips(skip: Mapping[str, Any] | None, budget: EvaluationBudget | None) -> Skips | None:
    """Return what a schedule skips, having spent what reading its lists takes."""
    if skip is None:
        return None
    if budget is not None:
        budget.spend(sum(len(part) for part in skip.values() if isinstance(part, list)) // _ENTRIES_A_STEP)
    from scheduled_actions.recurrence import Skips  # noqa: PLC0415 - a cold tick does without

    return Skips.parse(skip)


def _budget_of_a_transaction() -> EvaluationBudget:
    """Return the budget of all that one transaction plans, which holds locks for as long as that takes."""
    return EvaluationBudget("the recurrences of one transaction", steps=_TRANSACTION_STEPS)


def _part(budget: EvaluationBudget) -> EvaluationBudget:
    """Return what one schedule may use of the budget of a transaction."""
    return EvaluationBudget("the recurrence", steps=_TRANSACTION_STEPS // 10, within=budget)


def _past(step: store.Step, schedule: Schedule, status: Status) -> store.Step:
    """Return the step with the end of the planned occurrence itself: of a fixed schedule nobody had started it."""
    has_run = schedule.recurrence_type == "rolling" and status in _RAN
    return step._replace(keeps_pointer=False, is_past=True, executed=int(has_run), skipped=int(not has_run))


def _ends_alone(taken: store.Taken, step: store.Step) -> bool:
    """Whether nothing has to be done about its series when this occurrence ends."""
    course, due_at = taken.course, step.due_at
    if course.recurrence_type == "rolling" or course.pause_after_failures is not None:
        return False
    if step.occurrence_at is None and step.status is None:
        # What comes next is found after the commit, and may be due already.
        return False
    # One that is due already may be claimed beside it, and put back until it has ended.
    return due_at is None or due_at > taken.now


def _first(
    schedule: Course | Schedule, rule: Recurrence, now: datetime, *, is_explicit: bool = False
) -> datetime | None:
    return series.first(rule, anchor=schedule.anchor_at, is_explicit=is_explicit, now=now)
