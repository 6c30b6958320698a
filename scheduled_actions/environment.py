r"""The `.env` of a project directory: what the command line and the local server take for its environment.

    # A comment.
    CRON_SECRET=letters-and-digits      # one after a value needs a space before it
    export ADMIN_TOKEN=the-same         `export` is allowed, so that a shell can read the file, too
    GREETING="two words\n"              \n \t \r \" \\ and \$ are escapes between double quotes
    PASSWORD='as $it "stands"'          nothing is special between single quotes
    EMPTY=

One variable a line; the last line of a name wins. Nothing is expanded, no value goes over a line. A deployment
sets real variables instead: nothing reads this file there.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from scheduled_actions.errors import ConfigInvalid

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: The file's name, below the project directory.
ENV_NAME = ".env"

_ASSIGNMENT = re.compile(r"(?:export[ \t]+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)[ \t]*=(?P<rest>.*)")
_QUOTED = re.compile(r"""(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>[^']*)')[ \t]*(?P<after>.*)""")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "$": "$"}


def load(project: Path, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment with what the project's `.env` adds to it; a variable that is set, even empty, wins.

    Args:
        project: The project directory; without a `.env` nothing is added.
        environ: The environment; None: the process's own.

    Raises:
        ConfigInvalid: The file cannot be read, or a line is no assignment; the message names the line and never
            what stands there.
    """
    path = project / ENV_NAME
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        text = ""
    except UnicodeDecodeError:
        raise ConfigInvalid("the file", None, "is not UTF-8 text", ENV_NAME) from None
    except OSError as error:
        raise ConfigInvalid("the file", None, f"cannot be read: {error.strerror}", ENV_NAME) from None
    return {**parse(text), **(os.environ if environ is None else environ)}


def parse(text: str) -> dict[str, str]:
    """Return the variables of a `.env`'s text.

    Raises:
        ConfigInvalid: A line is no assignment; the message names the line and never what stands there.
    """
    found: dict[str, str] = {}
    # Not splitlines(): that also breaks at characters that may stand in a value.
    for number, line in enumerate(re.split(r"\r\n|\n|\r", text), start=1):
        stripped = line.strip(" \t")
        if not stripped or stripped.startswith("#"):
            continue
        match = _ASSIGNMENT.fullmatch(stripped)
        if match is None:
            raise _unreadable(number, "is not NAME=VALUE: letters, digits and _ make a name")
        found[match["name"]] = _value(match["rest"], number)
    return found


def _value(rest: str, number: int) -> str:
    if "\0" in rest:
        raise _unreadable(number, "holds a NUL character, which no variable can")
    if not rest.lstrip(" \t").startswith(("'", '"')):
        return re.split(r"[ \t]#", rest, maxsplit=1)[0].strip(" \t")
    match = _QUOTED.fullmatch(rest.lstrip(" \t"))
    if match is None:
        raise _unreadable(number, "opens a quote that is not closed: a value ends on its line")
    if match["after"] and not match["after"].startswith("#"):
        raise _unreadable(number, 'has text after the closing quote: write \\" for a quote inside, or # for a comment')
    if match["single"] is not None:
        return match["single"]
    return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[0]), match["double"])


def _unreadable(number: int, problem: str) -> ConfigInvalid:
    return ConfigInvalid(f"line {number}", None, problem, ENV_NAME)
