"""What the demo prints: what it does, what came back, and whether that is what should have come back."""

from __future__ import annotations

import sys
import time
from typing import Any

import click


class Disappointed(Exception):
    """A claim of the demo does not hold."""


class Report:
    """A readable account of the story, with a mark behind each claim that was checked."""

    def __init__(self) -> None:
        self.checked = 0
        self._steps = 0
        self._started = time.monotonic()
        # A terminal or a log that cannot show the mark gets a word.
        can_show = "utf" in (getattr(sys.stdout, "encoding", None) or "").lower()
        self._mark, self._cross = ("✓", "✗") if can_show else ("ok", "WRONG")

    @property
    def seconds(self) -> float:
        """How long the story has gone on."""
        return time.monotonic() - self._started

    def step(self, title: str) -> None:
        """Begin a chapter."""
        self._steps += 1
        click.secho(f"\n{self._steps}. {title}", bold=True)

    def does(self, what: str) -> None:
        """Tell what is done: a call or a command, as one would write it."""
        click.secho(f"   > {what}", fg="blue")

    def shows(self, what: str) -> None:
        """Tell what came back."""
        click.echo("\n".join(f"     {line}" for line in what.splitlines()))

    def check(self, claim: str, found: Any, expected: Any) -> None:  # noqa: ANN401 - anything that can be compared
        """Mark a claim as true.

        Raises:
            Disappointed: It is not: what was found is not what was expected, and both are told.
        """
        if found != expected:
            click.secho(f"   {self._cross} {claim}", fg="red")
            message = f"expected {expected!r}\n    found {found!r}"
            raise Disappointed(message)
        self.checked += 1
        click.echo(f"   {click.style(self._mark, fg='green')} {claim}")
