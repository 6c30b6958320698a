"""Schedule an action or a recurring action for many users at a time of day in their own time zones."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import psycopg

from scheduled_actions.actions.service import Scheduler
from scheduled_actions.core import checks as arguments
from scheduled_actions.core.errors import InvalidArgument, RecurrenceInvalid
from scheduled_actions.core.evaluation_budget import EvaluationBudget
from scheduled_actions.core.requester import Requester
from scheduled_actions.database.clock import now as database_now
from scheduled_actions.database.connection import Connection, Database, atomic
from scheduled_actions.database.transactions import borrowed_connection, commits_itself
from scheduled_actions.notifications.rules.people import Person
from scheduled_actions.recurrence.compiling import Recurrence
from scheduled_actions.recurrence.model import resolve
from scheduled_actions.recurrence.phrases import parse_time, time_text
from scheduled_actions.schedules import store
from scheduled_actions.schedules.model import ScheduleRule
from scheduled_actions.schedules.rule_lookup import ScheduleRules
from scheduled_actions.schedules.service import Schedules

#: Maximum number of users per call.
USERS_MOST = 1000
_EXPECTED = (
    'an object of time zones by user id, {"ann": "Europe/Berlin"}, or a list of objects with user_id and timezone'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSchedule:
    """The action created, or the schedule created or updated, for one user."""

    user_id: str
    #: IANA name.
    timezone: str
    #: The instant of the action, or the next occurrence of the schedule, in that time zone. Without a planned
    #: occurrence, the next `local_time`.
    at: datetime
    #: The id of the action, or of the schedule's next action; None: the schedule has no planned occurrence.
    action_id: UUID | None
    #: The id of the schedule; None: a single action.
    schedule_id: UUID | None


@dataclass(frozen=True, slots=True)
class LocalScheduling:
    """Creates an action, or creates or updates a schedule, for each of many users."""

    database: Database
    scheduler: Scheduler
    schedules: Schedules
    rules: ScheduleRules
    #: The IANA name of the default time zone of users.
    usual_zone: str

    def schedule_local(
        self,
        action_type: str,
        payload: Any,  # noqa: ANN401 - any model
        local_time: str,
        users: Any,  # noqa: ANN401 - validated by parse_users
        *,
        recurrence: str | None = None,
        name: str | None = None,
        team_id: str | None = None,
        requester: Requester | None = None,
        connection: psycopg.Connection[Any] | None = None,
        **options: Any,  # noqa: ANN401 - checked by name
    ) -> list[UserSchedule]:
        """Create an action or a schedule per user, at the next occurrence of a time of day in the user's time zone.

        Either all users are scheduled, or none.

        Args:
            action_type: Selects the handler.
            payload: The same for all users; each action has the `user_id` of its user.
            local_time: The time of day, such as `09:00`.
            users: As `parse_users` takes them.
            recurrence: The rule of one schedule per user, whose occurrences must be at `local_time`. None: one action
                per user.
            name: The prefix of the schedules' names, `NAME:USER_ID`. Existing schedules with these names are
                updated.
            team_id: The team that owns the actions or schedules.
            requester: The token of an HTTP request; None: application code.
            connection: Joins the caller's transaction.
            options: Further arguments of `schedule_action`, or of `schedule_recurring_action`.

        Returns:
            The action or schedule of each user, in the order of `users`.

        Raises:
            RequestError: An argument is invalid, the rule has occurrences at another time of day, or the requester
                may not schedule the type; nothing was scheduled.
            DatabaseUnavailable: The database cannot be reached; nothing was scheduled.
        """
        clock = parse_clock(local_time)
        zones = parse_users(users, usual_zone=self.usual_zone)
        arguments.check_recurrence("recurrence", recurrence)
        if name is not None and recurrence is None:
            raise InvalidArgument("name", problem="needs a recurrence, because single actions have no name")
        with borrowed_connection(self.database, connection) as borrowed, atomic(borrowed):
            now = database_now(borrowed)
            firsts = {zone: next_local(clock, zone, now) for zone in dict.fromkeys(zones.values())}
            shared: dict[str, Any] = {"requester": requester, "connection": borrowed}
            if recurrence is None:
                given = {**options, "action_type": action_type, "payload": payload, "team_id": team_id}
                new = [{**given, "user_id": user_id, "scheduled_at": firsts[zone]} for user_id, zone in zones.items()]
                return [
                    _user_schedule(user_id, zone, firsts[zone], action_id=one.id)
                    for (user_id, zone), one in zip(
                        zones.items(), self.scheduler.schedule_actions(new, **shared), strict=True
                    )
                ]
            rule = self._rule(recurrence, clock, firsts)
            if name is not None:
                store.lock_several(borrowed, names=[f"{name}:{user_id}" for user_id in zones], name_team_id=team_id)
            result = []
            for user_id, zone in zones.items():
                own_name, first = None if name is None else f"{name}:{user_id}", firsts[zone]
                schedule = self.schedules.schedule_recurring(
                    action_type,
                    payload,
                    rule,
                    name=own_name,
                    scheduled_at=_existing_start(borrowed, own_name, team_id, zone, clock) or first,
                    timezone=zone.key,
                    user_id=user_id,
                    **options,
                    team_id=team_id,
                    **shared,
                )
                at = schedule.next_occurrence_at or first
                result.append(
                    _user_schedule(user_id, zone, at, action_id=schedule.next_action_id, schedule_id=schedule.id)
                )
        if commits_itself(connection):
            self.schedules.hook.run_deferred()
        return result

    def _rule(self, recurrence: str, clock: time, firsts: Mapping[ZoneInfo, datetime]) -> str:
        """Return the rule with the time of day added if its syntax allows one, otherwise unchanged.

        Raises:
            InvalidArgument: The rule has no occurrence, or one of its first two is at another time of day.
            RecurrenceInvalid: The rule is invalid.
            BudgetExceeded: Evaluating the rule in all zones takes too many steps.
        """
        # If the rule contains the time of day, a schedule that starts in a DST gap is correct from the next day on.
        rule_text = f"{recurrence} at {time_text(clock)}"
        budget = EvaluationBudget("the recurrence in the time zones of the users")
        try:
            self.rules.rule_of(ScheduleRule(recurrence=rule_text), budget=budget)
        except RecurrenceInvalid:
            rule_text = recurrence
        for zone, first in firsts.items():
            rule = self.rules.rule_of(
                ScheduleRule(recurrence=rule_text, timezone=zone.key, anchor_at=first), budget=budget
            )
            if not _fits(rule, clock, zone, first):
                expected = f'a rule that occurs only at {time_text(clock)} (local_time), such as "daily" or "weekly"'
                raise InvalidArgument("recurrence", recurrence, expected)
        return rule_text


def _existing_start(
    connection: Connection, name: str | None, team_id: str | None, zone: ZoneInfo, clock: time
) -> datetime | None:
    """Return the start of an existing schedule with the same zone and time of day; None if there is none.

    With that start, an update keeps the phase of the schedule.
    """
    found = None if name is None else store.get(connection, name=name, name_team_id=team_id)
    start = None if found is None else found.schedule.definition.get("scheduled_at")
    if found is None or not isinstance(start, str) or found.schedule.timezone != zone.key:
        return None
    at = datetime.fromisoformat(start)
    return at if at.astimezone(zone).time() == clock else None


def _user_schedule(
    user_id: str, zone: ZoneInfo, at: datetime, *, action_id: UUID | None, schedule_id: UUID | None = None
) -> UserSchedule:
    return UserSchedule(
        user_id=user_id,
        timezone=zone.key,
        at=at.astimezone(zone),
        action_id=action_id,
        schedule_id=schedule_id,
    )


def parse_clock(text: object) -> time:
    """Parse a time of day such as `09:00`.

    Raises:
        InvalidArgument: The value is not a time of day.
    """
    clock = parse_time(text) if isinstance(text, str) else None
    if clock is None:
        raise InvalidArgument("local_time", text, 'a time of day, such as "09:00"')
    return clock


def parse_users(given: Any, *, usual_zone: str) -> dict[str, ZoneInfo]:  # noqa: ANN401 - validated here
    """Return the time zones of the users of a call, by user id.

    Args:
        given: Time zones by user id; or a list of `Person`s with an id, or of mappings with `user_id` and `timezone`.
            A user whose time zone is None gets `usual_zone`.
        usual_zone: The IANA name of the default time zone.

    Raises:
        InvalidArgument: A user has no id or an invalid time zone, or occurs twice; or there are no users, or too many.
    """
    if isinstance(given, Mapping):
        pairs: list[tuple[Any, Any]] = list(given.items())
    elif isinstance(given, list | tuple):
        pairs = [_pair(one) for one in given]
    else:
        raise InvalidArgument("users", type(given).__name__, problem=f"must be {_EXPECTED}")
    if not 1 <= len(pairs) <= USERS_MOST:
        raise InvalidArgument("users", len(pairs), problem=f"has {len(pairs):,} users; 1 to {USERS_MOST:,} are allowed")
    users: dict[str, ZoneInfo] = {}
    for position, (given_id, zone) in enumerate(pairs):
        name = f"users[{position}]"
        user_id = arguments.check_name(f"{name}.user_id", given_id, longest=255)
        if user_id in users:
            raise InvalidArgument(f"{name}.user_id", user_id, problem=f"occurs twice: {user_id}")
        try:
            users[user_id] = arguments.check_timezone(zone or usual_zone)
        except InvalidArgument as error:
            raise error.renamed(f"{name}.timezone") from None
    return users


def _pair(given: Any) -> tuple[Any, Any]:  # noqa: ANN401 - validated here
    if isinstance(given, Person):
        return given.id, given.timezone
    if isinstance(given, Mapping) and given.keys() <= {"user_id", "timezone"}:
        return given.get("user_id"), given.get("timezone")
    raise InvalidArgument("users", type(given).__name__, problem=f"must be {_EXPECTED}")


def next_local(clock: time, zone: ZoneInfo, now: datetime) -> datetime:
    """Return the next instant after `now`, in UTC, at which it is a given time of day in a zone.

    A time in a DST gap moves forward by the gap; an ambiguous time means its first occurrence.

    Args:
        clock: The time of day.
        zone: The time zone of the time of day.
        now: Aware.
    """
    days = (now.astimezone(zone).date() + timedelta(days=number) for number in range(3))
    return next(at for day in days if (at := resolve(datetime.combine(day, clock), zone).at) > now)


def _fits(rule: Recurrence, clock: time, zone: ZoneInfo, first: datetime) -> bool:
    """Return whether the first two occurrences of a rule at or after `first` are at the time `clock` in `zone`.

    Returns:
        Also True if the only occurrence is at that time; False if there is none.
    """
    found = rule.next_after(first - timedelta(microseconds=1))
    if found is None:
        return False
    # The second occurrence is also compared, because "every 2 hours" starts at the right time of day, too.
    following = rule.next_after(found.at) or found
    return all(
        at == resolve(datetime.combine(at.astimezone(zone).date(), clock), zone).at for at in (found.at, following.at)
    )
