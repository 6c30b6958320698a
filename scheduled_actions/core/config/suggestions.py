"""What somebody who wrote the name of no setting probably meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

#: How alike two names are of which one was meant for the other.
_ALIKE = 0.75


def refusal(key: str, *, beside: Iterable[str], elsewhere: Iterable[str]) -> str:
    """Return why a key is refused, with the setting that was probably meant.

    Args:
        key: As it was written, with the names of the tables it stands in.
        beside: The names that its table knows.
        elsewhere: All settings, with the names of their tables: a line at the end of the file belongs to the last one.
    """
    table, _, name = key.rpartition(".")
    by_name = {dotted.rpartition(".")[2]: dotted for dotted in elsewhere}
    by_name |= {one: f"{table}.{one}" if table else one for one in beside}
    return _refusal(name, by_name, is_in_table=bool(table))


def refused_variable(variable: str, known: Iterable[str]) -> str:
    """Return why a variable of the environment is refused, with the one that was probably meant."""
    return _refusal(variable, {one: one for one in known}, is_in_table=False)


def _refusal(name: str, by_name: dict[str, str], *, is_in_table: bool) -> str:
    import difflib  # noqa: PLC0415 - settings that can be used need none of it

    near = difflib.get_close_matches(name, by_name, n=1, cutoff=_ALIKE)
    # Without its unit, say: `base` for `base_seconds`.
    near = near or [one for one in by_name if one.startswith(f"{name}_")]
    if not near:
        return "is no setting; see docs/reference/settings.md"
    meant = by_name[near[0]]
    place = ", which stands above the first [table]" if is_in_table and "." not in meant else ""
    return f"is no setting; did you mean {meant}{place}? See docs/reference/settings.md"
