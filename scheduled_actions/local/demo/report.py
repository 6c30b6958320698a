"""Print the steps of the demo, their output, and whether each claim is true."""

import sys
import time

import click


class DemoCheckFailed(Exception):
    """A claim of the demo is false."""


class Report:
    """A printed report of the demo, with a mark on each claim that was checked."""

    def __init__(self) -> None:
        self.checked = 0
        self._steps = 0
        self._started = time.monotonic()
        # If the terminal's encoding cannot show the marks, words replace them.
        can_show = "utf" in (getattr(sys.stdout, "encoding", None) or "").lower()
        self._mark, self._cross = ("✓", "✗") if can_show else ("ok", "WRONG")

    @property
    def seconds(self) -> float:
        """Seconds since the report began."""
        return time.monotonic() - self._started

    def step(self, title: str) -> None:
        """Print the number and title of the next step."""
        self._steps += 1
        click.secho(f"\n{self._steps}. {title}", bold=True)

    def show(self, command: str, output: str = "", *claims: tuple[str, object, object]) -> None:
        """Print a call or a command as a user would write it, and its output; then check claims.

        Raises:
            DemoCheckFailed: A claim is false.
        """
        if command:
            click.secho(f"   > {command}", fg="blue")
        for line in output.splitlines():
            click.echo(f"     {line}")
        self.check(*claims)

    def check(self, *claims: tuple[str, object, object]) -> None:
        """Check claims, each with the actual and the expected value.

        Raises:
            DemoCheckFailed: The two values of a claim differ; the message contains both.
        """
        for claim, actual, expected in claims:
            if actual != expected:
                click.secho(f"   {self._cross} {claim}", fg="red")
                raise DemoCheckFailed(f"expected {expected!r}\n    found {actual!r}")
            self.checked += 1
            click.echo(f"   {click.style(self._mark, fg='green')} {claim}")
