"""`get_calendar` returns the pages of the calendar."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduled_actions import get_calendar, schedule_action, schedule_recurring_action
from scheduled_actions.core.errors import InvalidArgument
from tests.factories import NOW, set_clock

DAY = timedelta(days=1)


def test_the_entries_of_a_user_are_returned_in_pages(project, connection):
    set_clock(connection, NOW)
    schedule_action("test:run", {}, scheduled_at=DAY, user_id="bob")
    single = schedule_action("test:run", {}, scheduled_at=DAY, user_id="ann", team_id="red")
    schedule = schedule_recurring_action("test:run", {}, "daily at 09:00", user_id="ann", team_id="red")

    first = get_calendar("ann", end=NOW + 2 * DAY, team_id="red", limit=2)
    second = get_calendar("ann", start=first.start, end=first.end, team_id="red", cursor=first.next_cursor)

    entries = first.entries + second.entries
    assert [(one.kind, one.schedule_id == schedule.id) for one in entries] == [
        ("action", True), ("action", False), ("forecast", True),
    ]  # fmt: skip
    assert entries[1].action_id == single.id
    assert (first.start, first.end, len(first.entries), second.next_cursor) == (NOW, NOW + 2 * DAY, 2, None)


def test_an_invalid_range_is_refused_with_the_names_of_the_arguments(project, connection):
    set_clock(connection, NOW)

    with pytest.raises(InvalidArgument, match=r"^end must be after the start of the range .* at most 366 days later"):
        get_calendar(end=NOW + 367 * DAY)
    with pytest.raises(InvalidArgument, match=r"^start: .* is not a time with an offset"):
        get_calendar(start=NOW.replace(tzinfo=None))
