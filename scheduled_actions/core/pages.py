"""One page of a list, and where the next one begins: the rule of every list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

#: The most rows on a page.
PAGE_MOST = 100
#: The most rows that a list reads: one more than a page shows tells whether another page follows.
READ_MOST = PAGE_MOST + 1


class Identified(Protocol):
    """Anything with an id."""

    @property
    def id(self) -> UUID:
        """Ascends with time."""


One = TypeVar("One")
Place = TypeVar("Place")
Known = TypeVar("Known", bound=Identified)


def page_of(read: Callable[[int], Sequence[Known]], limit: int) -> tuple[Sequence[Known], UUID | None]:
    """Return a page of rows with ids, and the id after which the next page begins; see `page_by`."""
    return page_by(_id, read, limit)


def page_by(
    place: Callable[[One], Place], read: Callable[[int], Sequence[One]], limit: int
) -> tuple[Sequence[One], Place | None]:
    """Return a page, and where the next one begins; None on the last page.

    Args:
        place: Returns the position of a row in the list.
        read: Returns the rows after the previous page, up to the given number.
        limit: Rows on the page.
    """
    found = read(limit + 1)
    shown = found[:limit]
    return shown, place(shown[-1]) if len(found) > limit else None


def _id(one: Any) -> UUID:  # noqa: ANN401 - has an id
    found: UUID = one.id
    return found
