"""The error boundary: whatever is raised for one row of a batch stays with that row."""

from __future__ import annotations

import logging
import os
import traceback
from typing import TYPE_CHECKING, TypeVar

import psycopg

from scheduled_actions.core.errors import DatabaseUnavailable, ScheduledActionsError, SchemaOutdated
from scheduled_actions.database.failures import PASSING, is_connection_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

log = logging.getLogger("scheduled_actions")

Row = TypeVar("Row")
Result = TypeVar("Result")

#: Refusals that pass, and that no row is to blame for: a lock, a time limit, a full disk, a server become a standby.
LATER = (
    *PASSING,
    psycopg.errors.QueryCanceled,
    psycopg.errors.DiskFull,
    psycopg.errors.OutOfMemory,
    psycopg.errors.ReadOnlySqlTransaction,
)
#: What a boundary contains. SystemExit is one of them; KeyboardInterrupt is the operator's.
CONTAINED = (Exception, SystemExit)


def contain(step: Callable[[], Result], refused: Callable[[BaseException], Result]) -> Result:
    """Return the result of a step, or what `refused` makes of the error that it raised.

    Raises:
        DatabaseUnavailable: The database was lost.
        SchemaOutdated: The tables are missing.
    """
    try:
        return step()
    except CONTAINED as error:
        if concerns_all(error):
            raise
        return refused(error)


def concerns_all(error: BaseException) -> bool:
    """Whether no row is to blame: the database is away, or has not been migrated."""
    if isinstance(error, psycopg.OperationalError):
        return is_connection_failure(error)
    return isinstance(error, DatabaseUnavailable | SchemaOutdated)


def isolate(
    batch: Sequence[Row],
    step: Callable[[Sequence[Row]], Result],
    refused: Callable[[Row, BaseException], Result],
) -> list[Result]:
    """Do a step with a whole batch; where that raises, with each row alone, so that the refused rows alone fail.

    Args:
        batch: Rows; an empty one is not tried.
        step: Changes nothing where it raises.
        refused: Called for each row with which the step raises even alone.

    Returns:
        One result of the batch, or one of each row, in their order.

    Raises:
        DatabaseUnavailable: The database was lost.
        SchemaOutdated: The tables are missing.
    """
    if len(batch) > 1:
        try:
            return [step(batch)]
        except CONTAINED as error:
            if concerns_all(error):
                raise
            log.warning("batch.refused rows=%d error=%s", len(batch), reason_of(error))
    return [contain(lambda row=row: step([row]), lambda error, row=row: refused(row, error)) for row in batch]  # type: ignore[misc]  # mypy cannot infer a lambda's default


def reason_of(error: BaseException) -> str:
    """Return an error as the reason that is stored with a row.

    Of an error of the database only its primary message: the statement around it may hold a payload.
    """
    if isinstance(error, psycopg.Error) and error.diag.message_primary is not None:
        return f"{type(error).__name__}: {error.diag.message_primary}"
    return describe(error)


def describe(error: BaseException) -> str:
    """Return an exception as an error message: its type, its text, and the line it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    where = ""
    if frames and not isinstance(error, ScheduledActionsError | psycopg.Error):
        last = frames[-1]
        where = f" ({os.path.basename(last.filename)}:{last.lineno})"  # noqa: PTH119 - a name, no file is touched
    return f"{type(error).__name__}: {text_of(error) or 'no message'}{where}"


def text_of(value: object) -> str:
    """Return the text of a value that user code has raised or returned: it may have none."""
    try:
        return str(value)
    except BaseException:  # noqa: BLE001 - user code: `SystemExit` of a `__str__` is no more than any error
        return f"{type(value).__name__} without a text"
