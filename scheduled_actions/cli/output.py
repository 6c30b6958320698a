"""Print the results of commands: JSON for programs, aligned text and local times for people; show progress."""

import json
import signal
import sys
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import fields
from datetime import UTC, datetime
from types import FrameType
from typing import Any, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

import click

from scheduled_actions.cli.group import Failure
from scheduled_actions.deadlines.model import Deadline
from scheduled_actions.schedules.model import Schedule

Row = TypeVar("Row")

#: In place of a due time in the year 9999, while only a change that the condition of an action waits for makes it due.
ON_A_CHANGE = "on a change"
#: Colours of the values in a STATUS column.
_COLOURS = {
    "completed": "green",
    "processing": "cyan",
    "failed": "red",
    "no_action": "yellow",
    "cancelled": "bright_black",
    "skipped": "bright_black",
}


def wants_json() -> bool:
    """Return whether the command was called with `--json`."""
    return bool(click.get_current_context().meta.get("json"))


def answer(document: object, text: str) -> None:
    """Print the document with `--json`, otherwise the text."""
    if not printed_as_json(document):
        click.echo(text)


def printed_as_json(document: object) -> bool:
    """Print the document with `--json`; return whether it was printed."""
    if wants_json():
        print_json(document)
    return wants_json()


def print_json(document: object) -> None:
    """Print a document as JSON on one line."""
    click.echo(json.dumps(document, ensure_ascii=False, default=_json_value))


def print_record(
    document: object, fields: Mapping[str, str], sections: Mapping[str, Iterable[str]] | None = None
) -> None:
    """Print one object: the document with `--json`, otherwise its fields, and its sections of lines by heading."""
    if printed_as_json(document):
        return
    print_fields(fields)
    for heading, lines in (sections or {}).items():
        print_section(heading, lines)


def print_page(
    documents: Mapping[str, object], rows: Sequence[Row], columns: Mapping[str, Callable[[Row], str]], *, empty: str
) -> None:
    """Print a page of a list: the documents with `--json`, otherwise the rows as a table.

    Args:
        documents: The JSON document; its `next_cursor`, unless it is None, is the cursor of the next page.
        rows: The values in the table.
        columns: By heading, a function that returns the cell of a row.
        empty: Printed in place of an empty table.
    """
    if printed_as_json(documents):
        return
    next_cursor = documents.get("next_cursor")
    if rows:
        print_table(columns, [[cell(row) for cell in columns.values()] for row in rows])
    elif next_cursor is None:
        click.echo(empty)
    if next_cursor is not None:
        click.echo(f"{'' if rows else 'no match among the newest rows'}\nmore results: --cursor {next_cursor}")


def as_document(row: Any) -> dict[str, Any]:  # noqa: ANN401 - any dataclass
    """Return the fields of a dataclass by name, without converting nested values."""
    return {field.name: getattr(row, field.name) for field in fields(row)}


def local(moment: datetime | None) -> str:
    """Return an instant in this machine's time zone, with its offset, to the second; empty for None."""
    if moment is None:
        return ""
    try:
        return moment.astimezone().isoformat(" ", "seconds")
    except (OverflowError, ValueError, OSError):
        # The last hours of year 9999 have no local time in some zones.
        return moment.isoformat(" ", "seconds")


def zoned(moment: datetime | None, owner: Schedule | Deadline) -> str:
    """Return an instant in the owner's time zone, with the offset; UTC if the zone is unavailable, empty for None."""
    if moment is None:
        return ""
    try:
        return moment.astimezone(ZoneInfo(owner.timezone)).isoformat(" ", "seconds")
    except (ValueError, OSError, LookupError):
        return moment.isoformat(" ", "seconds")


def label(named: Schedule | Deadline) -> str:
    """Return the name of a schedule or deadline, or its id if it has none."""
    return str(named.id) if named.name is None else named.name


def one_line(text: str, *, longest: int | None = None) -> str:
    """Escape control characters for a terminal, and shorten the text to `longest` characters; None: do not shorten."""
    line = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
    return line if longest is None or len(line) <= longest else f"{line[: longest - 1]}…"


def print_table(headings: Iterable[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows in aligned columns under the headings; the action statuses in a column STATUS are coloured."""
    click.echo("\n".join(table_lines(headings, rows)))


def table_lines(headings: Iterable[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines that `print_table` prints."""
    names = list(headings)
    cells = [names, *([one_line(cell) for cell in row] for row in rows)]
    widths = [max(map(_width, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            _styled(cell, name, is_heading=number == 0) + " " * (width - _width(cell))
            for name, cell, width in zip(names, line, widths, strict=True)
        ).rstrip()
        for number, line in enumerate(cells)
    ]


def _styled(cell: str, heading: str, *, is_heading: bool) -> str:
    if is_heading:
        return click.style(cell, bold=True)
    return coloured(cell) if heading == "STATUS" else cell


def coloured(status: str) -> str:
    """Return a status with the code of its colour; click removes the code when the output is not a terminal."""
    return click.style(status, fg=_COLOURS[status]) if status in _COLOURS else status


def _width(text: str) -> int:
    """Return the width of a string in terminal columns: two for each wide character, none for combining ones."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text
    )


def print_fields(values: Mapping[str, str]) -> None:
    """Print names and values in two columns, omitting empty values; a value may have several lines."""
    width = max((len(name) for name, value in values.items() if value), default=0)
    for name, value in values.items():
        if value:
            first, *others = map(one_line, value.split("\n"))
            text = f"\n{' ' * width}  ".join([coloured(first) if name == "status" else first, *others])
            click.echo(f"{click.style(name, bold=True)}{' ' * (width - len(name))}  {text}")


def print_section(heading: str, lines: Iterable[str]) -> None:
    """Print indented lines under a heading; print nothing if there are no lines."""
    if indented := [f"  {one_line(line)}" for line in lines]:
        click.echo("\n".join(["", heading, *indented]))


def field_text(name: str, value: Any) -> str:  # noqa: ANN401 - any column
    """Format the value of a column for people; return an empty string for None and False."""
    if isinstance(value, datetime):
        return local(value)
    if value is None or value is False:
        return ""
    return pretty_json(value) if isinstance(value, dict | list) or name in {"result", "state"} else str(value)


def pretty_json(value: object) -> str:
    """Return a document as indented JSON; return an empty string for None."""
    return "" if value is None else json.dumps(value, ensure_ascii=False, indent=2, default=_json_value)


def _json_value(value: object) -> str:
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat()
        case UUID():
            return str(value)
        case _:
            raise TypeError(f"{type(value).__name__} has no JSON form")


def history_line(entry: Mapping[str, Any]) -> str:
    """Format an entry of an action's history as one line; entries written by SQL may lack any field."""
    began = entry.get("started_at") or entry.get("at") or entry.get("ended_at")
    parts = [
        f"attempt {entry['attempt']}" if "attempt" in entry else "",
        str(entry.get("outcome", "?")),
        f"{entry['count']} times until {_local_text(entry.get('ended_at'))}" if "count" in entry else "",
        ", ".join(map(str, entry.get("changes", ()))),
        f"by {entry['by']}" if entry.get("by") else "",
    ]
    reason = entry.get("error") or entry.get("reason")
    return f"{_local_text(began)}  {' '.join(filter(None, parts))}{f': {reason}' if reason else ''}"


def _local_text(text: object) -> str:
    try:
        return local(datetime.fromisoformat(str(text)))
    except ValueError:
        return str(text or "")


@contextmanager
def progress(total: int | None) -> Iterator[Callable[[int], None]]:
    """Yield a function that counts finished items and shows the count on standard error.

    A terminal gets a bar if the total is known; otherwise each call prints a line.

    Args:
        total: Number of items; None: unknown.

    Raises:
        Failure: The user pressed Ctrl-C.
    """
    count = 0
    bar = click.progressbar(length=total, file=sys.stderr, show_pos=True) if total and sys.stderr.isatty() else None

    def advance(more: int) -> None:
        nonlocal count
        count += more
        if bar is not None:
            bar.update(more)
        elif more:
            click.echo(f"{count:,}{'' if total is None else f' of {total:,}'}", err=True)

    try:
        with bar or nullcontext():
            yield advance
    except KeyboardInterrupt:
        raise Failure(f"interrupted with {count:,} done; run the command again to continue") from None


@contextmanager
def stopping_early(stop: Callable[[], object]) -> Iterator[None]:
    """Call `stop` on the first SIGINT or SIGTERM; the second one ends the process as usual."""
    # Only the main thread can set signal handlers.
    numbers = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
    before = {number: signal.getsignal(number) for number in numbers}

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        # The handlers are restored before `stop`, because the next signal may arrive while it runs.
        for number, handler in before.items():
            signal.signal(number, handler)
        stop()

    with signals_handled(dict.fromkeys(numbers, on_signal)):
        yield


@contextmanager
def signals_handled(handlers: Mapping[signal.Signals, Callable[[int, FrameType | None], object]]) -> Iterator[None]:
    """Call these handlers for signals during the block; restore the previous handlers afterwards."""
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
