r"""The `.env` of a project directory: what the command line and the local server take for its environment.

    # A comment.
    CRON_SECRET=letters-and-digits      # one after a value needs a space before it
    export ADMIN_TOKEN=the-same         `export` is allowed, so that a shell can read the file, too
    GREETING="two words\n"              \n \t \r \" \\ and \$ are escapes between double quotes
    PASSWORD='as $it "stands"'          nothing is special between single quotes
    EMPTY=

One variable a line; the last line of a name wins. Nothing is expanded, no value goes over a line. A deployment
sets real variables instead: nothing reads this file there.

Where SCHEDULED_ACTIONS_ENV_COMMAND is set, say to `sops -d .env.enc`, that program is run and what it prints is read in
the file's place, so that secrets may lie encrypted on this machine, too.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from typing import TYPE_CHECKING

from scheduled_actions.core.errors import ConfigInvalid

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: The file's name, below the project directory.
ENV_NAME = ".env"
#: The variable that names the program whose output is read in the file's place.
COMMAND_NAME = "SCHEDULED_ACTIONS_ENV_COMMAND"

#: How long that program may take: somebody may have to touch a key.
_COMMAND_SECONDS = 60.0

_ASSIGNMENT = re.compile(r"(?:export[ \t]+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)[ \t]*=(?P<rest>.*)")
_QUOTED = re.compile(r"""(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>[^']*)')[ \t]*(?P<after>.*)""")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "$": "$"}


def load(project: Path, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment with what the project's `.env` adds to it; a variable that is set, even empty, wins.

    Args:
        project: The project directory; without a `.env` nothing is added.
        environ: The environment; None: the process's own. Where it has SCHEDULED_ACTIONS_ENV_COMMAND, that program is
            run in the directory, and the file is not looked at.

    Raises:
        ConfigInvalid: The file cannot be read, the program failed, or a line is no assignment; the message names the
            line and never what stands there, or what the program said.
    """
    environ = os.environ if environ is None else environ
    if uses_command(environ):
        return {**parse(_printed(project, environ), source=f"what {COMMAND_NAME} prints"), **environ}
    path = project / ENV_NAME
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        text = ""
    except UnicodeDecodeError:
        raise ConfigInvalid("the file", None, "is not UTF-8 text", ENV_NAME) from None
    except OSError as error:
        raise ConfigInvalid("the file", None, f"cannot be read: {error.strerror}", ENV_NAME) from None
    return {**parse(text), **environ}


def uses_command(environ: Mapping[str, str]) -> bool:
    """Return whether a program's output is read in the place of `.env`."""
    return bool(environ.get(COMMAND_NAME, "").strip())


def _printed(project: Path, environ: Mapping[str, str]) -> str:
    """Return what the program prints; no shell is between, and what it says elsewhere may hold secrets, too."""
    program, words = _command(environ[COMMAND_NAME])
    try:
        ran = subprocess.run(  # noqa: S603 - it is the operator's own
            words,
            cwd=project,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_COMMAND_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise _command_failed(program, "is no program that can be found") from None
    except OSError as error:
        raise _command_failed(program, f"cannot be run: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise _command_failed(program, f"was ended: it took longer than {_COMMAND_SECONDS:g} seconds") from None
    if ran.returncode:
        how = f"exit code {ran.returncode}" if ran.returncode > 0 else f"signal {-ran.returncode}"
        raise _command_failed(program, f"failed with {how}; run it yourself to see why: it is not repeated here")
    try:
        return ran.stdout.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _command_failed(program, "prints no UTF-8 text") from None


def _command(text: str) -> tuple[str, list[str]]:
    """Return the program's name, for messages, and all words of its command line."""
    try:
        words = shlex.split(text)
    except ValueError:
        raise _command_failed("the value", "opens a quote that it does not close") from None
    # `NAME=value program` is a shell's, and the value may be a secret.
    if not words or "=" in words[0]:
        raise _command_failed("the value", "should be a program and its arguments: no shell reads it")
    return words[0], words


def _command_failed(what: str, problem: str) -> ConfigInvalid:
    return ConfigInvalid(what, None, problem, COMMAND_NAME)


def parse(text: str, *, source: str = ENV_NAME) -> dict[str, str]:
    """Return the variables of a `.env`'s text.

    Args:
        text: The whole of it.
        source: Where it is from, for messages.

    Raises:
        ConfigInvalid: A line is no assignment; the message names the line and never what stands there.
    """
    found: dict[str, str] = {}
    # Not splitlines(): that also breaks at characters that may stand in a value.
    for number, written in enumerate(re.split(r"\r\n|\n|\r", text), start=1):
        line = f"line {number}"
        stripped = written.strip(" \t")
        if not stripped or stripped.startswith("#"):
            continue
        match = _ASSIGNMENT.fullmatch(stripped)
        if match is None:
            raise ConfigInvalid(line, None, "is not NAME=VALUE: letters, digits and _ make a name", source)
        try:
            found[match["name"]] = _value(match["rest"])
        except ValueError as error:
            raise ConfigInvalid(line, None, str(error), source) from None
    return found


def _value(rest: str) -> str:
    """Return the value of what follows a `=`; ValueError says what is wrong with it, and never repeats it."""
    if "\0" in rest:
        raise ValueError("holds a NUL character, which no variable can")
    if not rest.lstrip(" \t").startswith(("'", '"')):
        return re.split(r"[ \t]#", rest, maxsplit=1)[0].strip(" \t")
    match = _QUOTED.fullmatch(rest.lstrip(" \t"))
    if match is None:
        raise ValueError("opens a quote that is not closed: a value ends on its line")
    if match["after"] and not match["after"].startswith("#"):
        raise ValueError('has text after the closing quote: write \\" for a quote inside, or # for a comment')
    if match["single"] is not None:
        return match["single"]
    return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[0]), match["double"])
