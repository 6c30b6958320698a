"""Schedules: made, read and changed; and those declared in the code, kept in step with it."""

from __future__ import annotations

import hashlib
import json
import logging
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import psycopg

from scheduled_actions.core import checks as arguments
from scheduled_actions.core.errors import InvalidArgument, RecurrenceInvalid, ScheduledActionsError, UnknownSchedule
from scheduled_actions.core.evaluation_budget import EvaluationBudget
from scheduled_actions.core.pages import READ_MOST
from scheduled_actions.database import clock
from scheduled_actions.database.boundary import contain, reason_of
from scheduled_actions.database.connection import whole
from scheduled_actions.database.transactions import is_own
from scheduled_actions.schedules import store
from scheduled_actions.schedules.model import functions_named
from scheduled_actions.schedules.operations import ScheduleOperations
from scheduled_actions.schedules.rules import new_schedule, series

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from uuid import UUID

    from scheduled_actions.core.requester import Requester
    from scheduled_actions.database.connection import Connection
    from scheduled_actions.schedules.model import Schedule

log = logging.getLogger("scheduled_actions")

#: Who pauses what the code has dropped, and resumes it when it is there again.
SYNC = "scheduled-actions schedules sync"

#: What asking for a schedule did to it.
Change: TypeAlias = Literal["created", "changed", "unchanged"]


class _Declaration(NamedTuple):
    """A schedule that the code declares, validated."""

    action_type: str
    definition: dict[str, Any]
    payload: str


class Schedules(ScheduleOperations):
    """Schedules of one project: made, changed, read, operated, and kept in step with the code."""

    # -- making and changing -------------------------------------------------------------------------------------------

    def schedule_recurring(
        self,
        action_type: str,
        payload: Any,  # noqa: ANN401 - any model
        recurrence: str,
        *,
        created_by: str | None = None,
        requester: Requester | None = None,
        connection: psycopg.Connection[Any] | None = None,
        **options: Any,  # noqa: ANN401 - checked by name
    ) -> Schedule:
        """Make a schedule, or bring the one of the same name (within its team) up to date; return it.

        Asking again for the same changes nothing: neither its start nor what it has planned, nor a pause.

        Raises:
            RequestError: Unknown type, payload refused, a rule that is malformed or never occurs, an argument out
                of its range, or a type that the requester may not schedule; nothing was changed.
            DatabaseUnavailable: The database cannot be reached; nothing was changed.
        """
        made, _ = self.put(
            action_type,
            payload,
            recurrence,
            created_by=created_by,
            requester=requester,
            connection=connection,
            **options,
        )
        return made

    def put(
        self,
        action_type: str,
        payload: Any,  # noqa: ANN401 - any model
        recurrence: str,
        *,
        created_by: str | None = None,
        requester: Requester | None = None,
        connection: psycopg.Connection[Any] | None = None,
        **options: Any,  # noqa: ANN401 - checked by name
    ) -> tuple[Schedule, bool]:
        """Do as `schedule_recurring`; return the schedule, and whether it is a new one."""
        definition = self._definition(
            {**options, "recurrence": recurrence}, requester=requester, team_id=options.get("team_id")
        )
        if "recurrence" not in definition:
            raise InvalidArgument("recurrence", recurrence, 'a rule: "daily", "0 9 * * 1", an RRULE')
        text = self._payloads.prepare(action_type, payload, requester=requester).text
        created_by = arguments.check_text("created_by", created_by)
        self._try_functions(definition)
        with self._borrowed(connection) as borrowed, whole(borrowed):
            made, change = self._upsert(
                borrowed,
                action_type,
                text,
                definition,
                created_by=created_by,
                is_declared=False,
                may_leave=is_own(connection),
            )
        return self._with_what_was_left(made, connection), change == "created"

    def _upsert(
        self,
        connection: Connection,
        action_type: str,
        payload: str,
        definition: Mapping[str, Any],
        *,
        created_by: str | None,
        is_declared: bool,
        may_leave: bool,
    ) -> tuple[Schedule, Change]:
        name, team_id = definition.get("name"), definition.get("team_id")
        named = {**definition, "action_type": action_type, "payload": _fingerprint(payload)}
        found = None if name is None else store.get(connection, name=name, name_team_id=team_id, locked=True)
        if found is None:
            now = clock.now(connection)
            anchor = _anchor(definition.get("scheduled_at"), now)
            values = self._values(named, payload, anchor, is_declared=is_declared)
            schedule_id = store.create(connection, {**values, "action_type": action_type, "created_by": created_by})
            if schedule_id is not None:
                made = self._planned(connection, schedule_id, named, is_new_start=True, may_leave=may_leave)
                return made, "created"
            found = store.get(connection, name=name, name_team_id=team_id, locked=True)
        if found is None:
            raise UnknownSchedule(name)
        if found.schedule.definition == named and found.schedule.is_declared == is_declared:
            return found.schedule, "unchanged"
        return self._changed(connection, found, named, payload, is_declared=is_declared), "changed"

    def update(
        self,
        reference: UUID | str,
        *,
        payload: Any = None,  # noqa: ANN401 - any model
        team_id: str | None = None,
        requester: Requester | None = None,
        connection: psycopg.Connection[Any] | None = None,
        **changes: Any,  # noqa: ANN401 - checked by name
    ) -> Schedule:
        """Change what is given of a schedule; None takes an argument back to its default. Return it as it is now.

        A new rule, zone, start, skip or end plans the waiting occurrence anew, in the same transaction; anything else
        changes it where it stands.

        Args:
            reference: Id or name.
            payload: The whole new payload; validated like a new one.
            team_id: Only within this team.
            requester: The token that asks over HTTP; None: application code.
            connection: Joins the caller's own transaction.
            changes: The arguments of `schedule_recurring_action`.

        Raises:
            UnknownSchedule: There is none of that id or name (in that team).
            TypeNotOpen: The requester may not give it this payload or these follow-ups.
            RequestError: A new value cannot be; nothing was changed.
        """
        if changes.get("recurrence") or changes.get("skip"):
            with self._borrowed(connection) as borrowed:
                before = self._found(borrowed, reference, team_id).schedule
            self._try_functions(self._redefined(before, changes, requester))
        with self._borrowed(connection) as borrowed, whole(borrowed):
            found = self._locked(borrowed, reference, team_id)
            definition = self._redefined(found.schedule, changes, requester)
            text = None
            if payload is not None:
                action_type = found.schedule.action_type
                text = self._payloads.prepare(action_type, payload, requester=requester, where="payload").text
                definition["payload"] = _fingerprint(text)
            changed = self._changed(
                borrowed,
                found,
                definition,
                text,
                is_declared=found.schedule.is_declared,
            )
        return self._with_what_was_left(changed, connection)

    def _changed(
        self,
        connection: Connection,
        found: store.Found,
        definition: Mapping[str, Any],
        payload: str | None,
        *,
        is_declared: bool,
    ) -> Schedule:
        """Write a new definition; plan anew what it changes."""
        schedule, now = found
        if definition.get("action_type", schedule.action_type) != schedule.action_type:
            raise InvalidArgument(
                "action_type",
                definition["action_type"],
                f'the type of schedule "{schedule.name}": {schedule.action_type}',
            )
        before = schedule.definition
        is_new_start = new_schedule.is_started_anew(before, definition)
        is_overdue = schedule.next_occurrence_at is not None and schedule.next_occurrence_at <= now
        anchor = schedule.anchor_at
        if is_new_start:
            # What is overdue is where a rule without a start of its own goes on from.
            since = schedule.next_occurrence_at if is_overdue and schedule.next_occurrence_at else now
            anchor = _anchor(definition.get("scheduled_at"), since)
        values = self._values(definition, payload, anchor, is_declared=is_declared)
        if before.get("remaining") == definition.get("remaining"):
            values["remaining"] = schedule.remaining
        try:
            store.write(connection, schedule.id, values)
        except psycopg.errors.UniqueViolation:
            raise InvalidArgument("name", definition.get("name"), "free: another schedule of the team has it") from None
        has_ended = schedule.status == "ended"
        stays = is_overdue or not new_schedule.is_reshaped(before, definition)
        if schedule.status == "paused" or (stays and not has_ended) or (has_ended and values["remaining"] == 0):
            # What is overdue runs as it was planned; the one after it follows the new rule.
            return self._read(connection, schedule.id).schedule
        if has_ended:
            store.advance(connection, [store.Step(schedule_id=schedule.id, status="active")])
        store.drop_planned(connection, schedule.id)
        # Others see the row and wait for it: the functions of its rule are called after the commit.
        return self._planned(connection, schedule.id, definition, is_new_start=is_new_start, may_leave=True)

    def _redefined(self, schedule: Schedule, changes: Mapping[str, Any], requester: Requester | None) -> dict[str, Any]:
        """Return the definition of a schedule with changes; None takes an argument back to its default."""
        before = schedule.definition
        zone = changes.get("timezone") or before.get("timezone") or "UTC"
        checked = self._definition(changes, timezone=zone, requester=requester, team_id=schedule.team_id)
        definition = {name: value for name, value in before.items() if name not in changes} | checked
        if "recurrence" not in definition:
            raise InvalidArgument("recurrence", None, 'a rule: "daily", "0 9 * * 1", an RRULE')
        return definition

    def _definition(
        self,
        given: Mapping[str, Any],
        *,
        timezone: str = "UTC",
        requester: Requester | None = None,
        team_id: str | None = None,
    ) -> dict[str, Any]:
        """Return what was asked for as a JSON object; what is None is left out."""
        extras = {name: given[name] for name in new_schedule.EXTRAS & given.keys() if given[name] is not None}
        plain = {name: value for name, value in given.items() if name not in new_schedule.EXTRAS}
        definition = new_schedule.definition_of(plain, timezone=timezone)
        prepared = self._prepare_extras(extras, requester=requester, team_id=team_id) if extras else {}
        return definition | {name: json.loads(text) for name, text in prepared.items()}

    def _try_functions(self, definition: Mapping[str, Any]) -> None:
        """Call the functions of the project that a definition names, outside the transaction that stores it.

        Raises:
            RecurrenceInvalid: A function failed, or names no instant to come.
            FunctionTimedOut: It did not return in time.
        """
        if not functions_named(definition["recurrence"], definition.get("skip")):
            return
        values = new_schedule.values_of(definition)
        until = values["until"]
        with self._borrowed(None) as borrowed:
            now = clock.now(borrowed)
        anchor = _anchor(definition.get("scheduled_at"), now)
        rule = self._rules.rule(
            definition["recurrence"],
            timezone=values["timezone"],
            anchor=anchor,
            skip=definition.get("skip"),
            until=None if until is None else datetime.fromisoformat(until),
        )
        if series.first(rule, anchor=anchor, is_explicit="scheduled_at" in definition, now=now) is None:
            raise RecurrenceInvalid(definition["recurrence"], f"names no occurrence after {now:%Y-%m-%d %H:%M:%S}Z")

    def _values(
        self, definition: Mapping[str, Any], payload: str | None, anchor: datetime, *, is_declared: bool
    ) -> dict[str, Any]:
        """Return the columns; a rule that cannot be followed is refused here."""
        values = new_schedule.values_of(definition)
        until = values["until"]
        kind = self._rules.kind(
            definition["recurrence"],
            timezone=values["timezone"],
            anchor=anchor,
            skip=definition.get("skip"),
            until=None if until is None else datetime.fromisoformat(until),
        )
        return {
            **values,
            "payload": payload,
            "kind": kind,
            "anchor_at": anchor,
            "definition": json.dumps(definition, sort_keys=True),
            "is_declared": is_declared,
        }

    def _planned(
        self,
        connection: Connection,
        schedule_id: UUID,
        definition: Mapping[str, Any],
        *,
        is_new_start: bool,
        may_leave: bool,
    ) -> Schedule:
        """Plan the first occurrence, unless one is at work whose end will; return the schedule with it."""
        schedule, now = self._read(connection, schedule_id)
        if schedule.next_action_id is None:
            is_explicit = is_new_start and "scheduled_at" in definition
            self._series.planner.plan(connection, schedule, now, is_explicit=is_explicit, may_leave=may_leave)
        planned = self._read(connection, schedule_id).schedule
        if planned.status == "ended":
            raise RecurrenceInvalid(planned.recurrence, f"names no occurrence after {now:%Y-%m-%d %H:%M:%S}Z")
        if planned.status == "paused":
            raise RecurrenceInvalid(planned.recurrence, planned.status_note or "cannot be followed")
        return planned

    # -- reading -------------------------------------------------------------------------------------------------------

    def get(self, reference: UUID | str, *, team_id: str | None = None) -> Schedule:
        """Return one schedule by id or name.

        Raises:
            UnknownSchedule: There is none of that id or name (in that team).
        """
        schedule_id, name = new_schedule.reference(reference)
        arguments.check_text("team_id", team_id)
        with self._borrowed(None) as borrowed:
            found = store.get(borrowed, schedule_id=schedule_id, name=name, name_team_id=team_id, team_id=team_id)
        if found is None:
            raise UnknownSchedule(reference)
        return found.schedule

    def find(
        self,
        *,
        status: str | None = None,
        action_type: str | None = None,
        team_id: str | None = None,
        cursor: UUID | str | None = None,
        limit: int = 100,
    ) -> list[Schedule]:
        """Return the newest schedules that match every filter given; `cursor` is the last id of the page before.

        Raises:
            InvalidArgument: A filter cannot be.
        """
        arguments.check_limit(limit, most=READ_MOST)
        if status not in (None, "active", "paused", "ended"):
            raise InvalidArgument("status", status, "one of active, paused, ended")
        with self._borrowed(None) as borrowed:
            return store.find(
                borrowed,
                status=status,
                action_type=arguments.check_text("action_type", action_type),
                team_id=arguments.check_text("team_id", team_id),
                before=None if cursor is None else arguments.check_cursor(cursor),
                limit=limit,
            )

    def upcoming(self, schedule: Schedule, *, count: int, budget: EvaluationBudget | None = None) -> Iterator[datetime]:
        """Yield the next instants of a schedule, `count` at most: the planned one, and what its rule names after it.

        Args:
            schedule: Whose.
            count: At least 1.
            budget: Of all that is evaluated for it; None: a new one.

        Raises:
            RecurrenceInvalid: After the planned one: its rule cannot be followed any more.
            BudgetExceeded: After the last instant that was reached: there may be more.
        """
        at = schedule.next_occurrence_at
        if at is None:
            return
        yield at
        left = count if schedule.remaining is None else min(count, schedule.remaining)
        if schedule.recurrence_type == "rolling" or left <= 1:
            return
        rule = self._rules.rule_of(schedule, budget=budget or EvaluationBudget("the recurrence"))
        for _ in range(left - 1):
            found = rule.next_after(at)
            if found is None:
                return
            at = found.at
            yield at

    # -- in step with the code -----------------------------------------------------------------------------------------

    def sync(self, connection: psycopg.Connection[Any] | None = None, *, force: bool = False) -> dict[str, list[str]]:
        """Make the schedules that the code declares, change those whose declaration changed, pause those it dropped.

        A pause by a person stays, and so does what nobody changed. Two processes that do it at once do it once.

        Args:
            connection: Joins the caller's own transaction.
            force: Look at each also when the same declarations were brought up to date before.

        Returns:
            The names under `created`, `changed`, `unchanged`, `paused`, `resumed` and `refused` (with what is wrong).
        """
        digest = self._registry.recurrences_digest
        done: dict[str, list[str]] = {
            name: [] for name in ("created", "changed", "unchanged", "paused", "resumed", "refused")
        }
        with self._borrowed(connection) as borrowed:
            if not force and store.synced(borrowed) == digest:
                return done
            # Models are code of the project: none of them runs while rows are locked.
            declared = self._declared(done)
            with borrowed.transaction():
                store.lock_sync(borrowed)
                self._sync(borrowed, declared, done)
                # One that was refused may be taken another time: its module may only have failed to load.
                if not done["refused"]:
                    store.write_synced(borrowed, digest)
        if is_own(connection):
            self._series.finish_left()
        return done

    def _declared(self, done: dict[str, list[str]]) -> list[_Declaration]:
        """Return the declarations of the code, validated; note those that are refused."""
        found = (
            contain(
                partial(self._validated, action_type, declaration),
                partial(_refused, done, action_type, declaration.get("name", action_type)),
            )
            for action_type, declaration in self._registry.recurrences.items()
        )
        return [one for one in found if one is not None]

    def _validated(self, action_type: str, declaration: Mapping[str, Any]) -> _Declaration:
        given = {"name": action_type, **declaration}
        payload = given.pop("payload", {})
        given["recurrence"] = given.pop("rule")
        definition = self._definition(given, team_id=given.get("team_id"))
        return _Declaration(action_type, definition, self._payloads.prepare(action_type, payload).text)

    def _sync(self, connection: Connection, declared: Sequence[_Declaration], done: dict[str, list[str]]) -> None:
        known = {(one.name, one.team_id): one for one in store.declared(connection)}
        store.lock_several(connection, ids=[one.id for one in known.values()])
        for one in declared:
            contain(
                partial(self._sync_one, connection, one, known.get(_key(one.definition)), done),
                partial(_refused, done, one.action_type, one.definition["name"]),
            )
        wanted = {_key({"name": kind, **given}) for kind, given in self._registry.recurrences.items()}
        for key, schedule in known.items():
            if key not in wanted and schedule.status == "active":
                self.pause(schedule.id, note="the code declares it no more", by=SYNC, connection=connection)
                done["paused"].append(schedule.name)

    def _sync_one(
        self,
        connection: Connection,
        declared: _Declaration,
        known: store.Declared | None,
        done: dict[str, list[str]],
    ) -> None:
        is_resumed = known is not None and known.status == "paused" and known.status_by == SYNC
        with connection.transaction():
            _, change = self._upsert(
                connection,
                declared.action_type,
                declared.payload,
                declared.definition,
                created_by=SYNC,
                is_declared=True,
                may_leave=True,
            )
            if known is not None and is_resumed:
                self.resume(known.id, by=SYNC, connection=connection)
        done[change].append(declared.definition["name"])
        if is_resumed:
            done["resumed"].append(declared.definition["name"])


def _key(definition: Mapping[str, Any]) -> tuple[str, str | None]:
    return definition["name"], definition.get("team_id")


def _refused(done: dict[str, list[str]], action_type: str, name: str, error: BaseException) -> None:
    reason = str(error) if isinstance(error, ScheduledActionsError) else reason_of(error)
    log.warning("schedule.refused name=%s action_type=%s error=%s", name, action_type, reason)
    done["refused"].append(f"{name}: {reason}")


def _fingerprint(payload: str) -> str:
    return hashlib.sha256(payload.encode()).hexdigest()[:32]


def _anchor(scheduled_at: str | float | None, now: datetime) -> datetime:
    """Return the start that was asked for: an instant, seconds from now, or now to the second."""
    match scheduled_at:
        case None:
            return now.replace(microsecond=0)
        case str():
            return datetime.fromisoformat(scheduled_at)
        case seconds:
            return now + timedelta(seconds=seconds)
