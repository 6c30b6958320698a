"""Calendar feeds: private addresses from which calendar programs read what will run."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from scheduled_actions.calendar import feed_entries
from scheduled_actions.calendar import feeds_store as store
from scheduled_actions.calendar.model import Feed
from scheduled_actions.calendar.rules.ics import Entry, calendar_text
from scheduled_actions.core import checks as arguments
from scheduled_actions.core.errors import BudgetExceeded, ScheduledActionsError, UnknownFeed
from scheduled_actions.core.evaluation_budget import STEPS, EvaluationBudget
from scheduled_actions.core.token_generation import Minting, digest_of
from scheduled_actions.database import clock
from scheduled_actions.database.transactions import borrowed_connection
from scheduled_actions.schedules import forecast
from scheduled_actions.schedules import store as schedule_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scheduled_actions.database.connection import Connection, Database
    from scheduled_actions.recurrence import Recurrence
    from scheduled_actions.schedules.model import Schedule
    from scheduled_actions.schedules.rule_lookup import ScheduleRules

_MINTING = Minting("saf_")
NAME_LENGTH = 100
#: Schedules in one feed.
_SCHEDULES_MOST = 1000
_PAGE = 500
#: Of a schedule that no RRULE says: how far ahead, and how many.
_AHEAD = timedelta(days=90)
_SINGLE_MOST = 100
#: Events in one feed: writing one takes a third of a millisecond.
_EVENTS_MOST = 1500
#: Schedules named among those that are left out.
_NAMED_MOST = 20
_MOMENT = timedelta(microseconds=1)


class Feeds:
    """The calendar feeds of one project.

    Args:
        database: Where the tables are.
        rules: Knows the rules of schedules.
    """

    def __init__(self, database: Database, rules: ScheduleRules) -> None:
        self._database = database
        self._rules = rules

    def create(
        self,
        name: str,
        *,
        team_id: str | None = None,
        user_id: str | None = None,
        action_type: str | None = None,
        token_id: UUID | None = None,
        created_by: str | None = None,
        connection: Connection | None = None,
    ) -> tuple[Feed, str]:
        """Make a feed; return what is kept of it, and the secret of its address, which nobody can read again.

        Args:
            name: What calendar programs call it; 1 to 100 characters.
            team_id: Only what belongs to this team.
            user_id: Only what belongs to this user.
            action_type: Only of this type.
            token_id: The token that made it: with that one the feed ends.
            created_by: Who asked for it.
            connection: Its transaction decides whether the feed ever was.

        Raises:
            InvalidArgument: A value is not what it must be; nothing was made.
        """
        minted = _MINTING.mint()
        values = {
            "name": arguments.check_name("name", name, longest=NAME_LENGTH),
            "digest": minted.digest,
            "hint": minted.hint,
            "team_id": arguments.check_text("team_id", team_id),
            "user_id": arguments.check_text("user_id", user_id),
            "action_type": arguments.check_text("action_type", action_type),
            "token_id": token_id,
            "created_by": created_by,
        }
        with borrowed_connection(self._database, connection) as borrowed:
            return _feed(store.create(borrowed, values)), minted.secret

    def newest(self, *, team_id: str | None = None, before: UUID | None = None, limit: int = 100) -> list[Feed]:
        """Return the newest feeds (of a team), at most `limit`, those with ids below `before`."""
        with self._database.connection() as connection:
            return [_feed(row) for row in store.newest(connection, team_id=team_id, before=before, limit=limit)]

    def revoke(self, feed_id: UUID | str, *, team_id: str | None = None) -> Feed:
        """Let the address of a feed answer nothing any more; one revoked before stays as it was.

        Raises:
            UnknownFeed: There is none of that id (in that team).
        """
        try:
            wanted = feed_id if isinstance(feed_id, UUID) else UUID(feed_id)
        except ValueError:
            raise UnknownFeed(feed_id) from None
        with self._database.connection() as connection:
            row = store.revoke(connection, wanted, team_id=team_id)
        if row is None:
            raise UnknownFeed(feed_id)
        return _feed(row)

    def text(self, secret: str) -> bytes | None:
        """Return the calendar behind an address; None for one that answers nothing, or nothing any more.

        Raises:
            ExtraMissing: The extra `calendar` is not installed.
        """
        if not _MINTING.is_one(secret):
            return None
        with self._database.connection() as connection:
            row = store.find(connection, digest_of(secret))
            if row is None:
                return None
            feed = _feed(row)
            now = clock.now(connection)
            schedules = list(_schedules(connection, feed))
            to_come = list(feed_entries.to_come(connection, feed))
        reading = _Reading(self._rules, now, most=_EVENTS_MOST - len(to_come))
        entries = [*reading.of_schedules(schedules), *to_come]
        return calendar_text(feed.name, reading.description, entries, now=now)


class _TooOften(Exception):
    """A schedule that would fill every hour of a calendar."""


class _Reading:
    """The events of a feed's schedules, within one budget.

    Args:
        rules: Knows the rules of schedules.
        now: The database's.
        most: How many events there may be.
    """

    def __init__(self, rules: ScheduleRules, now: datetime, *, most: int) -> None:
        self._rules = rules
        self._now = now
        self._most = most
        self._budget = EvaluationBudget("the feed", steps=STEPS // 2)
        self._left_out: list[str] = []
        #: How many schedules are shown with less than a whole reading would have of them.
        self._truncated = 0

    def of_schedules(self, schedules: list[Schedule]) -> list[Entry]:
        """Return the events of schedules, in their order."""
        found: dict[UUID, list[Entry]] = {}
        for before, schedule in enumerate(forecast.sparsest_first(schedules)):
            share = self._budget.part(of=len(schedules) - before)
            room = max(1, self._most // len(schedules), self._most - len(schedules))
            events = self._of_schedule(schedule, share, most=room)[: max(0, self._most)]
            self._most -= len(events)
            found[schedule.id] = events
        return [event for schedule in schedules for event in found[schedule.id]]

    def _of_schedule(self, schedule: Schedule, budget: EvaluationBudget, *, most: int) -> list[Entry]:
        try:
            events = list(_entries(schedule, self._rules.rule_of(schedule, budget=budget), self._now))
            self._truncated += len(events) > most
            return events[:most]
        except _TooOften:
            self._left_out.append(_title(schedule))
        except BudgetExceeded:
            self._truncated += 1
            if schedule.next_occurrence_at is not None:
                return [_single(schedule, schedule.next_occurrence_at, schedule.recurrence)]
        except ScheduledActionsError as error:
            self._left_out.append(f"{_title(schedule)} ({error})")
        return []

    @property
    def description(self) -> str:
        """What the calendar holds, and what it does not."""
        said = "What Scheduled Actions will run."
        if self._truncated:
            said += f" Truncated: of {self._truncated} schedules only the next runs are shown."
        if self._left_out:
            left_out = ", ".join(self._left_out[:_NAMED_MOST])
            said += f" Left out, for they occur too often to be seen or cannot be followed: {left_out}"
            said += f" and {len(self._left_out) - _NAMED_MOST} others." if len(self._left_out) > _NAMED_MOST else "."
        return said


def _schedules(connection: Connection, feed: Feed) -> Iterator[Schedule]:
    """Yield the active schedules that a feed shows, the newest first."""
    before: UUID | None = None
    for _ in range(_SCHEDULES_MOST // _PAGE):
        page = schedule_store.find(
            connection,
            status="active",
            action_type=feed.action_type,
            team_id=feed.team_id,
            before=before,
            limit=_PAGE,
        )
        yield from (one for one in page if feed.user_id in {None, one.user_id})
        if len(page) < _PAGE:
            return
        before = page[-1].id


def _entries(schedule: Schedule, rule: Recurrence, now: datetime) -> Iterator[Entry]:
    """Yield one event that recurs where an RRULE says the same, else the next occurrences one by one."""
    from scheduled_actions.recurrence.rrule.conversion import as_rrule  # noqa: PLC0415 - only calendars ask

    planned = schedule.next_occurrence_at
    if planned is None:
        return
    if forecast.fills_a_day(rule, planned):
        raise _TooOften
    # From the very first, so that the event stays the same from reading to reading. What is counted down begins now;
    # what skips leave out is listed for some months, which begin with the one before.
    since = schedule.anchor_at
    if rule.has_skips:
        since = max(since, _month_before(now))
    first = None if schedule.remaining is not None else rule.next_after(since - _MOMENT)
    start = planned if first is None else first.at
    is_rolling = schedule.recurrence_type == "rolling"
    form = None if is_rolling else as_rrule(rule, start, remaining=schedule.remaining)
    if form is not None:
        text = f"{schedule.action_type}: {rule.description}"
        changed_at = max(schedule.updated_at, since) if rule.has_skips else schedule.updated_at
        whole = _entry(schedule, start, text, key=f"schedule-{schedule.id}")
        yield replace(whole, rule=form, changed_at=changed_at)
        return
    most = _SINGLE_MOST if schedule.remaining is None else min(_SINGLE_MOST, schedule.remaining)
    instants = [planned, *(one.at for one in rule.between(planned, now + _AHEAD, limit=most - 1))]
    for at in instants[:1] if is_rolling else instants:
        yield _single(schedule, at, rule.description)


def _month_before(now: datetime) -> datetime:
    """Return the beginning of the month before the present one."""
    return (now.astimezone(UTC).replace(day=1) - timedelta(days=1)).replace(
        day=1, hour=0, minute=0, second=0, microsecond=0
    )


def _single(schedule: Schedule, at: datetime, words: str) -> Entry:
    """Return the event of one occurrence."""
    key = f"schedule-{schedule.id}-{at.astimezone(UTC):%Y%m%dT%H%M%SZ}"
    return _entry(schedule, at, f"{schedule.action_type}: {words}", key=key)


def _entry(schedule: Schedule, start: datetime, text: str, *, key: str) -> Entry:
    return Entry(
        key=key,
        title=_title(schedule),
        text=text,
        start=start,
        made_at=schedule.created_at,
        changed_at=schedule.updated_at,
        category="schedule",
    )


def _title(schedule: Schedule) -> str:
    return schedule.name or schedule.action_type


def _feed(row: store.Row) -> Feed:
    values: Iterator[Any] = (one.astimezone(UTC) if isinstance(one, datetime) else one for one in row)
    return Feed(**dict(zip(_FIELDS, values, strict=True)))


_FIELDS = [one.name for one in fields(Feed)]
