"""The measured queues and their configurations: what their own documentation recommends for short jobs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A queue other than this package."""

    name: str
    package: str
    runs_on: Literal["python", "node"]
    #: The module in this folder that drives it.
    module: str
    #: Number of worker processes: the fastest of one, two and four on two cores (`--tune`).
    processes: int
    #: Query that is true while any job is unfinished.
    is_unfinished: str
    #: Settings, and how a job is completed, for the report.
    configuration: str
    completion: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ours:
    """One configuration of this package."""

    name: str
    #: gunicorn workers, each with a pinger; 0: ticks in the benchmark's process, without HTTP.
    processes: int
    settings: dict[str, object] = field(default_factory=dict)


#: Setting for a deployment without a pooler: prepared statements, and by default larger batches.
_TUNED: dict[str, object] = {"database_direct": True}
OURS = (
    Ours(name="ours, HTTP, 2 workers", processes=2),
    Ours(name="ours, HTTP, 2 workers, tuned", processes=2, settings=_TUNED),
    Ours(name="ours, HTTP, 1 worker", processes=1),
    Ours(name="ours, in process", processes=0),
)
PEERS = (
    Peer(
        name="pgqueuer",
        package="pgqueuer",
        runs_on="python",
        module="drain_pgqueuer",
        processes=2,
        is_unfinished="select exists (select from pgqueuer)",
        configuration="batch_size=500, AsyncpgPoolDriver, uvloop, `pgq autovac`, durability=durable (its default)",
        completion="moved to its log, in batches",
    ),
    Peer(
        name="procrastinate",
        package="procrastinate",
        runs_on="python",
        module="drain_procrastinate",
        processes=2,
        is_unfinished="select exists (select from procrastinate_jobs where status in ('todo', 'doing'))",
        configuration="concurrency=10, async task, psycopg pool of 20",
        completion="row marked succeeded, one by one",
    ),
    Peer(
        name="huey",
        package="huey",
        runs_on="python",
        module="drain_huey",
        processes=2,
        is_unfinished="select exists (select from huey_task)",
        configuration="PostgresHuey, 8 threads a process",
        completion="row deleted before the job runs (at most once), one by one",
    ),
    Peer(
        name="graphile-worker",
        package="graphile-worker",
        runs_on="node",
        module="drain_graphile_worker",
        processes=1,
        is_unfinished="select exists (select from graphile_worker._private_jobs)",
        configuration="concurrentJobs=24, localQueue.size=500, completeJobBatchDelay=0",
        completion="row deleted, in batches",
    ),
    Peer(
        name="pg-boss",
        package="pg-boss",
        runs_on="node",
        module="drain_pg_boss",
        processes=1,
        is_unfinished="select exists (select from pgboss.job where name = 'noop' and state < 'completed')",
        configuration="batchSize=1000, localConcurrency=2, burstWhenBatchFull; one handler call a batch",
        completion="row marked completed, a batch at once",
    ),
)
