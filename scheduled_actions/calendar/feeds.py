"""Create, list and revoke calendar feeds for calendar programs, and write the iCalendar text of a feed.

A feed has a private address. Its events are schedules, pending actions, and deadlines with their reminders as alarms.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from scheduled_actions.calendar import store
from scheduled_actions.calendar.rules.entries import Entry, begin
from scheduled_actions.calendar.rules.ics import CalendarEvent, calendar_text
from scheduled_actions.core import checks
from scheduled_actions.core.errors import BudgetExceeded, ScheduledActionsError, UnknownFeed
from scheduled_actions.core.evaluation_budget import STEPS, EvaluationBudget
from scheduled_actions.core.messages import listed
from scheduled_actions.core.stored_values import parse_uuid
from scheduled_actions.core.token_generation import TokenKind, digest_of
from scheduled_actions.database import clock
from scheduled_actions.database.connection import Connection, Database
from scheduled_actions.database.transactions import borrowed_connection
from scheduled_actions.recurrence.compiling import Recurrence
from scheduled_actions.recurrence.rrule.conversion import RRuleForm, as_rrule
from scheduled_actions.schedules import rule_lookup, store as schedule_store
from scheduled_actions.schedules.model import Schedule

_KIND = TokenKind("saf_")
NAME_LENGTH = 100
#: Maximum number of schedules in one feed.
_SCHEDULES_MOST = 1000
#: How far ahead a schedule without an equivalent RRULE is expanded, and the maximum number of its events.
_EXPANDED_AHEAD = timedelta(days=90)
_EXPANDED_MOST = 100
#: Maximum number of events in one feed: writing one takes a third of a millisecond.
_EVENTS_MOST = 1500
#: Maximum number of left-out schedules that the description lists by name.
_NAMED_MOST = 20
#: How far ahead and back actions and deadlines are read, and the maximum number of each.
_AHEAD = timedelta(days=366)
_BEHIND = timedelta(days=31)
_ROWS_MOST = 500


@dataclass(frozen=True, slots=True)
class Feeds:
    """The calendar feeds of one project.

    Args:
        database: The project's database.
        rules: Computes the occurrences of schedules.
    """

    database: Database
    rules: rule_lookup.ScheduleRules

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
    ) -> tuple[store.Feed, str]:
        """Create a feed; return it and the secret of its address, which cannot be read again.

        Args:
            name: The name of the calendar in calendar programs; 1 to 100 characters.
            team_id: Only entries of this team.
            user_id: Only schedules and actions with this `user_id`, and deadlines with this recipient.
            action_type: Only actions and schedules of this type, and no deadlines; None: entries of all types.
            token_id: The token that creates the feed; the feed stops working when the token expires or is revoked.
                None: the feed works until it is revoked itself.
            created_by: The name of the caller; stored.
            connection: The feed is created in the transaction of this connection; None: in that of the running
                transactional handler, otherwise in its own.

        Raises:
            InvalidArgument: An argument has an invalid value.
        """
        secret = _KIND.generate()
        values = {
            "name": checks.check_name("name", name, longest=NAME_LENGTH),
            "digest": digest_of(secret),
            "hint": _KIND.hint_of(secret),
            "team_id": checks.check_text("team_id", team_id),
            "user_id": checks.check_text("user_id", user_id),
            "action_type": checks.check_text("action_type", action_type),
            "token_id": token_id,
            "created_by": created_by,
        }
        with borrowed_connection(self.database, connection) as borrowed:
            return store.create_feed(borrowed, values), secret

    def newest(self, *, team_id: str | None = None, before: UUID | None = None, limit: int = 100) -> list[store.Feed]:
        """Return at most `limit` feeds, including revoked ones, the newest first.

        Args:
            team_id: Only feeds of this team; None: of all teams.
            before: Only feeds with ids below this one, which are older; None: all.
            limit: At least 1.
        """
        with self.database.connection() as connection:
            return store.newest_feeds(connection, team_id=team_id, before=before, limit=limit)

    def revoke(self, feed_id: UUID | str, *, team_id: str | None = None) -> store.Feed:
        """Revoke a feed, so that its address stops working; a second call changes nothing.

        Raises:
            UnknownFeed: There is no feed with that id (in that team).
        """
        feed = None
        if (wanted := parse_uuid(feed_id)) is not None:
            with self.database.connection() as connection:
                feed = store.revoke_feed(connection, wanted, team_id=team_id)
        if feed is None:
            raise UnknownFeed(feed_id)
        return feed

    def text(self, secret: str) -> bytes | None:
        """Return the iCalendar text of a feed; None if no usable feed has this secret.

        Raises:
            ExtraMissing: The extra `calendar` is not installed.
        """
        if not _KIND.is_one(secret):
            return None
        with self.database.connection() as connection:
            feed = store.find_feed(connection, digest_of(secret))
            if feed is None:
                return None
            now = clock.now(connection)
            schedules = _schedules(connection, feed)
            rows = list(_rows(connection, feed, now))
        reader = _ScheduleEvents(self.rules, now, most=_EVENTS_MOST - len(rows))
        events = [*reader.read(schedules), *rows]
        # The description is complete once the schedules are read.
        return calendar_text(feed.name, reader.description, events, now=now)


class _ScheduleEvents:
    """The events of a feed's schedules, computed within one budget.

    Args:
        rules: Computes the occurrences of schedules.
        now: The database's clock.
        most: The maximum number of events.
    """

    def __init__(self, rules: rule_lookup.ScheduleRules, now: datetime, *, most: int) -> None:
        self._rules = rules
        self._now = now
        self._most = most
        self._budget = EvaluationBudget("the feed", steps=STEPS // 2)
        self._left_out: list[str] = []
        #: The number of schedules whose events are incomplete.
        self._truncated = 0

    def read(self, schedules: list[Schedule]) -> list[CalendarEvent]:
        """Return the events of the schedules, in their order."""
        found: dict[UUID, list[CalendarEvent]] = {}
        for before, schedule in enumerate(rule_lookup.sparsest_first(schedules)):
            room = max(1, self._most // len(schedules), self._most - len(schedules))
            events = self._of_schedule(schedule, self._budget.part(of=len(schedules) - before), most=room)[
                : max(0, self._most)
            ]
            self._most -= len(events)
            found[schedule.id] = events
        return [event for schedule in schedules for event in found[schedule.id]]

    @property
    def description(self) -> str:
        """The description of the calendar, with the number of incomplete schedules and the names of those left out."""
        text = "Upcoming schedules, actions and deadlines of Scheduled Actions."
        if self._truncated:
            text += f" Truncated: only the next runs are shown for {self._truncated} of the schedules."
        if self._left_out:
            text += (
                " Schedules left out because they run at least 24 times a day or their rules cannot be evaluated: "
                f"{listed(self._left_out, most=_NAMED_MOST)}."
            )
        return text

    def _of_schedule(self, schedule: Schedule, budget: EvaluationBudget, *, most: int) -> list[CalendarEvent]:
        planned = schedule.next_occurrence_at
        try:
            rule = self._rules.rule_of(schedule, budget=budget)
            if planned is None:
                return []
            if not rule_lookup.fills_a_day(rule, planned):
                events = _events(schedule, rule, planned, self._now)
                self._truncated += len(events) > most
                return events[:most]
            self._left_out.append(_title(schedule))
        except BudgetExceeded:
            self._truncated += 1
            return [] if planned is None else [_event(schedule, planned, schedule.recurrence)]
        except ScheduledActionsError as error:
            self._left_out.append(f"{_title(schedule)} ({error})")
        return []


def _schedules(connection: Connection, feed: store.Feed) -> list[Schedule]:
    """Return the schedules that a feed shows, newest first, from the newest 1,000 active ones of its team and type."""
    found = schedule_store.find(
        connection,
        status="active",
        action_type=feed.action_type,
        team_id=feed.team_id,
        before=None,
        limit=_SCHEDULES_MOST,
    )
    return [one for one in found if feed.user_id in {None, one.user_id}]


def _rows(connection: Connection, feed: store.Feed, now: datetime) -> Iterator[CalendarEvent]:
    """Yield the deadlines of a feed, and its actions without a schedule or deadline, from at most 500 rows each.

    The event of a deadline has an alarm for each planned reminder that is not after the due instant. Deadlines have no
    action type, so a feed of one action type contains no deadlines.
    """
    start, end = begin(now - _BEHIND), now + _AHEAD
    waiting = store.actions(connection, start, end, user_id=feed.user_id, team_id=feed.team_id, limit=_ROWS_MOST)
    if feed.action_type is None:
        reminders: dict[UUID, list[datetime]] = defaultdict(list)
        for one in waiting:
            if one.kind == "reminder" and one.deadline_id is not None:
                reminders[one.deadline_id].append(one.at)
        for one in store.deadlines(
            connection, start, end, user_id=feed.user_id, team_id=feed.team_id, limit=_ROWS_MOST
        ):
            alarms = sorted((one.at - at for at in reminders[one.id] if at <= one.at), reverse=True)
            yield _of_entry(
                one,
                "deadline",
                f"Deadline of {one.target_type} {one.target_id}: {one.status}",
                alarms=tuple(alarms),
            )
    for one in waiting:
        is_alone = one.kind == "action" and one.schedule_id is None and one.deadline_id is None
        if is_alone and feed.action_type in {None, one.action_type}:
            about = f" about {one.target_type} {one.target_id}" if one.target_type else ""
            yield _of_entry(one, "action", f"{one.action_type}{about}")


def _of_entry(entry: Entry, category: str, text: str, alarms: tuple[timedelta, ...] = ()) -> CalendarEvent:
    # The first 48 bits of a UUID version 7 are milliseconds since 1970 (RFC 9562 §5.7).
    milliseconds = entry.id.int >> 80 if entry.id.version == 7 else 0  # noqa: PLR2004 - the version's own number
    return CalendarEvent(
        key=f"{category}-{entry.id}",
        title=entry.title,
        text=text,
        start=entry.at,
        created_at=datetime.fromtimestamp(milliseconds / 1000, UTC),
        changed_at=entry.changed_at,
        category=category,
        alarms=alarms,
    )


def _events(schedule: Schedule, rule: Recurrence, planned: datetime, now: datetime) -> list[CalendarEvent]:
    """Return one recurring event if the rule has an equivalent RRULE; otherwise events of the next occurrences.

    These are the planned one and those of the next 90 days, at most 100 in total. A rolling schedule has one event, of
    its planned occurrence.
    """
    if schedule.recurrence_type == "rolling":
        return [_event(schedule, planned, rule.description)]
    # From the very first occurrence, so that the event does not change between requests. A counted rule begins with the
    # planned occurrence. The exceptions of skips are listed for some months, beginning with the previous month.
    since = max(schedule.anchor_at, _previous_month(now)) if rule.has_skips else schedule.anchor_at
    first = None if schedule.remaining is not None else rule.next_after(since - datetime.resolution)
    start = planned if first is None else first.at
    if form := as_rrule(rule, start, remaining=schedule.remaining):
        changed_at = max(schedule.updated_at, since) if rule.has_skips else schedule.updated_at
        return [_event(schedule, start, rule.description, form=form, changed_at=changed_at)]
    most = _EXPANDED_MOST if schedule.remaining is None else min(_EXPANDED_MOST, schedule.remaining)
    instants = [planned, *(one.at for one in rule.between(planned, now + _EXPANDED_AHEAD, limit=most - 1))]
    return [_event(schedule, at, rule.description) for at in instants]


def _previous_month(now: datetime) -> datetime:
    """Return the beginning of the previous month."""
    return (now.astimezone(UTC).replace(day=1) - timedelta(days=1)).replace(
        day=1, hour=0, minute=0, second=0, microsecond=0
    )


def _event(
    schedule: Schedule,
    start: datetime,
    description: str,
    *,
    form: RRuleForm | None = None,
    changed_at: datetime | None = None,
) -> CalendarEvent:
    """Return the recurring event of a schedule; without an RRULE, the event of its occurrence at `start`."""
    occurrence = "" if form else f"-{start.astimezone(UTC):%Y%m%dT%H%M%SZ}"
    return CalendarEvent(
        key=f"schedule-{schedule.id}{occurrence}",
        title=_title(schedule),
        text=f"{schedule.action_type}: {description}",
        start=start,
        created_at=schedule.created_at,
        changed_at=changed_at or schedule.updated_at,
        category="schedule",
        rule=form,
    )


def _title(schedule: Schedule) -> str:
    return schedule.name or schedule.action_type
