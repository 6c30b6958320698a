"""Routes that create, list, change, run and delete schedules and their occurrences, and preview rules."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from typing import Any

from scheduled_actions.core.errors import (
    ActionTypeForbidden,
    BudgetExceeded,
    FollowUpInvalid,
    FunctionFailed,
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
    ScheduleNotApplied,
    TooLarge,
    UnknownActionType,
    UnknownSchedule,
)
from scheduled_actions.core.evaluation_budget import EvaluationBudget
from scheduled_actions.operations.tokens import Role
from scheduled_actions.recurrence.preview import preview
from scheduled_actions.recurrence.skips.model import Skips
from scheduled_actions.schedules import model, operations, service
from scheduled_actions.web.api.models import EmptyRequest
from scheduled_actions.web.api.routing import Answer, Call, Route, page_answer, require_if_match
from scheduled_actions.web.api.schedules.models import (
    UPCOMING,
    BackfillRequest,
    ChangedSchedule,
    CreatedActions,
    CreateScheduleRequest,
    DeletedSchedule,
    DescribedSchedule,
    PauseScheduleRequest,
    Preview,
    PreviewRequest,
    ScheduleDocument,
    SchedulePage,
    SchedulesQuery,
    SkipOccurrenceRequest,
    UpdateScheduleRequest,
)


def list_schedules(call: Call[SchedulesQuery, EmptyRequest]) -> Answer:
    """Return a page of schedules, newest first."""
    return page_answer(call, SchedulePage, partial(call.runtime.schedules.find, **call.filters))


def create_schedule(call: Call[EmptyRequest, CreateScheduleRequest]) -> Answer:
    """Create a schedule, or update the schedule of the same name."""
    given = call.body.given() | {
        "created_by": call.body.created_by or call.caller.name,
        "team_id": call.caller.team_for(call.body.team_id),
    }
    with call.borrowed() as connection:
        schedule, is_new = call.runtime.schedules.upsert(
            **given, requester=call.caller.requester, connection=connection
        )
    return _changed(call, schedule).located(f"{call.base}/schedules/{schedule.id}", is_new=is_new)


def get_schedule(call: Call[EmptyRequest, EmptyRequest]) -> Answer:
    """Return a schedule with its rule in words and its upcoming occurrences."""
    return _answer(call, call.runtime.schedules.get(call.reference, team_id=call.caller.team_id))


def update_schedule(call: Call[EmptyRequest, UpdateScheduleRequest]) -> Answer:
    """Update a schedule; omitted fields keep their values."""
    return _changed(call, _change(call, service.Schedules.update, requester=call.caller.requester, **call.body.given()))


def pause_schedule(call: Call[EmptyRequest, PauseScheduleRequest]) -> Answer:
    """Pause a schedule and delete its planned occurrence, unless that occurrence has started."""
    return _answer(call, _change(call, operations.pause, reason=call.body.reason, by=call.caller.name))


def resume_schedule(call: Call[EmptyRequest, EmptyRequest]) -> Answer:
    """Resume a paused schedule from its next occurrence; occurrences during the pause are not created."""
    return _answer(call, _change(call, operations.resume, by=call.caller.name))


def run_schedule(call: Call[EmptyRequest, EmptyRequest]) -> Answer:
    """Schedule an additional run that is due now."""
    scheduled = operations.run_now(
        call.runtime.schedules,
        call.reference,
        by=call.caller.name,
        team_id=call.caller.team_id,
        connection=call.connection,
    )
    return Answer(CreatedActions(ids=[scheduled.id]), HTTPStatus.CREATED)


def backfill_schedule(call: Call[EmptyRequest, BackfillRequest]) -> Answer:
    """Create the missing occurrences of a past range; return the ids of their actions."""
    ids = operations.backfill(
        call.runtime.schedules,
        call.reference,
        call.body.start,
        call.body.end,
        by=call.caller.name,
        team_id=call.caller.team_id,
        connection=call.connection,
    )
    return Answer(CreatedActions(ids=ids))


def skip_occurrence(call: Call[EmptyRequest, SkipOccurrenceRequest]) -> Answer:
    """Skip the planned occurrence and plan the one after it."""
    return _answer(call, _change(call, operations.skip_next, **dict(call.body), by=call.caller.name))


def delete_schedule(call: Call[EmptyRequest, EmptyRequest]) -> Answer:
    """Delete a schedule and its planned occurrence, unless that occurrence has started."""
    deleted = _change(call, operations.delete)
    return Answer(ScheduleDocument.model_validate(deleted)).extended(DeletedSchedule, warnings=_warnings(call, deleted))


def preview_rule(call: Call[EmptyRequest, PreviewRequest]) -> Answer:
    """Return a rule in words, its next occurrences, and warnings about the rule."""
    given = call.body
    try:
        document = preview(
            given.rule,
            timezone=given.timezone,
            start=given.start or datetime.now(UTC),
            count=given.count,
            skips=None if given.skip is None else Skips.parse(given.skip),
            until=given.until,
            functions=call.runtime.registry.functions,
        )
    except RecurrenceInvalid as error:
        error.name = error.name.replace("recurrence", "rule")
        raise
    return Answer(Preview.model_validate(document))


def _change(call: Call[Any, Any], change: Callable[..., model.Schedule], **arguments: Any) -> model.Schedule:  # noqa: ANN401 - of the change
    one = (call.runtime.schedules, call.reference)
    lock = partial(operations.locked, *one, team_id=call.caller.team_id)
    with require_if_match(call, lock, _definition) as connection:
        return change(*one, **arguments, team_id=call.caller.team_id, connection=connection)


def _changed(call: Call[Any, Any], schedule: model.Schedule) -> Answer:
    return _answer(call, schedule).extended(ChangedSchedule, warnings=_warnings(call, schedule))


def _warnings(call: Call[Any, Any], schedule: model.Schedule) -> list[str]:
    """Return a warning if the code declares the schedule: a deployment can revert the change."""
    try:
        recurrences = call.runtime.registry.recurrences.items()
        declared = {(one.get("name", action_type), one.get("team_id")) for action_type, one in recurrences}
    except RegistryInvalid:
        declared = set()
    return [_REVERTED] if schedule.is_declared or (schedule.name, schedule.team_id) in declared else []


_REVERTED = (
    "the code declares this schedule: the next deployment that changes any declaration, or `scheduled-actions "
    "schedules sync`, reverts this change; change the declaration, too"
)


def _definition(schedule: model.Schedule) -> ScheduleDocument:
    """Return a schedule without the fields that its runs change, so that a run does not change the ETag."""
    return ScheduleDocument.model_validate(
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


def _answer(call: Call[Any, Any], schedule: model.Schedule) -> Answer:
    """Return a schedule with its rule in words and its upcoming occurrences."""
    found: dict[str, Any] = {"description": None, "upcoming": [], "truncated": False}
    budget = EvaluationBudget("the recurrence")
    try:
        found["description"] = call.runtime.schedule_rules.describe(schedule, budget)
        found["upcoming"].extend(call.runtime.schedule_rules.upcoming(schedule, count=UPCOMING, budget=budget))
    except ScheduledActionsError:
        # For example, the rule exceeds the budget, or uses a function that this build does not have.
        found["truncated"] = True
    document = ScheduleDocument.model_validate(schedule)
    return Answer.with_etag(document, version=_definition(schedule)).extended(DescribedSchedule, **found)


_RULES = (
    RecurrenceInvalid, NeverOccurs, InvalidArgument, BudgetExceeded, FunctionTimedOut, FunctionFailed, HandlerBroken,
)  # fmt: skip
_DEFINING = (
    *_RULES, PayloadInvalid, FollowUpInvalid, UnknownActionType, ActionTypeForbidden, TooLarge,
)  # fmt: skip
_ETAG = {"ETag": "Version of the schedule, for If-Match; runs of the schedule do not change the version."}
_ONE: dict[str, Any] = {
    "tag": "Schedules",
    "answers": {HTTPStatus.OK: (DescribedSchedule, "The schedule.")},
    "headers": _ETAG,
}

ROUTES = (
    Route(
        "GET", "/schedules", list_schedules, "List schedules, newest first", tag="Schedules", query=SchedulesQuery,
        answers={HTTPStatus.OK: (SchedulePage, "A page of schedules.")},
    ),
    Route(
        "POST", "/schedules", create_schedule, "Create or update a schedule by name", tag="Schedules",
        description="An identical request changes nothing: the start, the planned occurrence and a pause are kept.",
        body=CreateScheduleRequest,
        answers={
            HTTPStatus.CREATED: (ChangedSchedule, "The schedule was created."),
            HTTPStatus.OK: (ChangedSchedule, "The schedule of that name was updated."),
        },
        headers={**_ETAG, "Location": "Path of the schedule."}, refuses=_DEFINING, creates=True,
    ),
    Route(
        "POST", "/schedules/preview", preview_rule, "Preview the next occurrences of a rule", tag="Schedules",
        least_role=Role.VIEWER, body=PreviewRequest, answers={HTTPStatus.OK: (Preview, "The occurrences.")},
        refuses=_RULES,
    ),
    Route("GET", "/schedules/{id}", get_schedule, "Get a schedule by id or name", refuses=(UnknownSchedule,), **_ONE),
    Route(
        "PATCH", "/schedules/{id}", update_schedule, "Update a schedule", tag="Schedules",
        description="A new rule, time zone, start, skip, end, recurrence type or jitter replaces the planned "
        "occurrence, unless that occurrence is overdue. Other changes apply to the planned occurrence without moving "
        "it. A schedule that has ended becomes active again, unless `remaining` is used up.",
        body=UpdateScheduleRequest, answers={HTTPStatus.OK: (ChangedSchedule, "The schedule.")},
        refuses=(UnknownSchedule, ScheduleNotApplied, *_DEFINING), headers=_ETAG, takes_if_match=True,
    ),
    Route(
        "DELETE", "/schedules/{id}", delete_schedule, "Delete a schedule and its planned occurrence", tag="Schedules",
        description="An occurrence that has started is kept, and its retries still run.",
        answers={HTTPStatus.OK: (DeletedSchedule, "The deleted schedule.")}, refuses=(UnknownSchedule,),
        takes_if_match=True,
    ),
    Route(
        "POST", "/schedules/{id}/pause", pause_schedule, "Pause a schedule", body=PauseScheduleRequest,
        description="Deletes the planned occurrence. An occurrence that has started is kept, and its retries still "
        "run.",
        is_body_optional=True, refuses=(UnknownSchedule, ScheduleEnded, InvalidArgument), takes_if_match=True, **_ONE,
    ),
    Route(
        "POST", "/schedules/{id}/resume", resume_schedule, "Resume a schedule from its next occurrence",
        description="Occurrences during the pause are not created. If the rule cannot be evaluated, the schedule is "
        "paused again; `status_reason` contains the reason.",
        refuses=(UnknownSchedule, ScheduleEnded, ScheduleNotApplied), takes_if_match=True, **_ONE,
    ),
    Route(
        "POST", "/schedules/{id}/run", run_schedule, "Run a schedule now, in addition to its occurrences",
        tag="Schedules", answers={HTTPStatus.CREATED: (CreatedActions, "The action.")}, refuses=(UnknownSchedule,),
        creates=True,
    ),
    Route(
        "POST", "/schedules/{id}/backfill", backfill_schedule, "Create the missing occurrences of a past range",
        tag="Schedules",
        description="The new actions are due now. The range can contain at most "
        f"{operations.BACKFILL_LIMIT:,} occurrences.",
        body=BackfillRequest, answers={HTTPStatus.OK: (CreatedActions, "The new actions.")},
        refuses=(UnknownSchedule, *_RULES), creates=True,
    ),
    Route(
        "POST", "/schedules/{id}/skip", skip_occurrence, "Skip the planned occurrence", body=SkipOccurrenceRequest,
        description="The occurrence must not have started. The one after it is planned.",
        is_body_optional=True, refuses=(UnknownSchedule, NothingPlanned, InvalidArgument), takes_if_match=True, **_ONE,
    ),
)  # fmt: skip
