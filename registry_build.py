"""Build `handlers/_registry.py` from the source of `handlers/`. Run it after changing an `@action` line.

    python registry_build.py            write the registry if it changed
    python registry_build.py --check    write nothing; exit 1 if the registry is out of date

Exit codes: 0: the registry is up to date or was written; 1: it is out of date, or a handler is invalid; 2: wrong usage.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from scheduled_actions.core.errors import RegistryInvalid
from scheduled_actions.operations import registry_build


def main() -> int:
    """Build or check the registry, print a summary and return the exit code."""
    parser = argparse.ArgumentParser(description="Build handlers/_registry.py from the source of handlers/.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the registry is out of date")
    parser.add_argument(
        "--project",
        type=Path,
        default=Path(os.environ.get("SCHEDULED_ACTIONS_PROJECT") or "."),
        help="project directory (default: $SCHEDULED_ACTIONS_PROJECT, or the working directory)",
    )
    arguments = parser.parse_args()
    try:
        if arguments.check:
            registry_build.check(arguments.project)
            summary = "handlers/_registry.py is up to date"
        else:
            summary = registry_build.write(arguments.project).summary
    except RegistryInvalid as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{summary}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
