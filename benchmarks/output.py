"""Write the results of a run as JSON, and exit cleanly on SIGTERM."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from benchmarks.comparison import Comparison, Point


def write(
    path: Path,
    setting: Mapping[str, Any],
    comparisons: Sequence[Comparison],
    failures: Mapping[str, str],
    *,
    is_smoke: bool,
    seconds: float,
    points: Sequence[Point] = (),
    lateness: Mapping[str, Sequence[float]] | None = None,
) -> None:
    """Write the settings, the values of every round and the points of the plots to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "setting": setting,
        "smoke": is_smoke,
        "seconds": round(seconds, 1),
        "results": [one.as_json() for one in comparisons],
        "points": [one.as_json() for one in points],
        "lateness": {name: [round(value, 3) for value in values] for name, values in (lateness or {}).items()},
        "failures": failures,
    }
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def leave(number: int, _: object) -> None:
    """Exit through the context managers, so that servers, processes and directories are removed."""
    sys.exit(128 + number)
