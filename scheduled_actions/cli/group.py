"""A group of commands that are imported when they are used, and the one place that makes errors a line."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from scheduled_actions.core.errors import ActionLocked, ScheduledActionsError

if TYPE_CHECKING:
    from collections.abc import Mapping


class LazyGroup(click.Group):
    """Commands by name: where each is (`module:attribute`), and the line that lists it."""

    def __init__(self, *args: Any, later: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:  # noqa: ANN401 - click's own
        super().__init__(*args, **kwargs)
        self._places = {name: place for name, (place, _) in later.items()}
        for name, (_, line) in later.items():
            # Stands for the command in lists and in "did you mean".
            self.add_command(click.Command(name, short_help=line))

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in their own order: from the first one a newcomer needs to the last."""
        del ctx
        return list(self.commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, imported now; None where there is none of that name."""
        place = self._places.get(cmd_name)
        if place is None:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = place.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands that begin so, without importing them; options as ever."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        return [CompletionItem(name, help=self.commands[name].get_short_help_str(200)) for name in names]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, self.commands[name].get_short_help_str(200)) for name in self.list_commands(ctx)]
            )

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's own
        """Run the command; one of our own errors, or the database's, ends it with a line and exit code 1."""
        try:
            return super().invoke(ctx)
        except ScheduledActionsError as error:
            raise Failure(_said(error)) from error
        except Exception as error:
            refusal = _refusal(error)
            if refusal is None:
                raise
            raise Failure(refusal) from error


class Failure(click.ClickException):
    """What was asked for cannot be done; the message is the line that says why."""

    def show(self, file: Any = None) -> None:  # noqa: ANN401 - click's own
        """Print the line where errors belong."""
        click.echo(f"error: {self.format_message()}", file=file or sys.stderr)


def _said(error: ScheduledActionsError) -> str:
    if isinstance(error, ActionLocked):
        return f"{error}: add --force to change it all the same, unless a tick takes it first"
    return str(error)


def _refusal(error: Exception) -> str | None:
    """Return what the database said about a statement; None for an error that is not the database's."""
    psycopg = sys.modules.get("psycopg")
    if psycopg is None or not isinstance(error, psycopg.Error):
        return None
    from scheduled_actions.database.failures import refusal_of_the_moment  # noqa: PLC0415 - only with a driver

    if (refusal := refusal_of_the_moment(error)) is not None:
        return str(refusal)
    # The first line alone: the details may hold a row.
    said = error.diag.message_primary or (str(error).partition("\n")[0] if isinstance(error, psycopg.DataError) else "")
    return f"the database refused: {said or type(error).__name__}" + (f" ({error.sqlstate})" if error.sqlstate else "")
