"""Build `handlers/_registry.py` from the text of `handlers/`. Run it after any change of an `@action` line.

    python registry_build.py            write the registry where it changed
    python registry_build.py --check    write nothing; exit 1 when it is stale

Exit 0 when the registry is up to date, 1 when it is not or the handlers hold a mistake, 2 on wrong usage.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from scheduled_actions.core.errors import RegistryInvalid
from scheduled_actions.operations import registry_build


def main() -> int:
    """Return the exit code, after the work and a line about it."""
    parser = argparse.ArgumentParser(description="Build handlers/_registry.py from the text of handlers/.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when the registry is stale")
    parser.add_argument(
        "--project",
        type=Path,
        default=Path(os.environ.get("SCHEDULED_ACTIONS_PROJECT") or "."),
        help="the project's directory (default: $SCHEDULED_ACTIONS_PROJECT, or the working directory)",
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
