"""`python -m proofs.license`: the licence story on a simulated calendar, with the mails that were really sent.

Exit 0 when the letters came on the days on which they had to, and none after it was completed; 1 when not.
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
#: On which day who gets a letter.
EXPECTED = [
    ("16 November", "ann"),
    *[("16 December", name) for name in ("dora", "emil", "fay")],
    ("1 January", "carl"),
    *[(f"{day} January", "ann") for day in range(8, 13)],
]


def main() -> int:
    """Play the story and print it; return the exit code."""
    began = time.monotonic()
    letters = _played()
    click.echo(
        f"{NAME}: due on {DUE.day} {DUE:%B %Y}, 17:00 in Berlin. Everything below was sent by SMTP and received.\n"
    )
    for letter in letters:
        _tell(letter)
    click.echo(f"{_when(COMPLETED_AT)}  Ann renews the licence: complete_deadline({NAME!r})")
    click.echo(f"{'':>21}  from then on: silence\n")
    found = [(letter.day(BERLIN), letter.to.partition("@")[0]) for letter in letters]
    is_told = sorted(found) == sorted(EXPECTED)
    verdict = "each on its day, none after that." if is_told else f"not as they had to come, which is {EXPECTED}"
    click.echo(f"{len(letters)} mails in {time.monotonic() - began:.1f} seconds: {verdict}")
    return 0 if is_told else 1


def _played() -> list[Letter]:
    with databases() as server, server.fresh() as dsn, open_post_office() as (office, port):
        environ = {
            "DATABASE_URL": dsn,
            "SCHEDULED_ACTIONS_EMAIL_PORT": str(port),
            "SCHEDULED_ACTIONS_RETENTION_DAYS": "36500",
        }
        with tempfile.TemporaryDirectory() as directory:
            made = runtime.Runtime(config.load(Path(directory), environ), registry=Registry.of(*HANDLERS))
            before = runtime.use(made)
            try:
                return play(made, office, completed_at=COMPLETED_AT)
            finally:
                runtime.use(before)
                made.close()


def _tell(letter: Letter) -> None:
    click.echo(f"{_when(letter.at)}  to {letter.to}: {letter.subject}")
    for line in letter.text.splitlines():
        if line.startswith(("Due:", "The next reminder", "Each of you")):
            click.echo(f"{'':>21}  {line}")


def _when(moment: datetime) -> str:
    return f"{moment.astimezone(BERLIN):%a %d %b %Y %H:%M}"


if __name__ == "__main__":
    sys.exit(main())
