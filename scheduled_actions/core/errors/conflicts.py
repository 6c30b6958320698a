"""State conflicts: the request is valid, but the current state does not allow it."""

from dataclasses import field

from scheduled_actions.core.errors.families import StateConflict, error_class

#: Advice for an action whose status does not allow a change. Each row has the current status (None: any), a part of the
#: text of the wanted statuses, and the advice; the first row that matches both is used.
_REMEDIES: tuple[tuple[str | None, str, str], ...] = (
    ("processing", "", "it is running; wait until the attempt has ended"),
    ("pending", "completed", "cancel it first"),
    ("no_action", "completed", "cancel it first"),
    ("pending", "", "it is already scheduled; run it to make it due now"),
    ("no_action", "", "it runs automatically on the first tick of a deployment that has its handler"),
    (None, "no_action", "it has already ended"),
    ("failed", "pending", "retry it first"),
    ("cancelled", "pending", "retry it first"),
    ("skipped", "pending", "retry it first"),
    ("completed", "", "schedule a new action"),
)


@error_class
class WrongStatus(StateConflict):
    """The action's status does not allow the change."""

    action_id: object
    status: str
    wanted: str
    remedy: str | None = field(default=None, kw_only=True)

    def __str__(self) -> str:
        usual = (advice for status, part, advice in _REMEDIES if status in {self.status, None} and part in self.wanted)
        remedy = self.remedy or next(usual, None)
        return f"action {self.action_id} is {self.status}, not {self.wanted}{f': {remedy}' if remedy else ''}"


@error_class
class ScheduleEnded(StateConflict):
    """The schedule has ended, or its rule has no further occurrence: it cannot be paused or resumed."""

    message = "schedule {reference} has ended{reason:after colon}; change its rule to continue it"
    reference: object
    reason: str | None


@error_class
class ScheduleNotApplied(StateConflict):
    """SQL has reserved the schedule, but the call was refused, or no tick has applied it: it has no valid arguments."""

    message = "schedule {reference} cannot be changed: {reason}"
    reference: object
    reason: str


@error_class
class NothingPlanned(StateConflict):
    """The schedule has no planned occurrence to skip, or its action is not the requested one (`wanted`)."""

    message = "schedule {reference} ({status}) has no planned occurrence{wanted:as action}; nothing was skipped"
    reference: object
    status: str
    wanted: object = field(default=None, kw_only=True)


@error_class
class WrongDeadlineStatus(StateConflict):
    """The deadline's status does not allow the change."""

    message = "deadline {reference} is {status}; only {wanted} deadlines can be changed in this way"
    reference: object
    status: str
    wanted: str


@error_class
class DeadlineNotApplied(StateConflict):
    """SQL has reserved the deadline, and no tick has applied the call."""

    message = "deadline {reference} cannot be changed: no tick has applied the call of set_deadline from SQL"
    reference: object


@error_class
class DeadlineUnusable(StateConflict):
    """The stored row of the deadline has an invalid value, written by SQL."""

    message = (
        "the stored row of deadline {reference} is invalid ({problem}): complete or cancel the deadline, or correct "
        "the row in SQL"
    )
    reference: object
    problem: str


@error_class
class ActionLocked(StateConflict):
    """The action is overdue, or due within `edit_lock_seconds`; operators can override the lock with `force`."""

    message = (
        "action {action_id} is locked: it cannot be changed later than {edit_lock_seconds} seconds (edit_lock_seconds) "
        "before its due time"
    )
    action_id: object
    edit_lock_seconds: int


@error_class
class ClaimLost(StateConflict):
    """The claim of an attempt ended before its outcome could be stored; the outcome was discarded."""

    message = "action {action_id} is no longer claimed by this attempt; the outcome was discarded"
    action_id: object


@error_class
class EndpointDeclaredInFile(StateConflict):
    """The endpoint is declared in `scheduled_actions.toml` and can only be changed there."""

    message = 'endpoint "{name}" is declared in scheduled_actions.toml: change it there'
    name: str


@error_class
class TooManyEndpoints(StateConflict):
    """The team, or the operator, has reached the maximum number of webhook endpoints."""

    message = "the limit of {limit} webhook endpoints is reached: delete one first"
    limit: int


@error_class
class TableBusy(StateConflict):
    """Another session holds a lock on the table."""

    message = (
        "{table:text} is locked by another session, and waiting for the lock would block its writers; nothing was "
        "changed: try again"
    )
    table: str


@error_class
class RowLocked(StateConflict):
    """Another session holds a lock that the change needs, or has just changed the same rows."""

    message = (
        "another session is changing the same rows; nothing was changed: try again in a moment "
        "(`explain` names the session that locks an action)"
    )


@error_class
class ConflictingChange(StateConflict):
    """A database constraint rejects the change because of other stored data."""

    message = (
        "the change conflicts with stored data{constraint:in brackets}; nothing was changed: reload the data and try "
        "again"
    )
    constraint: str | None


@error_class
class DirectoryNotEmpty(StateConflict):
    """The directory of a new project already contains files."""

    message = (
        "{directory} is not empty (it contains {found}); choose another directory, or add the missing files with "
        "--force: existing files are kept"
    )
    directory: object
    found: str
