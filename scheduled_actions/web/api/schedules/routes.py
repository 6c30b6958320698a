"""Schedules over HTTP: make, list, show, change, pause, run, remove, and look at a rule beforehand."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from scheduled_actions.core.errors import (
    BudgetExceeded,
    FollowUpInvalid,
    FunctionTimedOut,
    HandlerBroken,
    InvalidArgument,
    NeverOccurs,
    NothingPlanned,
    PayloadInvalid,
    RecurrenceInvalid,
    RegistryInvalid,
    ScheduledActionsError,
    ScheduleEnded,
    TooLarge,
    TypeNotOpen,
    UnknownActionType,
    UnknownSchedule,
)
from scheduled_actions.core.evaluation_budget import EvaluationBudget
from scheduled_actions.core.pages import page_of
from scheduled_actions.operations.tokens import Role
from scheduled_actions.recurrence.preview import preview as previewed
from scheduled_actions.recurrence.skips.model import Skips
from scheduled_actions.web.api.requests.etags import as_it_was_seen, etag_of
from scheduled_actions.web.api.routing import Answer, Call, Route
from scheduled_actions.web.api.schedules import models

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from scheduled_actions.schedules.model import Schedule


def list_schedules(call: Call) -> Answer:
    """Answer a page of the schedules that match; of another team there are none."""
    query: models.SchedulesQuery = call.query
    if not call.caller.sees(query.team_id):
        return Answer(models.SchedulesPage(schedules=[], next_cursor=None))
    read = partial(
        call.runtime.schedules.find,
        status=query.status,
        action_type=query.action_type,
        team_id=call.caller.team_id or query.team_id,
        cursor=query.cursor,
    )
    found, next_cursor = page_of(lambda limit: read(limit=limit), query.limit)
    return Answer(models.SchedulesPage(schedules=[_shown(one) for one in found], next_cursor=next_cursor))


def make(call: Call) -> Answer:
    """Make a schedule, or bring the one of the same name up to date."""
    given: models.NewSchedule = call.body
    team_id = call.caller.team_for(given.team_id)
    with call.borrowed() as connection:
        made, is_new = call.runtime.schedules.put(
            given.action_type,
            given.payload,
            given.recurrence,
            **given.options(),
            name=given.name,
            team_id=team_id,
            created_by=given.created_by or call.caller.name,
            requester=call.caller.requester,
            connection=connection,
        )
    answer = _changed(call, made)
    status = HTTPStatus.CREATED if is_new else HTTPStatus.OK
    return replace(answer, status=status, headers={**answer.headers, "Location": f"{call.base}/schedules/{made.id}"})


def show(call: Call) -> Answer:
    """Answer one schedule."""
    return _answer(call, call.runtime.schedules.get(call.path["id"], team_id=call.caller.team_id))


def change(call: Call) -> Answer:
    """Change what is given."""
    change = partial(call.runtime.schedules.update, requester=call.caller.requester)
    return _changed(call, _as_seen(call, change, **call.body.options()))


def pause(call: Call) -> Answer:
    """Plan no more until it is resumed."""
    return _answer(call, _as_seen(call, call.runtime.schedules.pause, note=call.body.note, by=call.caller.name))


def resume(call: Call) -> Answer:
    """Go on after now."""
    return _answer(call, _as_seen(call, call.runtime.schedules.resume, by=call.caller.name))


def run(call: Call) -> Answer:
    """Run it once more, now."""
    made = call.runtime.schedules.run_now(
        call.path["id"], by=call.caller.name, team_id=call.caller.team_id, connection=call.connection
    )
    return Answer(models.Created(ids=[made.id]), HTTPStatus.CREATED)


def backfill(call: Call) -> Answer:
    """Create past occurrences that were never created."""
    try:
        ids = call.runtime.schedules.backfill(
            call.path["id"],
            call.body.start,
            call.body.end,
            by=call.caller.name,
            team_id=call.caller.team_id,
            connection=call.connection,
        )
    except InvalidArgument as error:
        # Python has no argument of the name `from`.
        name = {"start": "from", "end": "to"}.get(error.name, error.name)
        raise InvalidArgument(name, error.value, error.expected) from None
    return Answer(models.Created(ids=ids))


def skip(call: Call) -> Answer:
    """Leave the planned occurrence out."""
    given: models.Skipping = call.body
    change = partial(call.runtime.schedules.skip_next, next_action_id=given.next_action_id)
    return _answer(call, _as_seen(call, change, reason=given.note, by=call.caller.name))


def delete(call: Call) -> Answer:
    """Remove it, and what it has planned."""
    gone = _as_seen(call, call.runtime.schedules.delete)
    return Answer(models.DeletedSchedule(**dict(_shown(gone)), warnings=_warnings(call, gone)))


def preview(call: Call) -> Answer:
    """Answer the next instants of a rule."""
    given: models.PreviewOf = call.body
    try:
        document = previewed(
            given.rule,
            timezone=given.timezone or "UTC",
            start=given.start or datetime.now(UTC),
            count=given.count,
            skips=None if given.skip is None else Skips.parse(given.skip),
            until=given.until,
            functions=call.runtime.registry.functions,
        )
    except RecurrenceInvalid as error:
        error.name = error.name.replace("recurrence", "rule")
        raise
    return Answer(models.Preview.model_validate(document))


def _shown(schedule: Schedule) -> models.Schedule:
    return models.Schedule.model_validate(schedule)


def _as_seen(call: Call, change: Callable[..., Schedule], **arguments: Any) -> Schedule:  # noqa: ANN401 - of the change
    """Return what comes of a change, made only of what was seen."""
    with as_it_was_seen(call, call.runtime.schedules.locked, _as_asked_for) as connection:
        return change(call.path["id"], **arguments, team_id=call.caller.team_id, connection=connection)


def _answer(call: Call, schedule: Schedule) -> Answer:
    return Answer(_in_words(call, schedule), headers={"ETag": etag_of(_as_asked_for(schedule))})


def _changed(call: Call, schedule: Schedule) -> Answer:
    answer = _answer(call, schedule)
    shown = models.ChangedSchedule(**dict(answer.document), warnings=_warnings(call, schedule))
    return replace(answer, document=shown)


def _warnings(call: Call, schedule: Schedule) -> list[str]:
    """Return what a change of this schedule does not do: the sync of a deployment restores what the code declares."""
    try:
        declared = {
            (one.get("name", action_type), one.get("team_id"))
            for action_type, one in call.runtime.registry.recurrences.items()
        }
    except RegistryInvalid:
        declared = set()
    is_declared = schedule.is_declared or (schedule.name, schedule.team_id) in declared
    return [_REVERTED] if is_declared else []


_REVERTED = (
    "the code declares this schedule: the next deployment that changes a declaration restores what the code says; "
    "change the declaration, too"
)


def _as_asked_for(schedule: Schedule) -> models.Schedule:
    """Return it without what its runs move: a change is not refused because an occurrence came in between."""
    return _shown(
        replace(
            schedule,
            next_action_id=None,
            next_occurrence_at=None,
            last_action_id=None,
            last_occurrence_at=None,
            executions=0,
            skipped=0,
            missed=0,
            consecutive_failures=0,
            remaining=schedule.definition.get("remaining"),
            updated_at=schedule.created_at,
        )
    )


def _in_words(call: Call, schedule: Schedule) -> models.ScheduleInWords:
    budget = EvaluationBudget("the recurrence")
    description: str | None = None
    upcoming: list[datetime] = []
    truncated = False
    try:
        description = call.runtime.schedule_rules.in_words(schedule, budget)
        upcoming.extend(call.runtime.schedules.upcoming(schedule, count=models.UPCOMING, budget=budget))
    except ScheduledActionsError:
        # It takes too many steps, or names a function that this build does not have, say.
        truncated = True
    return models.ScheduleInWords(
        **dict(_shown(schedule)), description=description, upcoming=upcoming, truncated=truncated
    )


_RULES = (RecurrenceInvalid, NeverOccurs, InvalidArgument, BudgetExceeded, FunctionTimedOut)
_MAKING = (
    *_RULES,
    PayloadInvalid,
    FollowUpInvalid,
    UnknownActionType,
    TypeNotOpen,
    TooLarge,
    HandlerBroken,
    RegistryInvalid,
)
_ONE = {HTTPStatus.OK: (models.ScheduleInWords, "The schedule as it is now.")}
_ETAG = {"ETag": "For If-Match: names the schedule as it was asked for; what its runs count and plan does not count."}


def _route(method: str, path: str, function: object, summary: str, **more: object) -> Route:
    values: dict[str, object] = {"role": Role.OPERATOR, "answers": _ONE, "tag": "Schedules"} | more
    return Route(method=method, path=f"/schedules{path}", function=function, summary=summary, **values)  # type: ignore[arg-type]


ROUTES = (
    _route(
        "GET", "", list_schedules, "List schedules, the newest first", role=Role.VIEWER, query=models.SchedulesQuery,
        answers={HTTPStatus.OK: (models.SchedulesPage, "A page.")},
    ),
    _route(
        "POST", "", make, "Make a schedule, or bring the one of that name up to date", body=models.NewSchedule,
        description="Asking again for the same changes nothing: not its start, nor what it has planned, nor a pause.",
        answers={
            HTTPStatus.CREATED: (models.ChangedSchedule, "It was made."),
            HTTPStatus.OK: (models.ChangedSchedule, "One of that name was there: it is as asked for."),
        },
        headers={**_ETAG, "Location": "Where the schedule is."}, refuses=_MAKING, creates=True,
    ),
    _route(
        "POST", "/preview", preview, "Look at a rule: in words, and its next instants", role=Role.VIEWER,
        body=models.PreviewOf, answers={HTTPStatus.OK: (models.Preview, "What it means.")}, refuses=_RULES,
    ),
    _route(
        "GET", "/{id}", show, "Show a schedule, by id or name", role=Role.VIEWER,
        answers={HTTPStatus.OK: (models.ScheduleInWords, "The schedule.")}, refuses=(UnknownSchedule,), headers=_ETAG,
    ),
    _route(
        "PATCH", "/{id}", change, "Change a schedule", body=models.ScheduleChanges,
        description="A new rule, zone, start, skip or end plans the waiting occurrence anew, in the same transaction.",
        answers={HTTPStatus.OK: (models.ChangedSchedule, "The schedule as it is now.")},
        refuses=(UnknownSchedule, *_MAKING), headers=_ETAG, takes_if_match=True,
    ),
    _route(
        "DELETE", "/{id}", delete, "Remove a schedule and what it has planned",
        answers={HTTPStatus.OK: (models.DeletedSchedule, "The schedule as it was.")}, refuses=(UnknownSchedule,),
        takes_if_match=True,
    ),
    _route(
        "POST", "/{id}/pause", pause, "Plan no more until it is resumed", body=models.Reason, is_body_optional=True,
        refuses=(UnknownSchedule, ScheduleEnded, InvalidArgument), headers=_ETAG, takes_if_match=True,
    ),
    _route(
        "POST", "/{id}/resume", resume, "Go on with the first occurrence after now",
        refuses=(UnknownSchedule, ScheduleEnded), headers=_ETAG, takes_if_match=True,
    ),
    _route(
        "POST", "/{id}/run", run, "Run it once more, now", refuses=(UnknownSchedule,),
        answers={HTTPStatus.CREATED: (models.Created, "The action that runs.")}, creates=True,
    ),
    _route(
        "POST", "/{id}/backfill", backfill, "Create past occurrences that were never created", body=models.Range,
        answers={HTTPStatus.OK: (models.Created, "The actions that were created; none twice.")},
        refuses=(UnknownSchedule, *_RULES), creates=True,
    ),
    _route(
        "POST", "/{id}/skip", skip, "Leave the planned occurrence out", body=models.Skipping, is_body_optional=True,
        refuses=(UnknownSchedule, NothingPlanned, InvalidArgument), headers=_ETAG, takes_if_match=True,
    ),
)  # fmt: skip
