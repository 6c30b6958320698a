"""Print the modules that `schedule_action()` and a ping run through, in order: `python -m proofs.paths`.

Exit codes: 0 both are within their maximum, 1 otherwise.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from benchmarks.databases import databases
from proofs.paths.paths import PAYLOAD_MOST, PING_MOST, payload_path, ping_path


def main() -> int:
    """Print both paths and return the exit code."""
    is_short = True
    with databases() as server, tempfile.TemporaryDirectory(prefix="paths-") as directory:
        for title, path_of, most in (
            ("schedule_action(), until its row is inserted", payload_path, PAYLOAD_MOST),
            ("POST /cron/process with one due action, until its response", ping_path, PING_MOST),
        ):
            with server.fresh() as dsn:
                path = path_of(dsn, Path(directory))
            lines = [f"{title}: {len(path)} modules, at most {most}"]
            lines += [f"{number:4} {module}" for number, module in enumerate(path, 1)]
            sys.stdout.write("\n".join(lines) + "\n\n")
            is_short &= len(path) <= most
    return 0 if is_short else 1


if __name__ == "__main__":
    sys.exit(main())
