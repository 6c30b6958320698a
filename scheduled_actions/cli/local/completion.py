"""`completion`: what a shell reads, so that the tab key completes commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_PROGRAM = "scheduled-actions"
_VARIABLE = "_SCHEDULED_ACTIONS_COMPLETE"


@click.command(short_help="Print what completes commands in your shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what SHELL reads, so that the tab key completes commands and options.

    \b
    bash   in ~/.bashrc:  eval "$(scheduled-actions completion bash)"
    zsh    in ~/.zshrc:   eval "$(scheduled-actions completion zsh)"
    fish   scheduled-actions completion fish > ~/.config/fish/completions/scheduled-actions.fish
    """  # noqa: D301 - click's mark for lines that stay as they are
    made = get_completion_class(shell)
    assert made is not None  # noqa: S101 - those that can be chosen are the library's own
    one = made(context.find_root().command, {}, _PROGRAM, _VARIABLE)
    # Its own `source` would start a shell to ask for its version.
    click.echo(one.source_template % one.source_vars())
