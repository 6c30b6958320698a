"""The order of calendar entries, and the cursors of pages."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest
from hypothesis import given, strategies as st

from scheduled_actions.calendar.rules.entries import SOURCES, Entry, Place, begin, merge
from scheduled_actions.core.errors import InvalidArgument
from tests.factories import NOW

KINDS = {"deadlines": "deadline", "actions": "action", "schedules": "forecast"}


def an_entry(source="actions", *, minutes=0, number=1):
    nothing = dict.fromkeys(Entry.__dataclass_fields__)
    values = {"kind": KINDS[source], "at": NOW + timedelta(minutes=minutes), "id": UUID(int=number), "title": "x"}
    return Entry(**nothing | values)


def test_entries_are_ordered_by_instant_then_by_source_then_by_id():
    deadline, first, second, forecast = (
        an_entry("deadlines", number=9), an_entry(number=1), an_entry(number=2), an_entry("schedules", number=0),
    )  # fmt: skip
    later = an_entry("deadlines", minutes=1)

    entries, has_more = merge([[deadline, later], [first, second], [forecast]], limit=4)

    assert entries == [deadline, first, second, forecast]
    assert has_more
    assert [one.is_forecast for one in entries] == [False, False, False, True]


@given(
    st.lists(st.tuples(st.sampled_from(SOURCES), st.integers(0, 3), st.integers(1, 5)), unique=True, max_size=30),
    st.integers(1, 5),
)
def test_paging_by_places_lists_every_entry_once(rows, limit):
    everything = sorted(
        (an_entry(source, minutes=minutes, number=number) for source, minutes, number in rows),
        key=lambda one: one.place,
    )
    after, shown, has_more = begin(NOW), [], True
    while has_more:
        sources = []
        for source in SOURCES:
            at, entry_id = after.parameters(source).values()
            mine = [one for one in everything if one.kind == KINDS[source]]
            sources.append([one for one in mine if (one.at, one.id) > (at, entry_id)])
        entries, has_more = merge(sources, limit=limit)
        shown += entries
        after = Place.parse(str(entries[-1].place)) if entries else after

    assert shown == everything


def test_the_first_place_precedes_every_entry_at_its_instant():
    assert begin(NOW) < an_entry("deadlines", number=0).place
    assert begin(NOW).parameters("deadlines") == {"after_at": NOW, "after_id": UUID(int=0)}


@pytest.mark.parametrize("cursor", ["", "x", "2026-03-04T12:00:00~3~" + "0" * 32, "2026-13-04T12:00:00~1~" + "0" * 32])
def test_an_invalid_cursor_is_rejected(cursor):
    with pytest.raises(InvalidArgument, match="next_cursor of the previous page"):
        Place.parse(cursor)
