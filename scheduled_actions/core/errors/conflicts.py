"""Right requests at the wrong moment."""

from __future__ import annotations

from scheduled_actions.core.errors.families import StateConflict, short_text


class WrongStatus(StateConflict):
    """The action's status does not allow the change."""

    code = "wrong_status"

    def __init__(self, action_id: object, status: str, wanted: str, *, remedy: str | None = None) -> None:
        self.action_id = action_id
        self.status = status
        self.wanted = wanted
        mended = f": {remedy}" if remedy else _mended(status, wanted)
        super().__init__(f"action {action_id} is {status}; this takes only {wanted} ones{mended}")


def _mended(status: str, wanted: str) -> str:  # noqa: PLR0911 - a return a case
    """Return how to go on with an action of that status, where something wants another one."""
    match status:
        case "processing":
            return ": it runs now, wait until it has ended"
        case "pending" | "no_action" if "completed" in wanted:
            return ": cancel it first"
        case "pending":
            return ": it waits for its time already; run-now makes it due"
        case "no_action":
            return ": it waits for a build that has its handler, and runs by itself on the first tick of one"
        case _ if "no_action" in wanted:
            return ": it has ended, so there is nothing to cancel"
        case "failed" | "cancelled" | "skipped" if "pending" in wanted:
            return ": retry it first"
        case "completed":
            return ": it has done its work, schedule another"
        case _:
            return ""


class ScheduleEnded(StateConflict):
    """The schedule has ended: there is nothing to pause, resume or skip."""

    code = "schedule_ended"

    def __init__(self, reference: object, note: str | None) -> None:
        self.reference = reference
        super().__init__(
            f"schedule {reference} has ended{f': {note}' if note else ''}; change its rule to let it go on"
        )


class NothingPlanned(StateConflict):
    """The schedule has no planned occurrence that could be skipped, or not the one that was named."""

    code = "nothing_planned"

    def __init__(self, reference: object, status: str, *, wanted: object = None) -> None:
        self.reference = reference
        self.status = status
        missing = "no occurrence that waits" if wanted is None else f"no occurrence {wanted} that waits"
        super().__init__(f"schedule {reference} ({status}) has {missing}; nothing was skipped")


class WrongDeadlineStatus(StateConflict):
    """The deadline's status does not allow the change."""

    code = "wrong_deadline_status"

    def __init__(self, reference: object, status: str, wanted: str) -> None:
        self.reference = reference
        self.status = status
        self.wanted = wanted
        super().__init__(f"deadline {reference} is {status}; only {wanted} ones can be changed so")


class DeadlineUnusable(StateConflict):
    """The stored row of the deadline has a value that cannot be used; it was written by SQL."""

    code = "deadline_unusable"

    def __init__(self, reference: object, problem: str) -> None:
        self.reference = reference
        self.problem = problem
        super().__init__(
            f"the stored row of deadline {reference} cannot be used ({problem}): complete or cancel it, or correct the"
            " row in SQL"
        )


class ActionLocked(StateConflict):
    """The action is due too soon to be changed from outside.

    Who calls from outside can still `force` it, as operator: then it is changed unless a tick has taken it by then.
    """

    code = "action_locked"

    def __init__(self, action_id: object, edit_lock_seconds: int) -> None:
        self.action_id = action_id
        self.edit_lock_seconds = edit_lock_seconds
        super().__init__(
            f"action {action_id} is due within {edit_lock_seconds} seconds (edit_lock_seconds), and locked"
        )


class ClaimLost(StateConflict):
    """The outcome came too late: the lease had ended and the action belongs to somebody else."""

    code = "claim_lost"

    def __init__(self, action_id: object) -> None:
        self.action_id = action_id
        super().__init__(f"action {action_id} is no longer held by this attempt; its outcome was dropped as stale")


class EndpointOfTheFile(StateConflict):
    """The endpoint is declared in the project's file, and is changed there."""

    code = "endpoint_of_the_file"

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f'endpoint "{name}" is declared in scheduled_actions.toml: change it there')


class TooManyEndpoints(StateConflict):
    """A team has as many webhook endpoints as it may have."""

    code = "too_many_endpoints"

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(f"there are {limit} webhook endpoints already, and no more are taken: delete one first")


class TableBusy(StateConflict):
    """Another session keeps a table locked."""

    code = "table_busy"

    def __init__(self, table: str) -> None:
        self.table = table
        super().__init__(
            f"{short_text(table)} is locked by another session, and writers wait behind whoever waits for it; "
            "nothing was changed: try again"
        )


class RowLocked(StateConflict):
    """Another session holds a lock that the change needs, or has changed the same rows at the same moment."""

    code = "row_locked"

    def __init__(self) -> None:
        super().__init__(
            "another session is changing the same rows; nothing was changed: try again in a moment "
            "(`explain` names the holder of an action's lock)"
        )


class ConflictingChange(StateConflict):
    """A constraint of the database refuses the change, next to what others have stored."""

    code = "conflicting_change"

    def __init__(self, constraint: str | None) -> None:
        self.constraint = constraint
        named = f" ({short_text(constraint)})" if constraint else ""
        super().__init__(f"the change conflicts with what is stored{named}; nothing was changed: read it again")


class DirectoryNotEmpty(StateConflict):
    """A new project would be mixed with what is there already."""

    code = "directory_not_empty"

    def __init__(self, directory: object, found: str) -> None:
        self.directory = directory
        self.found = found
        super().__init__(
            f"{directory} is not empty (there is {found}); choose another directory, "
            "or add what is missing with --force: files that are there stay as they are"
        )
