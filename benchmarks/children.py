"""Run a measurement of `child.py` in a new process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.harness import WrongResultError

if TYPE_CHECKING:
    from collections.abc import Mapping

_ROOT = Path(__file__).parents[1]
_PATIENCE_SECONDS = 120


def answer_of(environ: Mapping[str, str], *arguments: str) -> dict[str, Any]:
    """Run `benchmarks.child` with these arguments in a new process and return its JSON output.

    Raises:
        WrongResultError: The process failed.
    """
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.child", *arguments],
        cwd=_ROOT,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=_PATIENCE_SECONDS,
    )
    if done.returncode:
        last = " ".join(done.stderr.strip().splitlines()[-1:])
        raise WrongResultError(f"exit of {arguments[0]} ({last})", found=done.returncode, expected=0)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
