"""Contain errors, so that an error in one row of a batch does not affect the others; classify database errors."""

import os
import traceback
from collections.abc import Callable, Sequence
from typing import TypeVar

import psycopg

from scheduled_actions.core.errors import (
    DatabaseBusy,
    DatabaseUnavailable,
    RowLocked,
    ScheduledActionsError,
    SchemaOutdated,
    SchemaUnreleased,
)
from scheduled_actions.core.log import log

Row = TypeVar("Row")
Result = TypeVar("Result")

#: Errors after which the same statement may succeed: another session holds a lock or changed the same rows.
RETRYABLE_ERRORS = (
    psycopg.errors.LockNotAvailable,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.SerializationFailure,
)
#: Temporary errors that no row causes: those above, a time limit, a full disk, a server that is now a standby.
TEMPORARY_ERRORS = (
    *RETRYABLE_ERRORS,
    psycopg.errors.QueryCanceled,
    psycopg.errors.DiskFull,
    psycopg.errors.OutOfMemory,
    psycopg.errors.ReadOnlySqlTransaction,
)
#: The errors that a boundary contains, including SystemExit. KeyboardInterrupt passes through: it ends the process.
CONTAINED = (Exception, SystemExit)

#: How to write special characters in the password of a connection URL.
ESCAPES_IN_URL = "in the password, write @ as %40, : as %3A, / as %2F, ? as %3F, # as %23 and % as %25"
_UNRESOLVED = "the host name cannot be resolved"
_WRONG_PORT = "the port is not a number from 1 to 65535: check DATABASE_URL"
_OUTAGES = {
    "connection refused": "the connection was refused: check that the server is running and that the port is correct",
    "password authentication failed": "the user name or the password was rejected",
    "no password supplied": "a password is required",
    "does not exist": "the database or the role does not exist",
    "could not translate host name": _UNRESOLVED,
    "failed to resolve host": _UNRESOLVED,
    "name or service not known": _UNRESOLVED,
    "invalid port number": _WRONG_PORT,
    'for connection option "port"': _WRONG_PORT,
    "timeout expired": "it did not answer in time",
    "timed out": "it did not answer in time",
    "starting up": "it is starting up",
    "shutting down": "it is shutting down",
    "terminating connection": "it ended the connection",
    "too many": "it accepts no more connections",
    "remaining connection slots": "it accepts no more connections",
    "server closed the connection": "it closed the connection",
    "connection is lost": "the connection was lost",
    "connection is bad": "no connection can be opened: check DATABASE_URL, and that the server is running",
}


def contain(step: Callable[[], Result], refused: Callable[[BaseException], Result]) -> Result:
    """Return the result of a step or, if the step raises an error, the result of `refused` for that error.

    An error for which `is_outage` is true is raised unchanged.
    """
    try:
        return step()
    except CONTAINED as error:
        if is_outage(error):
            raise
        return refused(error)


def isolate(
    batch: Sequence[Row],
    step: Callable[[Sequence[Row]], Result],
    refused: Callable[[Row, BaseException], Result],
) -> list[Result]:
    """Run a step with a whole batch; after an error, run the step with each row, so that only the rows at fault fail.

    An error for which `is_outage` is true is raised unchanged.

    Args:
        batch: The rows; the step is not called if there are none.
        step: Must change nothing if it raises an error.
        refused: Called for each row for which the step raises an error; returns the result for that row.

    Returns:
        A list of one result for the whole batch, or of one result for each row, in the order of the rows.
    """
    if len(batch) > 1:
        try:
            return [step(batch)]
        except CONTAINED as error:
            if is_outage(error):
                raise
            log.warning("batch.refused rows=%d error=%s", len(batch), reason_of(error))
    return [contain(lambda row=row: step([row]), lambda error, row=row: refused(row, error)) for row in batch]  # type: ignore[misc]  # mypy cannot infer a lambda's default


def is_outage(error: BaseException) -> bool:
    """Return whether an error means that the database is unavailable or not migrated; no row causes such an error."""
    if isinstance(error, psycopg.OperationalError):
        return is_connection_failure(error)
    return isinstance(error, DatabaseUnavailable | SchemaOutdated | SchemaUnreleased)


def is_connection_failure(error: psycopg.Error) -> bool:
    """Return whether the connection itself failed, rather than the statement on it."""
    state = error.sqlstate
    # 57014: a statement exceeded its time limit; its connection remains usable.
    return state is None or (state[:2] in {"08", "57"} and state != "57014") or state == "53300"


def temporary_refusal(error: psycopg.Error) -> RowLocked | DatabaseBusy | None:
    """Convert an error after which the same statement may succeed if repeated; return None for any other error."""
    if isinstance(error, RETRYABLE_ERRORS):
        return RowLocked()
    if isinstance(error, psycopg.errors.QueryCanceled):
        return DatabaseBusy("a statement exceeded its time limit (statement_timeout_seconds)")
    return None


def unavailable(error: psycopg.Error) -> DatabaseUnavailable:
    """Convert a connection failure; the new message contains no address, user or password."""
    text = str(error).lower()
    unknown = type(error).__name__ + (f" ({error.sqlstate})" if error.sqlstate else "")
    reason = next((reason for sign, reason in _OUTAGES.items() if sign in text), unknown)
    # A "@" in the password ends it, and the rest of the password becomes a part of the host name.
    if reason is _UNRESOLVED and "@" in text:
        reason = f"{reason}, because it contains @: {ESCAPES_IN_URL}"
    return DatabaseUnavailable(reason)


def reason_of(error: BaseException) -> str:
    """Describe an error for the reason that is stored with a row.

    A database error is described only by its type and primary message, because the details may quote a payload.
    """
    if isinstance(error, psycopg.Error) and error.diag.message_primary is not None:
        return f"{type(error).__name__}: {error.diag.message_primary}"
    return describe(error)


def describe(error: BaseException) -> str:
    """Describe an exception: its type, its text, and the file and line that raised it.

    The file and line are omitted for errors of this package and of psycopg.
    """
    described = f"{type(error).__name__}: {text_of(error) or 'no message'}"
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or isinstance(error, ScheduledActionsError | psycopg.Error):
        return described
    return f"{described} ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})"  # noqa: PTH119 - a name, no file is touched


def text_of(value: object) -> str:
    """Convert a value that user code has raised or returned to a string, even if its `__str__` raises an exception."""
    try:
        return str(value)
    except BaseException:  # noqa: BLE001 - user code: a `__str__` may raise SystemExit
        return f"{type(value).__name__} without a text"
