"""The measured queues and their configurations: what their own documentation recommends for short jobs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A queue other than this package."""

    name: str
    #: The packages to install, the queue itself first; requirements.txt and package.json have their versions.
    packages: tuple[str, ...]
    runs_on: Literal["python", "node"]
    #: The module in this folder that drives it.
    module: str
    #: Number of worker processes: the fastest of one, two and four on two cores (`--tune`).
    fastest: int
    #: Query that is true while any job is unfinished.
    is_unfinished: str
    #: Settings, and how a job is completed, for the report.
    configuration: str
    completion: str
    #: Whether one process of the module starts the worker processes.
    has_pool: bool = False
    #: Whether a Redis server is needed; the module finds its URL in `PEER_REDIS_URL`.
    needs_redis: bool = False

    @property
    def package(self) -> str:
        """The package of the queue itself."""
        return self.packages[0]


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
        packages=("pgqueuer", "asyncpg", "uvloop"),
        runs_on="python",
        module="drain_pgqueuer",
        fastest=2,
        is_unfinished="select exists (select from pgqueuer)",
        configuration="batch_size=500, AsyncpgPoolDriver, uvloop, `pgq autovac`, durability=durable (its default)",
        completion="moved to its log, in batches",
    ),
    Peer(
        name="procrastinate",
        packages=("procrastinate", "psycopg-binary", "psycopg-pool"),
        runs_on="python",
        module="drain_procrastinate",
        fastest=2,
        is_unfinished="select exists (select from procrastinate_jobs where status in ('todo', 'doing'))",
        configuration="concurrency=10, async task, psycopg pool of 20",
        completion="row marked succeeded, one by one",
    ),
    Peer(
        name="huey",
        packages=("huey", "psycopg-binary"),
        runs_on="python",
        module="drain_huey",
        fastest=2,
        is_unfinished="select exists (select from huey_task)",
        configuration="PostgresHuey, 8 threads a process",
        completion="row deleted before the job runs (at most once), one by one",
    ),
    Peer(
        name="graphile-worker",
        packages=("graphile-worker", "pg"),
        runs_on="node",
        module="drain_graphile_worker",
        fastest=1,
        is_unfinished="select exists (select from graphile_worker._private_jobs)",
        configuration="concurrentJobs=24, localQueue.size=500, completeJobBatchDelay=0",
        completion="row deleted, in batches",
    ),
    Peer(
        name="pg-boss",
        packages=("pg-boss",),
        runs_on="node",
        module="drain_pg_boss",
        fastest=1,
        is_unfinished="select exists (select from pgboss.job where name = 'noop' and state < 'completed')",
        configuration="batchSize=1000, localConcurrency=2, burstWhenBatchFull; one handler call a batch",
        completion="row marked completed, a batch at once",
    ),
    Peer(
        name="celery",
        packages=("celery", "redis", "hiredis", "sqlalchemy", "psycopg-binary"),
        runs_on="python",
        module="drain_celery",
        fastest=4,
        has_pool=True,
        needs_redis=True,
        # The sequence makes the check cheap; the rows are counted only when it has reached the number of jobs.
        is_unfinished="""
            select case
                when (select last_value from task_id_sequence) < (select sum(count) from expected) then true
                else (select count(*) from celery_taskmeta where status = 'SUCCESS') < (select sum(count) from expected)
            end
        """,
        configuration="jobs in Redis (no durable writes), results in Postgres, prefork pool, "
        "worker_prefetch_multiplier=128, pool_pre_ping=False",
        completion="result row inserted and updated, one by one; acknowledged before the job runs (at most once)",
    ),
)
