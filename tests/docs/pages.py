"""Read the code blocks of a documentation page, and the HTML comments that say how the tests run them.

A comment applies to the next block. Readers see none of them.

    <!-- not run: REASON -->       the block is excluded
    <!-- fails -->                 its last command exits with an error
    <!-- background: TEXT -->      its command keeps running; the next block starts when the command has printed TEXT
    <!-- repeat -->                it is run again until it prints what the page shows
    <!-- file: PATH -->            it is the content of a file of the project, not a program
    <!-- in the clone -->          it is run in the clone of the repository
    <!-- in a new terminal -->     it is run in a new shell, which starts where the first one did
    <!-- in the background -->     a command in the background has printed it, after what earlier blocks have shown
    <!-- clock: 2026-11-02 -->     the database's clock is set to that day
    <!-- hidden LANGUAGE           a block that only the tests see; a hidden `python` block is put in front of the next
    …                              visible one, any other is run by itself
    -->

A block in the language `text` or `json` that follows a command is its output; for a command in the background, a part
of it. `…` stands for any text within a line, and alone on a line for any number of lines; runs of blanks are equal to
one blank.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from textwrap import dedent
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Languages of blocks that are run, and of blocks that show an output or are only checked for their syntax.
RUN = frozenset({"python", "sh", "sql", "toml"})
SHOWN = frozenset({"cron", "go", "jinja", "js", "json", "promql", "text", "yaml"})

_PART = re.compile(
    r"<!-- (?P<comment>.*?)\s*-->|^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)
_MARKS = re.compile(
    r"(not run|background|file|clock): (.+)|(fails|repeat|in the clone|in a new terminal|in the background)", re.DOTALL
)


@dataclass(slots=True, kw_only=True)
class Block:
    """A code block, and how to run it."""

    page: str
    line: int
    language: str
    text: str
    marks: dict[str, str] = field(default_factory=dict)
    #: The next block, if it shows the output of this one.
    output: Block | None = None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def file(self) -> str | None:
        """The path that the block is written to: from its comment, or from a first line such as `# handlers/a.py`."""
        first = re.match(r"# ([\w./-]+\.\w+)\n", self.text)
        return self.marks.get("file") or (first[1] if first else None)

    @property
    def is_command(self) -> bool:
        """Whether the block is run, so that an output may follow it."""
        return self.language in RUN - {"toml"} and self.file is None


class PageInvalid(Exception):
    """A comment or a block of a page is not of the form that the tests understand."""


def read(page: str, text: str) -> list[Block]:
    """Return the blocks of a page in their order; hidden `python` blocks are part of the block that follows them.

    Raises:
        PageInvalid: A comment is unknown, or a block has no language or an unknown one.
    """
    blocks: list[Block] = []
    for block in _parts(page, text):
        before = blocks[-1] if blocks else None
        is_output = block.language in {"text", "json"} and not block.file and "in the background" not in block.marks
        if is_output and before and before.is_command and not before.output:
            before.output = block
        blocks.append(block)
    return blocks


def _parts(page: str, text: str) -> Iterator[Block]:
    marks: dict[str, str] = {}
    setup = ""
    for part in _PART.finditer(text):
        line = text.count("\n", 0, part.start()) + 1
        comment = part["comment"]
        if comment is not None and (hidden := re.match(r"hidden (\w+)\n(.*)", comment, re.DOTALL)):
            language, content = hidden[1], dedent(f"{hidden[2]}\n")
            if language == "python":
                setup += content
                continue
        elif comment is not None:
            mark = _MARKS.fullmatch(comment)
            if mark is None:
                raise PageInvalid(f"{page}:{line}: unknown comment {comment!r}")
            marks[mark[1] or mark[3]] = mark[2] or ""
            continue
        else:
            language, content = part["language"], dedent(part["text"])
        if language not in RUN | SHOWN:
            raise PageInvalid(f"{page}:{line}: unknown language {language!r}")
        yield Block(page=page, line=line, language=language, text=setup + content, marks=marks)
        marks, setup = {}, ""
    if marks or setup:
        raise PageInvalid(f"{page}: a comment at the end applies to no block")


def without_blocks(text: str) -> str:
    """Return the text of a page without its blocks and comments."""
    return _PART.sub("", text)


def difference(shown: Block, printed: str) -> str | None:
    """Return why what a command printed is not what the page shows; None if it is."""
    if shown.language == "json":
        return _json_difference(shown.text, printed)
    lines = [_normalised(line) for line in printed.splitlines()]
    at, may_skip = 0, False
    for line in filter(None, map(_normalised, shown.text.splitlines())):
        if line == "…":
            may_skip = True
            continue
        pattern = re.compile(".*".join(map(re.escape, line.split("…"))))
        rest = [number for number in range(at, len(lines)) if pattern.fullmatch(lines[number])]
        found = next(iter(rest), None)
        if found is None or not (may_skip or not any(lines[at:found])):
            return f"the page shows {line!r}, which is not the next line of the output"
        at, may_skip = found + 1, False
    return (
        None
        if may_skip or not any(lines[at:])
        else f"the page does not show the line {next(filter(None, lines[at:]))!r}"
    )


def is_part_of(printed: str, shown: Block) -> bool:
    """Return whether a command has printed the lines of the page, next to others."""
    part = replace(shown, text=f"…\n{shown.text}…\n") if shown.language == "text" else shown
    return difference(part, printed) is None


def _normalised(line: str) -> str:
    return " ".join(line.split())


def _json_difference(shown: str, printed: str) -> str | None:
    """Compare JSON: every field that the page shows must be there; `…` in a string stands for any text."""
    expected = json.loads(shown)
    for start in (match.start() for match in re.finditer(r"[\[{]", printed)):
        try:
            actual, _ = json.JSONDecoder().raw_decode(printed[start:])
        except ValueError:
            continue
        return _value_difference(expected, actual, "")
    return "the output contains no JSON"


def _value_difference(expected: Any, actual: Any, path: str) -> str | None:
    match expected, actual:
        case dict(), dict():
            pairs = [(f"{path}.{name}", value, actual.get(name, "<missing>")) for name, value in expected.items()]
        case list(), list() if len(expected) == len(actual):
            pairs = [
                (f"{path}[{at}]", one, other) for at, (one, other) in enumerate(zip(expected, actual, strict=True))
            ]
        case str(), str() if re.fullmatch(".*".join(map(re.escape, expected.split("…"))), actual, re.DOTALL):
            return None
        case _ if expected == actual or path.endswith("duration_ms"):
            return None
        case _:
            return f"{path or 'the value'} is {actual!r}, the page shows {expected!r}"
    return next(filter(None, (_value_difference(one, other, at) for at, one, other in pairs)), None)
