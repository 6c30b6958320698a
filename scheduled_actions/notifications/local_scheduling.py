"""Scheduling for many users at one time of day, each on the clock on their wall."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from scheduled_actions.core.checks import check_text
from scheduled_actions.core.errors import InvalidArgument, RecurrenceInvalid
from scheduled_actions.core.evaluation_budget import EvaluationBudget
from scheduled_actions.database.clock import now as database_now
from scheduled_actions.database.connection import whole
from scheduled_actions.database.transactions import borrowed_connection
from scheduled_actions.notifications.rules import local_times
from scheduled_actions.notifications.rules.local_times import User, next_local, zones_of
from scheduled_actions.recurrence.phrases import time_text
from scheduled_actions.schedules import store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import time
    from uuid import UUID

    import psycopg

    from scheduled_actions.actions.service import Scheduler
    from scheduled_actions.core.requester import Requester
    from scheduled_actions.database.connection import Database
    from scheduled_actions.schedules.rule_lookup import ScheduleRules
    from scheduled_actions.schedules.service import Schedules


@dataclass(frozen=True, slots=True, kw_only=True)
class LocallyScheduled:
    """What was scheduled for one user."""

    user_id: str
    #: IANA name.
    timezone: str
    #: The first time, in that zone.
    at: datetime
    #: The action; None of a series that has nothing planned.
    action_id: UUID | None
    #: The series; None of a single action.
    schedule_id: UUID | None


class LocalScheduling:
    """Schedules one action, or one series, per user.

    Args:
        database: Has the present moment.
        scheduler: Schedules single actions.
        schedules: Makes series.
        rules: Reads rules.
        usual_zone: Of users who name none.
    """

    def __init__(
        self, database: Database, scheduler: Scheduler, schedules: Schedules, rules: ScheduleRules, usual_zone: str
    ) -> None:
        self._database = database
        self._scheduler = scheduler
        self._schedules = schedules
        self._rules = rules
        self._usual_zone = usual_zone

    def schedule_local(
        self,
        action_type: str,
        payload: Any,  # noqa: ANN401 - any model
        local_time: str,
        users: Any,  # noqa: ANN401 - it is what is judged
        *,
        recurrence: str | None = None,
        name: str | None = None,
        team_id: str | None = None,
        requester: Requester | None = None,
        connection: psycopg.Connection[Any] | None = None,
        **options: Any,  # noqa: ANN401 - checked by name
    ) -> list[LocallyScheduled]:
        """Schedule for each user at the next such time of day on their clock: all of them, or nobody.

        Args:
            action_type: Names the handler.
            payload: The same for all; the action's `user_id` says for whom.
            local_time: `09:00`.
            users: As `parse_users` takes them.
            recurrence: A rule that begins then: one series per user. None: one action per user.
            name: Of the series, with the user's id behind it: asking again brings them up to date.
            team_id: The tenant.
            requester: The token that asks over HTTP; None: application code.
            connection: Joins the caller's own transaction.
            options: More arguments of `schedule_action`, or of `schedule_recurring_action`.

        Raises:
            RequestError: An argument cannot be what it is, the rule has a time of day of its own, or the requester may
                not schedule the type; nothing was scheduled.
            DatabaseUnavailable: The database cannot be reached; nothing was scheduled.
        """
        clock = local_times.parse_clock(local_time)
        people = local_times.parse_users(users, usual_zone=self._usual_zone)
        check_text("recurrence", recurrence, longest=2000)
        if name is not None and recurrence is None:
            raise InvalidArgument("name", name, "left out: only a series has a name")
        with borrowed_connection(self._database, connection) as borrowed, whole(borrowed):
            now = database_now(borrowed)
            firsts = {key: next_local(clock, zone, now) for key, zone in zones_of(people).items()}
            shared = {"team_id": team_id, "requester": requester, "connection": borrowed}
            wanted = _Wanted(action_type, payload, clock, options | shared)
            if recurrence is None:
                return self._actions(wanted, people, firsts)
            rule = self._rule(recurrence, clock, people, firsts)
            if name is not None:
                names = [_name_of(name, user) for user in people]
                store.lock_several(borrowed, names=names, name_team_id=team_id)
            series = [self._series(wanted, rule, user, name=name, first=firsts[user.zone.key]) for user in people]
        if connection is None:
            self._schedules.finish_left()
        return series

    def _actions(
        self, wanted: _Wanted, users: Sequence[User], firsts: Mapping[str, datetime]
    ) -> list[LocallyScheduled]:
        options = dict(wanted.options)
        requester, connection = options.pop("requester"), options.pop("connection")
        given = {**options, "action_type": wanted.action_type, "payload": wanted.payload}
        new = [{**given, "user_id": user.user_id, "scheduled_at": firsts[user.zone.key]} for user in users]
        scheduled = self._scheduler.schedule_actions(new, requester=requester, connection=connection)
        return [
            _told(user, firsts[user.zone.key], action_id=one.id, schedule_id=None)
            for user, one in zip(users, scheduled, strict=True)
        ]

    def _rule(self, recurrence: str, clock: time, users: Sequence[User], firsts: Mapping[str, datetime]) -> str:
        """Return the rule with its time of day, where it can say one, or else as it is."""
        # Said in the rule, it is kept also by a series that begins on a day on which the clocks skip it.
        with_time = f"{recurrence} at {time_text(clock)}"
        zones = zones_of(users)
        budget = EvaluationBudget("the recurrence in the zones of its users")
        if not self._is_rule(with_time, budget):
            with_time = recurrence
        for key, zone in zones.items():
            rule = self._rules.rule(with_time, timezone=key, anchor=firsts[key], skip=None, until=None, budget=budget)
            if not local_times.fits(rule, clock, zone, firsts[key]):
                expected = f'a rule that leaves the time of day to local_time ({time_text(clock)}): "daily", "weekly"'
                raise InvalidArgument("recurrence", recurrence, expected)
        return with_time

    def _is_rule(self, text: str, budget: EvaluationBudget) -> bool:
        try:
            self._rules.rule(text, timezone="UTC", anchor=_ANY_ANCHOR, skip=None, until=None, budget=budget)
        except RecurrenceInvalid:
            return False
        return True

    def _series(self, wanted: _Wanted, rule: str, user: User, *, name: str | None, first: datetime) -> LocallyScheduled:
        own_name = None if name is None else _name_of(name, user)
        schedule = self._schedules.schedule_recurring(
            wanted.action_type,
            wanted.payload,
            rule,
            name=own_name,
            scheduled_at=self._begun(own_name, user, wanted) or first,
            timezone=user.zone.key,
            user_id=user.user_id,
            **wanted.options,
        )
        at = schedule.next_occurrence_at or first
        return _told(user, at, action_id=schedule.next_action_id, schedule_id=schedule.id)

    @staticmethod
    def _begun(name: str | None, user: User, wanted: _Wanted) -> datetime | None:
        """Return when a series of that name began at the same time of day: asking again does not begin it anew."""
        if name is None:
            return None
        found = store.get(wanted.options["connection"], name=name, name_team_id=wanted.options["team_id"])
        began = None if found is None else found.schedule.definition.get("scheduled_at")
        if found is None or not isinstance(began, str) or found.schedule.timezone != user.zone.key:
            return None
        at = datetime.fromisoformat(began)
        return at if at.astimezone(user.zone).time() == wanted.clock else None


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What is scheduled for each."""

    action_type: str
    payload: Any
    clock: time
    #: Of every one; the connection, the team and the requester among them.
    options: Mapping[str, Any]


def _name_of(name: str, user: User) -> str:
    """Return the name of a user's own series."""
    return f"{name}:{user.user_id}"


#: Where a rule begins of which only its shape is asked.
_ANY_ANCHOR = datetime(2020, 1, 1, tzinfo=UTC)


def _told(user: User, at: datetime, *, action_id: UUID | None, schedule_id: UUID | None) -> LocallyScheduled:
    return LocallyScheduled(
        user_id=user.user_id,
        timezone=user.zone.key,
        at=at.astimezone(user.zone),
        action_id=action_id,
        schedule_id=schedule_id,
    )
