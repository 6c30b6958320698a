"""Quiet hours: when a person is not to be disturbed, by the clock on their wall."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.recurrence.phrases import parse_time, time_text
from scheduled_actions.recurrence.zones import resolve

if TYPE_CHECKING:
    from datetime import time
    from zoneinfo import ZoneInfo

_EXPECTED = 'two times of day, such as "20:00-08:00"'


@dataclass(frozen=True, slots=True)
class QuietHours:
    """From one time of day to another, on the next day where the second is the earlier one."""

    start: time
    end: time

    @classmethod
    def parse(cls, text: str, *, name: str = "quiet_hours") -> QuietHours:
        """Return the quiet hours that `20:00-08:00` says.

        Raises:
            InvalidArgument: It is no two times of day, or twice the same.
        """
        first, _, second = text.partition("-") if isinstance(text, str) else ("", "", "")
        start, end = parse_time(first.strip()), parse_time(second.strip())
        if start is None or end is None or start == end:
            raise InvalidArgument(name, text, _EXPECTED)
        return cls(start, end)

    def __str__(self) -> str:
        return f"{time_text(self.start)}-{time_text(self.end)}"

    def ends_after(self, moment: datetime, zone: ZoneInfo) -> datetime | None:
        """Return when the quiet hours end that `moment` lies in; None where it lies in none.

        Args:
            moment: Aware.
            zone: Whose wall clock counts.

        Returns:
            In UTC. An end that a change of the clocks skips comes later by the gap.
        """
        wall = moment.astimezone(zone).replace(tzinfo=None, fold=0)
        begins_today = wall.time() >= self.start
        is_quiet = (
            begins_today and wall.time() < self.end if self.start < self.end else begins_today or wall.time() < self.end
        )
        if not is_quiet:
            return None
        day = wall.date() + timedelta(days=int(self.end < self.start and begins_today))
        end = resolve(datetime.combine(day, self.end), zone).at
        # Where the clocks are set back, a wall time may come again after the end did.
        return end if end > moment else None
