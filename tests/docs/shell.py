"""A shell as a reader has it: its directory and variables last from one block to the next."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: Longest time of a block: some install packages.
BLOCK_SECONDS = 240
#: Longest time until a command in the background has printed its text (`make run` installs first), and until it has
#: ended after SIGTERM.
START_SECONDS, STOP_SECONDS = BLOCK_SECONDS, 40


class Ran(NamedTuple):
    """What a block printed, and its commands that failed, as `LINE: COMMAND`."""

    output: str
    failed: list[str]


class Shell:
    """A bash process, and the commands that it runs in the background.

    Args:
        directory: Where it starts.
        environ: Its environment.
        scratch: A directory for its files, outside the project.
    """

    def __init__(self, directory: Path, environ: Mapping[str, str], scratch: Path) -> None:
        self._scratch = scratch
        self._count = 0
        self._background: list[tuple[int, Path]] = []
        #: How much of each log the page has shown.
        self._shown: dict[Path, int] = {}
        self._open = partial(
            subprocess.Popen,
            ["bash", "--noprofile", "--norc"],
            cwd=directory,
            env=dict(environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self._bash: subprocess.Popen[str] = self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for group, _log in reversed(self._background):
            self._stop(group)
        self._close()

    def _close(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._bash.pid, signal.SIGKILL)
        self._bash.wait()
        assert self._bash.stdin is not None
        self._bash.stdin.close()

    def open_terminal(self) -> None:
        """Go on in a new shell: in the first directory and environment; commands in the background keep running."""
        self._close()
        self._bash = self._open()

    def run(self, text: str) -> Ran:
        """Run a block to its end."""
        block, output, done = self._files()
        block.write_text(text, encoding="utf-8")
        # The trap collects every command that fails, whatever follows it; the line is that of the block.
        self._send(
            f"failed=(); trap 'failed+=(\"$LINENO: $BASH_COMMAND\")' ERR; "
            f". {block} > {output} 2>&1 < /dev/null; trap - ERR; "
            f"printf '%s\\n' \"${{failed[@]}}\" > {done}.new; mv {done}.new {done}"
        )
        self._wait(done, BLOCK_SECONDS, output)
        failed = [line for line in done.read_text(encoding="utf-8").splitlines() if line]
        return Ran(output.read_text(encoding="utf-8", errors="replace"), [one for one in failed if ". /" not in one])

    def start(self, text: str, until: str) -> str:
        """Run a block in the background, and return what it has printed once that contains `until`."""
        block, output, done = self._files()
        block.write_text(text, encoding="utf-8")
        # The process group exists when the process itself has written its number.
        named = f"echo $$ > {done}.new; mv {done}.new {done}; exec bash {block}"
        self._send(f"setsid bash -c '{named}' > {output} 2>&1 < /dev/null &")
        self._wait(done, 10, output)
        group = int(done.read_text(encoding="utf-8"))
        self._background.append((group, output))
        deadline = time.monotonic() + START_SECONDS
        while True:
            is_alive = _is_alive(group)  # Before its output is read, which is then complete.
            printed = output.read_text(encoding="utf-8", errors="replace")
            if until in printed:
                return printed
            assert is_alive, f"the command in the background ended:\n{printed}"
            assert time.monotonic() < deadline, f"the command in the background did not print {until!r}:\n{printed}"
            time.sleep(0.05)

    def background_shows(self, is_shown: Callable[[str], bool]) -> bool:
        """Return whether a command in the background has printed what the page shows, after what it showed before."""
        for _, log in self._background:
            printed = log.read_text(encoding="utf-8", errors="replace")
            if is_shown(printed[self._shown.get(log, 0) :]):
                self._shown[log] = len(printed)
                return True
        return False

    def background_output(self) -> str:
        """Return what the commands in the background have printed, for the report of a failure."""
        return "\n".join(log.read_text(encoding="utf-8", errors="replace")[-2000:] for _, log in self._background)

    def _files(self) -> tuple[Path, Path, Path]:
        self._count += 1
        name = self._scratch / str(self._count)
        return name.with_suffix(".sh"), name.with_suffix(".out"), name.with_suffix(".done")

    def _send(self, line: str) -> None:
        assert self._bash.stdin is not None
        self._bash.stdin.write(f"{line}\n")
        self._bash.stdin.flush()

    def _wait(self, done: Path, seconds: float, output: Path) -> None:
        deadline = time.monotonic() + seconds
        while not done.exists():
            printed = output.read_text(encoding="utf-8", errors="replace") if output.exists() else ""
            assert self._bash.poll() is None, f"the block ended the shell:\n{printed}"
            assert time.monotonic() < deadline, f"the block did not end within {seconds:g} seconds:\n{printed}"
            time.sleep(0.01)

    @staticmethod
    def _stop(group: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        while _is_alive(group):
            if time.monotonic() > deadline:
                os.killpg(group, signal.SIGKILL)
                break
            time.sleep(0.05)


def _is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
