r"""Read the `.env` of a project directory for the command line and the local server, and generate missing secrets.

    # A comment.
    CRON_SECRET=letters-and-digits      # a comment after a value needs a space before it
    export ADMIN_TOKEN=other-letters    `export` is allowed, so that a shell can read the file, too
    GREETING="two words"                double quotes: \n, \t, \" and the like are escapes
    PASSWORD='with $ and "quotes"'      single quotes: \' and \\ are the only escapes
    EMPTY=

python-dotenv parses the file. Variables are not expanded. A name that is set twice, to different values, is an error:
the first value may be the key that stored secrets are encrypted with.
A deployment sets real environment variables and does not read this file.

If SCHEDULED_ACTIONS_ENV_COMMAND is set, for example to `sops -d .env.enc`, that program is run and its output replaces
the file, so that secrets can be stored encrypted on this machine as well.
"""

import base64
import os
import re
import secrets
import shlex
import subprocess
from collections.abc import Mapping
from io import StringIO
from pathlib import Path

from dotenv.parser import parse_stream

from scheduled_actions.core.encryption import KEY_NAME
from scheduled_actions.core.errors import ConfigInvalid, ProjectUnusable
from scheduled_actions.database.embedded.cluster import write_private

#: The file's name, in the project directory.
ENV_NAME = ".env"
#: The variable with the command whose output replaces the file.
COMMAND_NAME = "SCHEDULED_ACTIONS_ENV_COMMAND"
#: The secrets that can be generated; the other secrets contain addresses and logins.
GENERATED_NAMES = ("CRON_SECRET", "ADMIN_TOKEN", KEY_NAME)

#: Time limit of the command in `COMMAND_NAME`: a person may have to touch a security key.
_COMMAND_SECONDS = 60.0

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LINE_END = re.compile(r"\r\n|\n|\r")


def load(project: Path, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment, completed by the project's `.env`.

    Variables of the environment, even empty ones, take precedence over those of the file.

    Args:
        project: The project directory; `.env` is optional.
        environ: The environment; None: the process's own. If it has SCHEDULED_ACTIONS_ENV_COMMAND, that program is
            run in the directory instead of reading the file.

    Raises:
        ConfigInvalid: The file cannot be read, the program failed, or a line is invalid (see `parse`). The message
            never contains the content of a line or the output of the program.
    """
    environ = os.environ if environ is None else environ
    if uses_command(environ):
        return {**parse(_command_output(project, environ), source=f"output of {COMMAND_NAME}"), **environ}
    try:
        text = (project / ENV_NAME).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        text = ""
    except UnicodeDecodeError:
        raise ConfigInvalid("", None, "is not UTF-8 text: save it as UTF-8", ENV_NAME) from None
    except OSError as error:
        raise ConfigInvalid("", None, f"cannot be read: {error.strerror}", ENV_NAME) from None
    return {**parse(text), **environ}


def uses_command(environ: Mapping[str, str]) -> bool:
    """Return whether a program's output replaces `.env`."""
    return bool(environ.get(COMMAND_NAME, "").strip())


def _command_output(project: Path, environ: Mapping[str, str]) -> str:
    """Run the program without a shell, and return its output; ignore its standard error, which may contain secrets."""
    try:
        words = shlex.split(environ[COMMAND_NAME])
    except ValueError:
        raise ConfigInvalid("", None, "has a quote that is not closed", COMMAND_NAME) from None
    # `NAME=value program` needs a shell. The message does not contain the value, which may be a secret.
    if not words or "=" in words[0]:
        raise ConfigInvalid(
            "",
            None,
            "must be a program and its arguments, without a shell: NAME=VALUE before the program is not supported",
            COMMAND_NAME,
        )
    try:
        ran = subprocess.run(  # noqa: S603 - the operator's own program
            words,
            cwd=project,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_COMMAND_SECONDS,
            check=False,
        )
        if not ran.returncode:
            return ran.stdout.decode("utf-8-sig")
        how = f"exit code {ran.returncode}" if ran.returncode > 0 else f"signal {-ran.returncode}"
        problem = f"failed with {how}; run it yourself to see why: the output may contain secrets and is not shown"
    except FileNotFoundError:
        problem = "was not found: install it, or give its full path"
    except OSError as error:
        problem = f"cannot be run: {error.strerror}"
    except subprocess.TimeoutExpired:
        problem = f"was stopped after {_COMMAND_SECONDS:g} seconds; run it yourself to see what it waits for"
    except UnicodeDecodeError:
        problem = "did not print UTF-8 text"
    raise ConfigInvalid(words[0], None, problem, COMMAND_NAME)


def parse(text: str, *, source: str = ENV_NAME) -> dict[str, str]:
    """Parse the text of a `.env`.

    Args:
        text: The whole text.
        source: The origin of the text, for errors.

    Raises:
        ConfigInvalid: A line is not an assignment, contains a NUL character, or sets a name again to another value. The
            message contains the number of the line, never its content.
    """
    variables: dict[str, str] = {}
    lines: dict[str, int] = {}
    for binding in parse_stream(StringIO(text)):
        if binding.key is None and not binding.error:
            continue
        # The parser counts empty lines before an assignment as part of it.
        blank = re.match(r"\s*", binding.original.string)
        number = binding.original.line + len(_LINE_END.findall(blank[0] if blank else ""))
        line = f"line {number}"
        if binding.error or binding.value is None or not _NAME.fullmatch(binding.key or ""):
            raise ConfigInvalid(line, None, "is not NAME=VALUE, or has a quote that is not closed", source)
        if "\0" in binding.value:
            raise ConfigInvalid(line, None, "contains a NUL character: remove it", source)
        key = str(binding.key)
        first = lines.setdefault(key, number)
        if variables.setdefault(key, binding.value) != binding.value:
            problem = f"sets {key} again, to another value than line {first}: remove one of them"
            raise ConfigInvalid(line, None, problem, source)
    return variables


def ensure_secrets(project: Path, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Generate the secrets that are not set, store them in `.env` (readable only by its owner), and return their names.

    Nothing is generated if a program's output replaces the file, which would then not be read.

    Args:
        project: The project directory.
        environ: The process's own environment; secrets that are set there, even to an empty value, are not generated.

    Raises:
        ConfigInvalid: The file cannot be read, or a line is invalid.
        ProjectUnusable: The file cannot be written.
    """
    if uses_command(environ):
        return ()
    known = load(project, {})
    missing = tuple(name for name in GENERATED_NAMES if not known.get(name) and name not in environ)
    if not missing:
        return ()
    path = (project / ENV_NAME).resolve()
    unfinished = path.with_name(f"{path.name}.new")
    try:
        text = path.read_text(encoding="utf-8-sig") if path.exists() else ""
        for name in missing:
            key = base64.b64encode(secrets.token_bytes(32)).decode()
            text = _assign(text, name, key if name == KEY_NAME else secrets.token_urlsafe(32))
        write_private(unfinished, text)
        unfinished.replace(path)
    except OSError as error:
        raise ProjectUnusable(project, f"{ENV_NAME} cannot be written: {error.strerror}") from error
    return missing


def _assign(text: str, name: str, value: str) -> str:
    """Return the text of a `.env` with the value assigned to a name: in its empty assignment, or in a new line."""
    text, count = re.subn(rf"(?m)^[ \t]*(export[ \t]+)?{name}[ \t]*=.*$", f"{name}={value}", text)
    separator = "" if not text or text.endswith("\n") else "\n"
    return text if count else f"{text}{separator}{name}={value}\n"
