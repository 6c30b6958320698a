"""A command group that imports a command when it is used, and reports errors as one line."""

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from scheduled_actions.core.errors import ActionLocked, ScheduledActionsError
from scheduled_actions.core.messages import listed


class LazyGroup(click.Group):
    """A group that lists its commands in the order of their definition, and imports lazy commands when they are used.

    Args:
        lazy_commands: By name, the location of the command (`module:attribute`) and its line in the list of commands.
    """

    def __init__(self, *args: Any, lazy_commands: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:  # noqa: ANN401 - click's own
        super().__init__(*args, **kwargs)
        self._locations = {name: location for name, (location, _) in lazy_commands.items()}
        # Placeholders for help, completion and suggestions.
        self.commands = {name: click.Command(name, short_help=line) for name, (_, line) in lazy_commands.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the command names in the order in which the commands were added."""
        del ctx
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the name of the command in the first argument, the imported command, and the other arguments."""
        if args[0] not in self.commands and not ctx.resilient_parsing and (found := self._subcommands(args[0])):
            raise click.UsageError(f"No such command {args[0]!r}. Did you mean {listed(found, most=4)}?", ctx)
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if name is None else self._imported(name, command), rest

    def _imported(self, name: str, command: click.Command | None) -> click.Command | None:
        if name not in self._locations:
            return command
        module, _, attribute = self._locations[name].partition(":")
        imported: click.Command = getattr(import_module(module), attribute)
        return imported

    def _subcommands(self, name: str) -> list[str]:
        """Return the commands that end with a name: `actions list` and others for `list`."""
        groups = {group: self._imported(group, None) for group in self._locations}
        return [
            f"'{group} {name}'"
            for group, command in groups.items()
            if isinstance(command, click.Group) and name in command.commands
        ]

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's own
        """Run the command and return its result.

        Raises:
            Failure: The command raised an error of this package or of the database; the message is one line.
            NoSuchOption: The message suggests the option whose parameter has the unknown name, if there is one.
        """
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            raise _with_parameter_name(error) from None
        except ActionLocked as error:
            raise Failure(f"{error}; --force overrides the lock, unless a tick claims the action first") from error
        except ScheduledActionsError as error:
            raise Failure(str(error)) from error
        except Exception as error:
            message = _database_message(error)
            if message is None:
                raise
            raise Failure(message) from error


def _with_parameter_name(error: click.NoSuchOption) -> click.NoSuchOption:
    """Suggest the option that sets the parameter with the unknown name: `--due` for `--at`."""
    name = error.option_name.lstrip("-").replace("-", "_")
    parameters = [] if error.ctx is None else error.ctx.command.params
    found = next((one.opts[0] for one in parameters if isinstance(one, click.Option) and one.name == name), None)
    if found is None:
        return error
    return click.NoSuchOption(
        error.option_name, f"No such option {error.option_name!r}. Did you mean {found!r}?", ctx=error.ctx
    )


class Failure(click.ClickException):
    """A failed command; its message is printed as one line on standard error, and the exit code is 1."""

    def show(self, file: Any = None) -> None:  # noqa: ANN401 - click's own
        """Print the message to standard error."""
        click.echo(f"error: {self.format_message()}", file=file or sys.stderr)


def _database_message(error: Exception) -> str | None:
    """Return a database error as one line; None if it is not a database error."""
    psycopg = sys.modules.get("psycopg")
    if psycopg is None or not isinstance(error, psycopg.Error):
        return None
    from scheduled_actions.database.boundary import temporary_refusal  # noqa: PLC0415 - only with a driver

    if (refusal := temporary_refusal(error)) is not None:
        return str(refusal)
    # Only the first line is used, because the details may contain a row.
    said = error.diag.message_primary or (str(error).partition("\n")[0] if isinstance(error, psycopg.DataError) else "")
    return f"the database rejected the statement: {said or type(error).__name__}" + (
        f" ({error.sqlstate})" if error.sqlstate else ""
    )
