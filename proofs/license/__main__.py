"""Run the license renewal on a simulated clock and print the mails it sent: `python -m proofs.license`.

Exit codes: 0 all mails arrived on the expected days and none after completion, 1 otherwise.
"""

from __future__ import annotations

import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from benchmarks.databases import databases
from proofs.license.post import open_post_office
from proofs.license.story import BERLIN, DUE, HANDLERS, NAME, play
from scheduled_actions import runtime
from scheduled_actions.core import config
from scheduled_actions.registry import Registry

if TYPE_CHECKING:
    from proofs.license.post import Letter

COMPLETED_AT = datetime(2027, 1, 12, 15, tzinfo=BERLIN)
#: Days and recipients of the mails.
EXPECTED = [
    ("16 November", "ann"),
    *[("16 December", name) for name in ("dora", "emil", "fay")],
    ("1 January", "carl"),
    *[(f"{day} January", "ann") for day in range(8, 13)],
]


def main() -> int:
    """Run the story, print it and return the exit code."""
    began = time.monotonic()
    letters = _letters()
    click.echo(
        f"{NAME}: due on {DUE.day} {DUE:%B %Y}, 17:00 in Berlin. All mails below were sent by SMTP and received.\n"
    )
    for letter in letters:
        _print(letter)
    click.echo(f"{_when(COMPLETED_AT)}  Ann renews the license: complete_deadline({NAME!r})")
    click.echo(f"{'':>21}  no more mails after that\n")
    found = [(letter.day(BERLIN), letter.to.partition("@")[0]) for letter in letters]
    is_expected = sorted(found) == sorted(EXPECTED)
    result = "all on the expected days, none after completion." if is_expected else f"expected {EXPECTED}"
    click.echo(f"{len(letters)} mails in {time.monotonic() - began:.1f} seconds: {result}")
    return 0 if is_expected else 1


def _letters() -> list[Letter]:
    with databases() as server, server.fresh() as dsn, open_post_office() as (office, port):
        environ = {
            "DATABASE_URL": dsn,
            "SCHEDULED_ACTIONS_EMAIL_HOST": "127.0.0.1",
            "SCHEDULED_ACTIONS_EMAIL_PORT": str(port),
            "SCHEDULED_ACTIONS_RETENTION_DAYS": "36500",
        }
        with tempfile.TemporaryDirectory() as directory:
            own = runtime.Runtime(config.load(Path(directory), environ), registry=Registry.of(*HANDLERS))
            before = runtime.use(own)
            try:
                return play(own, office, completed_at=COMPLETED_AT)
            finally:
                runtime.use(before)
                own.close()


def _print(letter: Letter) -> None:
    click.echo(f"{_when(letter.at)}  to {letter.to}: {letter.subject}")
    for line in letter.text.splitlines():
        if line.startswith(("Due:", "The next reminder", "Each of you")):
            click.echo(f"{'':>21}  {line}")


def _when(moment: datetime) -> str:
    return f"{moment.astimezone(BERLIN):%a %d %b %Y %H:%M}"


if __name__ == "__main__":
    sys.exit(main())
