"""What an error of the database means: the connection has failed, or the same statement may succeed later."""

from __future__ import annotations

import psycopg

from scheduled_actions.core.errors import DatabaseBusy, DatabaseUnavailable, RowLocked

#: Temporary refusals: a row that another session has locked can be written later.
PASSING = (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)


def is_connection_failure(error: psycopg.Error) -> bool:
    """Tell whether the connection itself failed, rather than the statement on it."""
    state = error.sqlstate
    # 57014 is a statement that was ended for its time, on a connection that goes on.
    return state is None or (state[:2] in {"08", "57"} and state != "57014") or state == "53300"


def refusal_of_the_moment(error: psycopg.Error) -> RowLocked | DatabaseBusy | None:
    """Return what to answer where the same statement may succeed a little later; None for any other error."""
    if isinstance(error, PASSING):
        return RowLocked()
    if isinstance(error, psycopg.errors.QueryCanceled):
        return DatabaseBusy("a statement took longer than it may (statement_timeout_seconds)")
    return None


def unavailable(error: psycopg.Error) -> DatabaseUnavailable:
    """Return the failure as our own error, in words that name no address, user or password."""
    text = str(error).lower()
    for sign, reason in _REASONS.items():
        if sign in text:
            return DatabaseUnavailable(reason)
    return DatabaseUnavailable(f"{type(error).__name__}{f' ({error.sqlstate})' if error.sqlstate else ''}")


_REASONS = {
    "connection refused": "the connection was refused: is the server running, and is the port right?",
    "password authentication failed": "the user or the password was refused",
    "no password supplied": "a password is needed",
    "does not exist": "the database or the role does not exist",
    "could not translate host name": "the host name cannot be resolved",
    "failed to resolve host": "the host name cannot be resolved",
    "name or service not known": "the host name cannot be resolved",
    "timeout expired": "it did not answer in time",
    "timed out": "it did not answer in time",
    "starting up": "it is starting up",
    "shutting down": "it is shutting down",
    "terminating connection": "it ended the connection",
    "too many": "it has no connection to spare",
    "remaining connection slots": "it has no connection to spare",
    "server closed the connection": "it closed the connection",
    "connection is lost": "the connection was lost",
    "connection is bad": "the connection was lost",
}
