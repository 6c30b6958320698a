"""The secrets of a project on this machine: made when they are missing, kept in its `.env`."""

from __future__ import annotations

import base64
import re
import secrets
from typing import TYPE_CHECKING

from scheduled_actions.core.encryption import KEY_NAME
from scheduled_actions.core.errors import ProjectUnusable
from scheduled_actions.database.embedded.cluster import write_private
from scheduled_actions.local import environment

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: What can be made up; the others are addresses and logins.
NAMES = ("CRON_SECRET", "ADMIN_TOKEN", KEY_NAME)


def ensure(project: Path, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the secrets that were set nowhere and now stand in `.env`, which its owner alone can read.

    Where a program's output is read in the place of the file, nothing is made: nobody would read it.

    Args:
        project: Its directory.
        environ: The process's own environment: what is set there needs no line in the file.

    Raises:
        ConfigInvalid: The file cannot be read, or a line of it is no assignment.
        ProjectUnusable: It cannot be written.
    """
    if environment.uses_command(environ):
        return ()
    known = environment.load(project, {})
    missing = tuple(name for name in NAMES if not known.get(name) and name not in environ)
    if not missing:
        return ()
    path = (project / environment.ENV_NAME).resolve()
    unfinished = path.with_name(f"{path.name}.new")
    try:
        text = path.read_text(encoding="utf-8-sig") if path.exists() else ""
        for name in missing:
            text = _with(text, name, _made(name))
        write_private(unfinished, text)
        unfinished.replace(path)
    except OSError as error:
        problem = f"{environment.ENV_NAME} cannot be written: {error.strerror}"
        raise ProjectUnusable(project, problem) from error
    return missing


def _made(name: str) -> str:
    """Return 32 random bytes as the name wants them written."""
    if name == KEY_NAME:
        return base64.b64encode(secrets.token_bytes(32)).decode()
    return secrets.token_urlsafe(32)


def _with(text: str, name: str, value: str) -> str:
    """Return the text of a `.env` with a value for a name that has none: on its own empty line, where it has one."""
    empty = re.compile(rf"^[ \t]*(export[ \t]+)?{name}[ \t]*=.*$", re.MULTILINE)
    if empty.search(text):
        return empty.sub(f"{name}={value}", text)
    separator = "" if not text or text.endswith("\n") else "\n"
    return f"{text}{separator}{name}={value}\n"
