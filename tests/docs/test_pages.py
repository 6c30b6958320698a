"""Every command of README, tutorial and how-to pages runs as printed, and prints what the page says.

Each page is followed twice, from top to bottom: in a clone of the repository, and in a project made from a wheel.
`tests/docs/pages.py` describes the comments of the pages. Pages use port 8000, so they run one after the other.
"""

from __future__ import annotations

import ast
import fcntl
import json
import os
import re
import shutil
import socket
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from scheduled_actions.database import embedded
from tests.docs import pages
from tests.docs.installations import CLONE, ROOT, Installations, environ
from tests.docs.shell import Shell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.docs.pages import Block

pytestmark = pytest.mark.docs

HOW_TO = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs/how-to").glob("*.md"))
ALL = ["README.md", "docs/tutorial.md", *HOW_TO]
#: Most blocks that may be excluded on all pages together.
MOST_EXCLUDED = 10
#: Longest time until a repeated command has to print what the page shows.
REPEAT_SECONDS = 40
#: The port of the pages.
PORT = 8000


def blocks_of(page: str) -> list[Block]:
    return pages.read(page, (ROOT / page).read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def installations() -> Iterator[Installations]:
    """Yield the installations of this run; those in `DOCS_INSTALLATIONS` are kept, for the author of a page."""
    if kept := os.environ.get("DOCS_INSTALLATIONS"):
        yield Installations(Path(kept))
        return
    with open_directory() as directory:
        yield Installations(directory)


@contextmanager
def open_directory() -> Iterator[Path]:
    """Create a directory that the account of Postgres may enter; delete it with all clusters in it."""
    directory = Path(tempfile.mkdtemp(prefix="scheduled-actions-docs-")).resolve()
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        for stored in directory.rglob(".scheduled_actions/postgres.json"):
            embedded.remove(stored.parent)
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def place() -> Iterator[Path]:
    """Yield the directory of one page, and check that the port is free before and after."""
    with (Path(tempfile.gettempdir()) / "scheduled-actions-docs.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Another run on this machine may be using the port.
        require_free_port()
        with open_directory() as directory:
            yield directory
        require_free_port()


def require_free_port() -> None:
    deadline = time.monotonic() + 20
    while True:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", PORT))
            except OSError:
                assert time.monotonic() < deadline, f"port {PORT}, which the pages use, is in use"
                time.sleep(0.1)
            else:
                return


class Reader:
    """Follows a page.

    Args:
        shell: The reader's shell.
        clone: The clone of the repository.
    """

    def __init__(self, shell: Shell, clone: Path) -> None:
        self.shell = shell
        self.clone = clone

    def follow(self, page: str) -> None:
        """Run each block of the page that is not excluded."""
        for block in blocks_of(page):
            if "in the background" in block.marks:
                self._see_in_background(block)
            elif "not run" not in block.marks:
                self.do(block)

    def do(self, block: Block) -> None:
        """Run, write or check one block."""
        if "in a new terminal" in block.marks:
            self.shell.open_terminal()
        if clock := block.marks.get("clock"):
            self._set_clock(clock)
        if block.file:
            self._write(self.shell_directory() / block.file, block.text)
            return
        match block.language:
            case "sh":
                self._command(block, block.text)
            case "python":
                self._command(block, f"python - <<'END_OF_BLOCK'\n{block.text}END_OF_BLOCK\n")
            case "sql":
                self._command(
                    block, f"scheduled-actions psql -v ON_ERROR_STOP=1 <<'END_OF_BLOCK'\n{block.text}END_OF_BLOCK\n"
                )
            case "toml":
                self.add_settings(self.shell_directory() / "scheduled_actions.toml", block.text)
            case "json":
                json.loads(block.text)
            case "yaml":
                list(yaml.safe_load_all(block.text))

    def _write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".toml":
            self.add_settings(path, text)
        else:
            path.write_text(text, encoding="utf-8")

    @staticmethod
    def add_settings(path: Path, text: str) -> None:
        """Add sections at the end of the file, settings without a section at its top."""
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        is_section = any(line.startswith("[") for line in text.splitlines())
        path.write_text(f"{before}\n{text}" if is_section else f"{text}\n{before}", encoding="utf-8")

    def shell_directory(self) -> Path:
        return Path(self.shell.run("pwd").output.strip())

    def _set_clock(self, day: str) -> None:
        # Relative to the real clock, so that time goes on.
        sql = (
            "create or replace function scheduled_actions_now() returns timestamptz language sql stable as "
            f"$$select clock_timestamp() + (timestamptz '{day} 09:00:00+00' - timestamptz 'epoch' "
            f"- interval '{time.time():.3f} s')$$"
        )
        ran = self.shell.run(f"scheduled-actions psql -v ON_ERROR_STOP=1 <<'END_OF_BLOCK'\n{sql}\nEND_OF_BLOCK\n")
        assert not ran.failed, ran.output

    def _command(self, block: Block, text: str) -> None:
        if "in the clone" in block.marks:
            text = f"cd {self.clone}\n{text}"
        if until := block.marks.get("background"):
            self.shell.start(f"cd {self.shell_directory()}\n{text}", until)
            if block.output is not None:
                self._see_in_background(block.output)
            return
        deadline = time.monotonic() + (REPEAT_SECONDS if "repeat" in block.marks else 0)
        while problem := self._problem(block, text):
            assert time.monotonic() < deadline, (
                f"{block}: {problem}\nIn the background:\n{self.shell.background_output()}"
            )
            time.sleep(0.3)

    def _see_in_background(self, shown: Block) -> None:
        deadline = time.monotonic() + REPEAT_SECONDS
        while not self.shell.background_shows(lambda printed: pages.is_part_of(printed, shown)):
            printed = self.shell.background_output()
            assert time.monotonic() < deadline, f"{shown}: no command in the background has printed this:\n{printed}"
            time.sleep(0.1)

    def _problem(self, block: Block, text: str) -> str | None:
        ran = self.shell.run(text)
        if bool(ran.failed) != ("fails" in block.marks):
            said = f"failed: {ran.failed}" if ran.failed else "did not fail"
            return f"{said}\n{text}\n{ran.output}"
        if block.output is not None and (differs := pages.difference(block.output, ran.output)):
            return f"{differs}\n{text}\n{ran.output}"
        return None


@pytest.mark.parametrize("installed", ["clone", "wheel"])
@pytest.mark.parametrize("page", HOW_TO)
def test_every_command_of_a_how_to_page_runs(page, installed, installations, place):
    make = installations.project if installed == "wheel" else installations.project_of_clone
    project = make(place)
    scratch = place / "scratch"
    scratch.mkdir()

    with Shell(project, environ(project / ".venv"), scratch) as shell:
        Reader(shell, place / CLONE).follow(page)


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md"])
def test_every_command_of_a_first_page_runs_in_a_directory_with_a_clone(page, installations, place):
    """The reader has a clone in `./scheduled-actions` and nothing else, and installs the package from it."""
    start, scratch = place / "work", place / "scratch"
    clone = installations.copy(start / CLONE)
    scratch.mkdir()

    with Shell(start, environ(None), scratch) as shell:
        Reader(shell, clone).follow(page)


def test_few_blocks_are_excluded_and_each_with_a_reason():
    excluded = {
        str(block): block.marks["not run"] for page in ALL for block in blocks_of(page) if "not run" in block.marks
    }

    assert len(excluded) <= MOST_EXCLUDED, excluded
    assert all(len(reason) > 15 for reason in excluded.values()), excluded


@pytest.mark.parametrize("page", ALL)
def test_every_block_of_a_page_can_be_tested(page):
    prose = pages.without_blocks((ROOT / page).read_text(encoding="utf-8"))

    assert not re.findall(r"\n\n    .*", prose), "an indented block is not run: put it between ```"
    for block in blocks_of(page):
        if block.language == "python":
            ast.parse(block.text)
