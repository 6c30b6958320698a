"""How far long work is: a bar on a terminal, else a line for each part of it; always on standard error."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from scheduled_actions.cli.group import Failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def progress(total: int | None) -> Iterator[Callable[[int], None]]:
    """Give a function that is told how many more are done.

    Ctrl-C ends the command with a line that says how many were: what works in parts has kept them.

    Args:
        total: How many there will be; None: nobody has counted.

    Raises:
        Failure: It was interrupted.
    """
    count = 0
    try:
        if total and sys.stderr.isatty():
            with click.progressbar(length=total, file=sys.stderr, show_pos=True) as bar:

                def advance(more: int) -> None:
                    nonlocal count
                    count += more
                    bar.update(more)

                yield advance
        else:

            def tell(more: int) -> None:
                nonlocal count
                count += more
                if more:
                    click.echo(f"{count:,}{'' if total is None else f' of {total:,}'}", err=True)

            yield tell
    except KeyboardInterrupt:
        message = f"interrupted after {count:,}: run it again, and it goes on"
        raise Failure(message) from None
