"""The chapter on recurrence: a series goes round on a clock that the story moves."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from psycopg import sql

from scheduled_actions import get_action, get_schedule, pause_schedule, schedule_recurring_action
from scheduled_actions.local import cron as local_cron
from scheduled_actions.recurrence import compile_recurrence

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduled_actions.local.demo.report import Report
    from scheduled_actions.local.project import LocalProject
    from scheduled_actions.recurrence import Occurrence
    from scheduled_actions.schedules.model import Schedule

#: The clocks go back there on 1 November 2026, at two o'clock.
_NEW_YORK = ZoneInfo("America/New_York")
_NAME = "count"
#: Stops the clock of all statements, as the test kit does.
_CLOCK = "create or replace function scheduled_actions_now() returns timestamptz language sql stable as {}"


class Series:
    """The chapter, told on the running project.

    Args:
        report: Where it is told.
        project: The running project, whose runtime is this process's own.
    """

    def __init__(self, report: Report, project: LocalProject) -> None:
        self._report = report
        self._project = project

    def tell(self) -> None:
        """Go round; the clock stays where the last round was.

        Raises:
            Disappointed: Something was not as it had to be.
        """
        self._say_in_words()
        planned = self._begin()
        self._go_round(planned)
        self._go_on_after_a_failure(planned)
        self._make_up_for_silence()
        self._pause()

    def _say_in_words(self) -> None:
        report = self._report
        report.does('"30 1 * * *" in New York, around the night that the clocks go back')
        start = datetime(2026, 10, 30, 12, tzinfo=_NEW_YORK)
        rule = compile_recurrence("30 1 * * *", timezone=_NEW_YORK.key, anchor=start)
        found = rule.between(start, start + timedelta(days=3), limit=10)
        report.shows("\n".join([rule.description, *_lines(found, _NEW_YORK)]))
        days = [one.at.astimezone(_NEW_YORK).date().isoformat() for one in found]
        report.check(
            "once on every day, also where 01:30 comes twice", days, ["2026-10-31", "2026-11-01", "2026-11-02"]
        )

    def _begin(self) -> list[datetime]:
        report = self._report
        report.does(
            'schedule_recurring_action("stock:count", {"article": "desk lamp"}, "every 10 minutes", name="count")'
        )
        schedule = self._ask()
        planned = list(self._project.runtime.schedules.upcoming(schedule, count=3))
        rule = self._project.runtime.schedule_rules.rule_of(schedule)
        report.shows("\n".join([rule.description, *(f"{at:%Y-%m-%d %H:%M:%S}Z" for at in planned)]))
        report.check("ten minutes apart", {late - early for early, late in pairwise(planned)}, {timedelta(minutes=10)})
        report.does("the same again, as an application does at each start")
        report.check("it is the same schedule, and nothing of it has changed", self._ask(), schedule)
        return planned

    def _go_round(self, planned: list[datetime]) -> None:
        for at in planned[:2]:
            action = self._schedule.next_action_id
            self._ping_at(at, "succeeded", 1)
            if action is not None:
                self._report.shows(f"counted: {get_action(action).result}")
        self._report.check(
            "the next one was planned by the claim of the last", self._schedule.next_occurrence_at, planned[2]
        )

    def _go_on_after_a_failure(self, planned: list[datetime]) -> None:
        locked = self._project.config.project / "store-is-locked"
        self._report.does("somebody locks the store")
        locked.touch()
        self._ping_at(planned[2], "failed", 1)
        locked.unlink()
        self._report.check(
            "the failure ended nothing", self._schedule.next_occurrence_at, planned[2] + timedelta(minutes=10)
        )

    def _make_up_for_silence(self) -> None:
        silence = timedelta(hours=1)
        before = self._schedule
        assert before.next_occurrence_at is not None  # noqa: S101 - checked a moment ago
        self._report.does("nothing pings for an hour")
        self._ping_at(before.next_occurrence_at + silence, "succeeded", 1)
        after = self._schedule
        self._report.check(
            "one catch-up, six were missed", (after.executions, after.missed), (before.executions + 1, 6)
        )

    def _pause(self) -> None:
        self._report.does('pause_schedule("count", note="the shop is closed")')
        paused = pause_schedule(_NAME, note="the shop is closed")
        self._report.check("nothing is planned any more", (paused.status, paused.next_action_id), ("paused", None))

    @property
    def _schedule(self) -> Schedule:
        return get_schedule(_NAME)

    @staticmethod
    def _ask() -> Schedule:
        return schedule_recurring_action("stock:count", {"article": "desk lamp"}, "every 10 minutes", name=_NAME)

    def _ping_at(self, at: datetime, count: str, expected: int) -> None:
        """Let the database's clock stand at an instant, tick once, and check one of the tick's counts."""
        self._report.does(f"it is {at:%H:%M:%S}: ping")
        with self._project.runtime.database.connection() as connection:
            text = sql.Literal(f"select {at.isoformat()!r}::timestamptz")
            connection.execute(sql.SQL(_CLOCK).format(text))
        answer = self._project.ping()
        self._report.shows(answer.problem or local_cron.summary(answer.body) or "nothing was due")
        self._report.check(f"{expected} {count}", answer.body.get(count), expected)


def _lines(found: Iterable[Occurrence], zone: ZoneInfo) -> list[str]:
    """Return occurrences in local time with offset, and what a change of the clocks did to them."""
    return [
        "  ".join([one.at.astimezone(zone).isoformat(" "), *(f"({remark})" for remark in one.remarks)]) for one in found
    ]
