"""A mistake in the text of `handlers/`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """A mistake in a module's text, and where it stands."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.text}"

    @property
    def where(self) -> str:
        """The file and line, as editors and terminals link them."""
        return f"{self.file}:{self.line}"
