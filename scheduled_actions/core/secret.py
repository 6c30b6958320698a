"""A secret that never prints itself."""

from __future__ import annotations

from dataclasses import dataclass

#: A secret shorter than this closes the endpoint.
SECRET_MIN_LENGTH = 16


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret that never prints itself. During rotation it may hold two values, separated by a comma."""

    name: str
    _value: str

    def __repr__(self) -> str:
        """Return the name alone."""
        return f"Secret({self.name})"

    @property
    def is_usable(self) -> bool:
        """Whether it is set, and long enough to protect anything."""
        return bool(self.accepted)

    @property
    def accepted(self) -> tuple[bytes, ...]:
        """Every value that opens the door: each half of a rotation, and the whole string as some callers send it."""
        whole = self._value.strip()
        halves = [half.strip() for half in whole.split(",")]
        values = dict.fromkeys([whole, *halves])
        return tuple(value.encode() for value in values if len(value) >= SECRET_MIN_LENGTH)

    def reveal(self) -> str:
        """Return the value itself."""
        return self._value
