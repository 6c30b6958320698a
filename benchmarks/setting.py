"""Describe the machine, versions and settings of a run."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

import scheduled_actions
from scheduled_actions.core.config import Settings

if TYPE_CHECKING:
    from benchmarks.databases import Databases

#: Server settings that affect the results, above all the cost of a commit.
_SERVER_SETTINGS = (
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "wal_level",
    "shared_buffers",
    "max_wal_size",
    "autovacuum",
    "jit",
)


def setting_of(databases: Databases) -> dict[str, Any]:
    """Return the date, machine, versions and relevant settings, by name."""
    settings = Settings()
    with databases.connection() as connection:
        server = dict.fromkeys(_SERVER_SETTINGS, "") | {
            str(name): str(value)
            for name, value in connection.execute(
                "select name, current_setting(name) from pg_settings where name = any (%s)", [list(_SERVER_SETTINGS)]
            )
        }
        version = connection.execute("show server_version").fetchone()
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "machine": f"{platform.system()} {platform.machine()}, {_cores()} cores, {_processor()}",
        "load at the beginning": load(),
        "PostgreSQL": f"{version and version[0]}, {'embedded' if databases.is_embedded else 'external'}",
        "server settings": ", ".join(f"{name}={value}" for name, value in server.items()),
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "psycopg": f"{psycopg.__version__} ({psycopg.pq.__impl__}), no named prepared statements",
        "scheduled-actions": f"{scheduled_actions.__version__}, batch_size={settings.batch_size}, "
        f"concurrency={settings.concurrency}, database_direct={str(settings.database_direct).lower()}",
    }


def load() -> str:
    """Return the load averages of the last 1, 5 and 15 minutes."""
    return " ".join(f"{average:.1f}" for average in os.getloadavg())


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or "unnamed processor"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unnamed processor"
