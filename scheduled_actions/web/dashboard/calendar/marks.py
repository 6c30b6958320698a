"""What a calendar draws of a day: a mark for each of its lines, and where each leads.

Put together here rather than in the template: a month has hundreds, and is drawn in half the time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from scheduled_actions.calendar.days import Day, Line
    from scheduled_actions.web.dashboard.page import Visit

_ENDED = {"completed": "done", "failed": "bad"}


@dataclass(frozen=True, slots=True)
class Mark:
    """One line as it is drawn."""

    #: A name of the legend.
    kind: str
    href: str
    #: All that is known of it, with its instant in UTC.
    title: str
    #: The hour and minute of the viewer's clock.
    at: str
    what: str
    #: Empty for one alone.
    count: str


def marks(visit: Visit, given: Mapping[str, str], day: Day, lines: Iterable[Line]) -> list[Mark]:
    """Return the marks of a day's lines, for a calendar of that team."""
    return [
        Mark(
            kind=_kind(one),
            href=_leads(visit, given, day, one),
            title=_title(one),
            at=f"{one.at.astimezone(visit.zone):%H:%M}",
            what=one.title,
            count=f"{one.count:,}{'+' if one.is_cut else ''}" if _is_several(one) else "",
        )
        for one in lines
    ]


def _is_several(line: Line) -> bool:
    return line.count > 1 or line.is_cut


def _kind(line: Line) -> str:
    if line.kind == "ended":
        return _ENDED.get(line.status or "", "off")
    return "reminder" if line.kind == "escalation" else line.kind


def _title(line: Line) -> str:
    what = {"ended": line.status, "action": "waits"}.get(line.kind, line.kind)
    number = f", {line.count:,}{'+' if line.is_cut else ''} from" if _is_several(line) else ""
    return f"{line.title}: {what}{number} {line.at.isoformat(sep=' ', timespec='minutes')[:16]} UTC"


def _leads(visit: Visit, given: Mapping[str, str], day: Day, line: Line) -> str:
    """Return an address: one leads to itself, where it is edited; several to their list."""
    if line.kind == "forecast":
        return visit.link(f"/schedules/{line.schedule_id}")
    if line.deadline_id and line.kind != "action":
        return visit.link(f"/deadlines/{line.deadline_id}")
    if not _is_several(line):
        return visit.link(f"/actions/{line.action_id}")
    return visit.link(
        "/actions",
        status=line.status,
        action_type=line.action_type,
        team_id=given["team_id"],
        scheduled_from=_stamp(day.starts_at),
        scheduled_to=_stamp(day.ends_at),
    )


def _stamp(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%MZ}"
