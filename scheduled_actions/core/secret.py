"""A secret that never prints itself."""

from __future__ import annotations

from dataclasses import dataclass, field

#: A secret shorter than this closes the endpoint.
SECRET_MIN_LENGTH = 16


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret that never prints itself. During rotation it may hold two values, separated by a comma."""

    name: str
    _value: str
    #: Every value that opens the door: each half of a rotation, and the whole string as some callers send it.
    accepted: tuple[bytes, ...] = field(init=False, compare=False)
    #: Whether it is set, and long enough to protect anything.
    is_usable: bool = field(init=False, compare=False)

    def __post_init__(self) -> None:
        whole = self._value.strip()
        values = dict.fromkeys([whole, *(half.strip() for half in whole.split(","))])
        accepted = tuple(value.encode() for value in values if len(value) >= SECRET_MIN_LENGTH)
        object.__setattr__(self, "accepted", accepted)
        object.__setattr__(self, "is_usable", bool(accepted))

    def __repr__(self) -> str:
        """Return the name alone."""
        return f"Secret({self.name})"

    def reveal(self) -> str:
        """Return the value itself."""
        return self._value
