"""Measure CPU time, WAL bytes and statements, and divide those of a tick into its steps.

The only module here that depends on internals: the functions of psycopg through which every statement passes, and the
SQL that identifies a claim and a settlement.
"""

from __future__ import annotations

import gc
import re
import threading
import time
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import _cursor_base, generators
from psycopg.pq import TransactionStatus

from benchmarks.harness import WrongResultError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from types import TracebackType
    from typing import Self

    from psycopg.pq.abc import PGconn, PGresult

#: The parts of a tick. `OTHER`: looking for work, the tick's row, waits and wake-ups, counting what remains.
CLAIM, RUN, SETTLE, OTHER = "claim", "run", "settle", "rest of the tick"
#: Only the workers of executors take actions over.
TAKE_OVER = "take over"
#: A transaction on the tick's own thread belongs to the first step whose pattern one of its statements matches.
_PATTERNS = {
    CLAIM: re.compile(
        rb"'processing'.*,\s+claim_token = (\$|case)|insert into scheduled_action_holds|scheduled_actions_claim_free\("
        # The search of a worker in the queue of its executor.
        rb"|select e\.type_patterns, e\.is_returning"
    ),
    # Both statements: reading the rows of tickets, and taking the actions over.
    TAKE_OVER: re.compile(rb"\) t \(id, token|with ordinality t \(id, token"),
    # Also announcements without outcomes, as after transactional handlers.
    SETTLE: re.compile(rb"claim_token = null|scheduled_actions_complete\(|scheduled_action_ticks t\s+set\s+running = "),
}
#: Command tags of transaction control.
_CONTROL = frozenset({b"BEGIN", b"COMMIT", b"ROLLBACK", b"SAVEPOINT", b"RELEASE"})
#: A step that is not divided.
_WHOLE = "whole"
_LSN = "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"

_execute: Callable[[PGconn], Generator[Any, Any, list[PGresult]]] = generators.execute


@dataclass(slots=True)
class Cost:
    """Total cost of a step."""

    #: CPU seconds of this process, and of the server's backends that ran its statements.
    process: float = 0.0
    postgres: float = 0.0
    #: WAL bytes; None if they were not attributed to this step.
    wal: int | None = None
    #: Commands that the server executed, without and only those of transaction control.
    statements: int = 0
    control: int = 0
    #: Requests to the server whose response was awaited.
    round_trips: int = 0

    def add(self, other: Cost) -> None:
        """Add the cost of another step."""
        self.process += other.process
        self.postgres += other.postgres
        self.statements += other.statements
        self.control += other.control
        self.round_trips += other.round_trips
        if other.wal is not None:
            self.wal = (self.wal or 0) + other.wal


@dataclass(slots=True)
class _Transaction:
    """A running transaction, or a running statement outside of one."""

    wal_before: int = 0
    texts: list[bytes] = field(default_factory=list)
    cost: Cost = field(default_factory=Cost)


class Meter:
    """Measure every statement of this process on one database while the meter is entered; one meter at a time.

    CPU time of this process includes all its threads. During a tick, the time of other threads than the caller's is
    that of the handlers (`RUN`). The time of the tick's own thread is divided at the ends of its transactions: the
    time before a transaction counts towards the transaction's step.

    CPU time of the server is that of the backends that ran the statements, read from their CPU clocks (nanoseconds);
    other processes of the server (WAL writer, checkpointer) are not included.

    Args:
        dsn: DSN of the measured database.
        attributes_wal: Attribute WAL bytes to the steps of ticks. Transactions then run one at a time, and the WAL
            position is read before and after each of them; CPU times are not valid in this mode.
    """

    def __init__(self, dsn: str, *, attributes_wal: bool) -> None:
        self._attributes_wal = attributes_wal
        self._database = str(psycopg.conninfo.conninfo_to_dict(dsn)["dbname"]).encode()
        #: Reads the WAL position; not measured itself.
        self._own = psycopg.connect(dsn, autocommit=True)
        self._own_pid = self._own.info.backend_pid
        self._lock = threading.Lock()
        #: Held during a transaction if WAL bytes are attributed.
        self._serial = threading.RLock()
        self._local = threading.local()
        #: Running transactions by backend.
        self._open: dict[int, _Transaction] = {}
        #: The last CPU clock value of each backend, and the step to which its time is charged from then on.
        self._clocks: dict[int, tuple[float, str]] = {}
        self._costs: defaultdict[str, Cost] = defaultdict(Cost)
        self._step: str | None = None
        self._tick_thread = 0
        self._thread_seconds = 0.0
        self._is_measuring = False
        #: Whether the CPU clocks of backends can be read.
        self.sees_backends = self._is_readable(self._own_pid)

    def __enter__(self) -> Self:
        original = _cursor_base.BaseCursor._execute_send  # noqa: SLF001 - see the module
        self._original_send = original

        def send(cursor: Any, query: Any, **options: Any) -> None:  # noqa: ANN401 - psycopg's own
            # Before the query is sent, because the server starts immediately.
            transaction = self._begun(cursor.connection.pgconn)
            self._local.text = query.query
            try:
                original(cursor, query, **options)
            except BaseException:
                if transaction is not None and not transaction.texts:
                    self._ended(cursor.connection.pgconn.backend_pid, transaction)
                raise

        _cursor_base.BaseCursor._execute_send = send  # type: ignore[assignment,method-assign]  # noqa: SLF001 - see the module
        _cursor_base.execute = generators.execute = self._measured  # type: ignore[attr-defined]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _cursor_base.BaseCursor._execute_send = self._original_send  # type: ignore[method-assign]  # noqa: SLF001 - see the module
        _cursor_base.execute = generators.execute = _execute  # type: ignore[attr-defined]
        self._own.close()
        gc.unfreeze()

    @contextmanager
    def step(self) -> Iterator[Cost]:
        """Measure the block as one step; the yielded cost is complete at the end of the block."""
        with self._window(_WHOLE) as (_, total):
            yield total

    @contextmanager
    def ticks(self) -> Iterator[tuple[dict[str, Cost], Cost]]:
        """Measure the block as ticks of this thread; yield the costs by step, and their total."""
        with self._window(None) as measured:
            yield measured

    @contextmanager
    def _window(self, step: str | None) -> Iterator[tuple[dict[str, Cost], Cost]]:
        """Measure the block as one step, or as ticks if it is None."""
        # Exclude existing objects from garbage collection, so that its cost depends only on the measured work.
        gc.collect()
        gc.freeze()
        self._step, self._tick_thread = step, threading.get_ident()
        costs: defaultdict[str, Cost] = defaultdict(Cost)
        self._costs = costs
        total = Cost()
        self._clocks = {pid: (self._clock(pid), step or OTHER) for pid in self._clocks if self._is_readable(pid)}
        wal = self._position()
        self._is_measuring = True
        process, own = time.process_time(), time.thread_time()
        self._thread_seconds = own
        try:
            yield costs, total
        finally:
            process, until = time.process_time() - process, time.thread_time()
            self._is_measuring = False
        costs[step or OTHER].process += until - self._thread_seconds
        costs[step or RUN].process += process - (until - own)
        for pid in self._clocks:
            self._charge(pid)
        wal = self._position() - wal
        if self._attributes_wal and step is None:
            costs[OTHER].add(Cost(wal=wal - sum(cost.wal or 0 for cost in costs.values())))
        for cost in costs.values():
            total.add(cost)
        total.wal = wal

    def _position(self) -> int:
        """Return the WAL position in bytes."""
        row = self._own.execute(_LSN).fetchone()
        assert row is not None  # a select without a table has one row
        return int(row[0])

    # -- statements ------------------------------------------------------------------------------------------------

    def _measured(self, pgconn: PGconn) -> Generator[Any, Any, list[PGresult]]:
        """Replace psycopg's `execute`, which sends one request and awaits its results, and count it."""
        text, self._local.text = getattr(self._local, "text", b""), b""
        transaction = self._begun(pgconn)
        if transaction is None:
            return (yield from _execute(pgconn))
        results: list[PGresult] = []
        try:
            results = yield from _execute(pgconn)
        finally:
            transaction.texts.append(text)
            cost = transaction.cost
            cost.round_trips += 1
            control = sum((result.command_status or b"").split(b" ")[0] in _CONTROL for result in results)
            cost.control += control
            cost.statements += len(results) - control
            if pgconn.transaction_status not in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
                self._ended(pgconn.backend_pid, transaction)
        return results

    def _begun(self, pgconn: PGconn) -> _Transaction | None:
        """Return the running or a new transaction of a connection; None if it is not measured."""
        pid = pgconn.backend_pid
        if pid == self._own_pid or pgconn.db != self._database:
            return None
        if not self._is_measuring:
            # The clock is read when the measurement begins.
            self._clocks.setdefault(pid, (0.0, OTHER))
            return None
        transaction = self._open.get(pid)
        if transaction is None:
            transaction = self._open[pid] = _Transaction()
            if self._attributes_wal:
                self._serial.acquire()
                transaction.wal_before = self._position()
            with self._lock:
                self._charge(pid)
        return transaction

    def _ended(self, pid: int, transaction: _Transaction) -> None:
        """Add the cost of a transaction to its step."""
        del self._open[pid]
        cost = transaction.cost
        if self._attributes_wal:
            cost.wal = self._position() - transaction.wal_before
            self._serial.release()
        is_ticks_own = threading.get_ident() == self._tick_thread
        step = self._step or (_step_of(transaction.texts) if is_ticks_own else RUN)
        with self._lock:
            if is_ticks_own:
                now = time.thread_time()
                cost.process, self._thread_seconds = now - self._thread_seconds, now
            since, _ = self._clocks.get(pid, (0.0, step))
            self._clocks[pid] = (since, step)
            self._charge(pid)
            self._costs[step].add(cost)

    # -- the CPU time of backends ----------------------------------------------------------------------------------

    def _charge(self, pid: int) -> None:
        """Charge the CPU time of a backend since its clock was last read."""
        if not self.sees_backends:
            return
        since, step = self._clocks.get(pid, (0.0, self._step or OTHER))
        try:
            now = self._clock(pid)
        except OSError:  # The connection is closed; the clock was read at the end of its last transaction.
            return
        self._costs[step].postgres += now - since
        self._clocks[pid] = (now, step)

    def _is_readable(self, pid: int) -> bool:
        """Return whether `pid` is a backend of the measured database on this machine, with a CPU clock."""
        try:
            self._clock(pid)
            title = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False
        return self._database in title

    @staticmethod
    def _clock(pid: int) -> float:
        """Return the CPU seconds of a process, including kernel time (Linux: see clock_getcpuclockid(3))."""
        return time.clock_gettime(~pid << 3 | 2)


def check_steps(costs: dict[str, Cost], steps: Iterable[str] = (CLAIM, SETTLE)) -> None:
    """Check that claims and settlements, or other steps, were recognised.

    Raises:
        WrongResultError: No statement matched a pattern; update `_PATTERNS` after changing the SQL.
    """
    for step in steps:
        if not costs[step].statements:
            raise WrongResultError(f"statements recognised as {step}", found=0, expected="some")


def _step_of(texts: list[bytes]) -> str:
    return next((step for step, pattern in _PATTERNS.items() if any(map(pattern.search, texts))), OTHER)
