"""Read the CPU time of processes and of their children (Linux)."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Positions in /proc/PID/stat after the name: the parent, and user and system time without and with ended children.
_PARENT, _TIMES = 1, slice(11, 15)


def cpu_seconds(roots: Iterable[int]) -> float:
    """Return the CPU seconds of processes and all their descendants, including ended ones; resolution 10 ms."""
    stats = {int(one.name): fields for one in Path("/proc").glob("[0-9]*") if (fields := _fields(one))}
    children = defaultdict(list)
    for pid, fields in stats.items():
        children[int(fields[_PARENT])].append(pid)
    total, waiting = 0, list(roots)
    while waiting:
        pid = waiting.pop()
        total += sum(map(int, stats[pid][_TIMES])) if pid in stats else 0
        waiting += children[pid]
    return total / os.sysconf("SC_CLK_TCK")


def _fields(process: Path) -> list[str]:
    try:
        text = (process / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()
