"""What commands print: JSON for programs, aligned text and local times for people."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from _typeshed import DataclassInstance


#: The colours of what stands under STATUS, for those who see them.
_COLOURS = {
    "completed": "green",
    "processing": "cyan",
    "failed": "red",
    "no_action": "yellow",
    "cancelled": "bright_black",
    "skipped": "bright_black",
}


def print_json(document: object) -> None:
    """Print a document on one line."""
    click.echo(json.dumps(document, ensure_ascii=False, default=_plain))


def as_document(row: DataclassInstance) -> dict[str, Any]:
    """Return an action or a schedule by its column names, its instants in UTC; other values by their fields."""
    return {field.name: getattr(row, field.name) for field in fields(row)}


def local(moment: datetime | None) -> str:
    """Return an instant in this machine's zone with its offset, to the second; nothing for None."""
    if moment is None:
        return ""
    try:
        return moment.astimezone().isoformat(" ", "seconds")
    except (OverflowError, ValueError, OSError):
        # The last hours of the calendar have no local time everywhere.
        return moment.isoformat(" ", "seconds")


def one_line(text: str, *, longest: int | None = None) -> str:
    """Return text that can stand in a terminal's line: what would move the cursor is escaped."""
    line = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
    return line if longest is None or len(line) <= longest else f"{line[: longest - 1]}…"


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows under their headings, each column as wide as it must be; a status has its colour."""
    for line in table_lines(headings, rows):
        click.echo(line)


def table_lines(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table as `print_table` prints them."""
    lines = [list(headings), *([one_line(cell) for cell in row] for row in rows)]
    widths = [max(map(_width, column)) for column in zip(*lines, strict=True)]
    told = []
    for number, line in enumerate(lines):
        cells = []
        for heading, cell, width in zip(headings, line, widths, strict=True):
            styled = click.style(cell, bold=True) if number == 0 else coloured(cell) if heading == "STATUS" else cell
            cells.append(styled + " " * (width - _width(cell)))
        told.append("  ".join(cells).rstrip())
    return told


def coloured(status: str) -> str:
    """Return a status in its colour; nothing but a terminal gets it, and none where NO_COLOR is set."""
    return click.style(status, fg=_COLOURS[status]) if status in _COLOURS else status


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes: two for each wide character, none for what combines."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text
    )


def print_fields(values: Mapping[str, str]) -> None:
    """Print names and values in two columns; what has no value is left out. Values may have several lines."""
    width = max((len(name) for name, value in values.items() if value), default=0)
    for name, value in values.items():
        first, *others = value.split("\n")
        if value:
            shown = coloured(one_line(first)) if name == "status" else one_line(first)
            click.echo(f"{click.style(name, bold=True)}{' ' * (width - len(name))}  {shown}")
        for line in others:
            click.echo(f"{' ' * width}  {one_line(line)}")


def shown(name: str, value: Any) -> str:  # noqa: ANN401 - any column
    """Return the value of a column as people read it; nothing for what is not set."""
    if name.endswith("_at"):
        return local(value)
    if value is None or value is False:
        return ""
    return pretty_json(value) if isinstance(value, dict | list) or name in {"result", "state"} else str(value)


def pretty_json(value: object) -> str:
    """Return a document as people read it; nothing for None."""
    return "" if value is None else json.dumps(value, ensure_ascii=False, indent=2, default=_plain)


def counted(count: int, noun: str) -> str:
    """Return `1 action`, `2 actions`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _plain(value: object) -> str:
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat()
        case UUID():
            return str(value)
        case _:
            message = f"{type(value).__name__} has no JSON form here"
            raise TypeError(message)
