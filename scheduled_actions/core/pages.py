"""Pages of lists, and the cursors of the pages that follow."""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TypeVar
from uuid import UUID

MAX_PAGE_SIZE = 100
#: A page reads one more row than it returns, to detect whether another page follows.
MAX_ROWS_READ = MAX_PAGE_SIZE + 1


Row = TypeVar("Row")
Cursor = TypeVar("Cursor")


def read_page(read: Callable[[int], Sequence[Row]], limit: int) -> tuple[Sequence[Row], UUID | None]:
    """Return a page of rows, and the id of its last row as the cursor; None on the last page (see `read_page_by`)."""
    return read_page_by(attrgetter("id"), read, limit)


def read_page_by(
    cursor_of: Callable[[Row], Cursor], read: Callable[[int], Sequence[Row]], limit: int
) -> tuple[Sequence[Row], Cursor | None]:
    """Return a page, and the cursor of the next page; None on the last page.

    Args:
        cursor_of: Takes the last row of a page; returns the cursor of the next page.
        read: Takes a number of rows; returns at most that many, starting after the previous page.
        limit: Maximum number of rows on the page.
    """
    found = read(limit + 1)
    shown = found[:limit]
    return shown, cursor_of(shown[-1]) if len(found) > limit else None
