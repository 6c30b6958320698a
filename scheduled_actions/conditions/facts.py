"""Report, read and delete facts: values of the application's entities that conditions of actions test."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg

from scheduled_actions.conditions.model import Fact, FactChange, FactReport
from scheduled_actions.core import checks, json_text
from scheduled_actions.core.errors import InvalidArgument, UnknownFact
from scheduled_actions.core.pages import MAX_ROWS_READ
from scheduled_actions.core.wake import Wake
from scheduled_actions.database.connection import Connection, Database
from scheduled_actions.database.statements import Statements
from scheduled_actions.database.transactions import announce, borrowed_connection, database_refusal, savepoint

sql = Statements(__file__)

#: Maximum size of a value, in bytes of JSON.
VALUE_LIMIT = 16 * 1024
_TEXT_MOST = 255
_HISTORY_MOST = 1000


@dataclass(frozen=True, slots=True)
class Facts:
    """Reports, reads and deletes the facts of one project.

    Args:
        database: Holds the facts.
        wake: Starts a tick when actions wait for a changed fact; None: the next cron tick wakes them.
    """

    database: Database
    wake: Wake | None = None

    def report(
        self,
        target: Mapping[str, str],
        name: str,
        value: Any,  # noqa: ANN401 - any JSON
        *,
        team_id: str | None = None,
        by: str | None = None,
        connection: psycopg.Connection[Any] | None = None,
    ) -> FactReport:
        """Store the value of a fact and wake the actions that wait for it.

        Args:
            target: The entity: `{"type": "invoice", "id": "42"}`.
            name: 1 to 255 characters without `*`, such as `state`, `amount`, `approval:ann`, `user_action:signed:ann`.
            value: Any JSON, at most 16 KiB; reporting the stored value again wakes no action.
            team_id: The team of the fact; only conditions of this team's actions can test it. None: no team.
            by: Who reports the fact; stored with it.
            connection: Joins the caller's transaction; None: a new transaction.

        Raises:
            RequestError: An argument is invalid; nothing was stored.
            DatabaseUnavailable: The database cannot be reached; nothing was stored.
        """
        parameters = _parameters(target, name, team_id) | {
            "value": json_text.encode("value", value, limit=VALUE_LIMIT),
            "by": checks.check_text("by", by, longest=_TEXT_MOST),
        }
        try:
            with borrowed_connection(self.database, connection) as borrowed, savepoint(borrowed):
                report = FactReport(*sql.run_one(borrowed, "report_fact", parameters))
        except (psycopg.errors.InvalidParameterValue, psycopg.DataError) as error:
            raise database_refusal(error) from error
        if report.has_waiters:
            announce(self.wake, connection, has_changed=True)
        return report

    @contextmanager
    def locked(
        self, target: Mapping[str, str], name: str, *, team_id: str | None, connection: Connection | None = None
    ) -> Iterator[tuple[Fact, Connection]]:
        """Lock a fact inside the block; yield the fact and the connection whose transaction holds the lock.

        Raises:
            UnknownFact: The fact does not exist (in that team).
            InvalidArgument: The target, the name or the team is invalid.
        """
        with borrowed_connection(self.database, connection) as borrowed, borrowed.transaction():
            sql.run(borrowed, "lock_fact", _parameters(target, name, team_id))
            yield self.get(target, name, team_id=team_id, connection=borrowed), borrowed

    def get(
        self,
        target: Mapping[str, str],
        name: str,
        *,
        team_id: str | None = None,
        connection: Connection | None = None,
    ) -> Fact:
        """Return a fact with its current value.

        Args:
            target: The entity: `{"type": "invoice", "id": "42"}`.
            name: The name of the fact.
            team_id: The team of the fact; None: a fact without a team.
            connection: Reads in the caller's transaction.

        Raises:
            UnknownFact: The fact does not exist in that team.
            InvalidArgument: The target, the name or the team is invalid.
        """
        with borrowed_connection(self.database, connection) as borrowed:
            row = sql.run_leniently(borrowed, "get_fact", _parameters(target, name, team_id)).fetchone()
        if row is None:
            raise UnknownFact(target["type"], target["id"], name)
        return Fact(*row)

    def find(
        self,
        *,
        target_type: str | None = None,
        target_id: str | None = None,
        name: str | None = None,
        team_id: str | None = None,
        cursor: UUID | str | None = None,
        limit: int = 100,
    ) -> list[Fact]:
        """Return the facts that match every filter, newest first.

        Args:
            target_type: Filter by the type of the target.
            target_id: Filter by the id of the target.
            name: Filter by name.
            team_id: Filter by team; None returns the facts of all teams.
            cursor: The id of the last fact on the previous page.
            limit: Maximum number of facts, 1 to 101.

        Raises:
            InvalidArgument: A filter, the cursor or the limit is invalid.
        """
        parameters = {
            "target_type": checks.check_text("target_type", target_type),
            "target_id": checks.check_text("target_id", target_id),
            "name": checks.check_text("name", name),
            "team_id": checks.check_text("team_id", team_id),
            "before": None if cursor is None else checks.check_cursor(cursor),
            "limit": checks.check_limit(limit, most=MAX_ROWS_READ),
        }
        with borrowed_connection(self.database, None) as borrowed:
            return [Fact(*row) for row in sql.run_leniently(borrowed, "list_facts", parameters)]

    def history(
        self, target: Mapping[str, str], name: str, *, team_id: str | None = None, limit: int = 100
    ) -> list[FactChange]:
        """Return the latest changes of a fact, newest first; empty if it was never reported.

        Args:
            target: The entity.
            name: The name of the fact.
            team_id: The team of the fact; None: a fact without a team.
            limit: Maximum number of changes, 1 to 1,000.

        Raises:
            InvalidArgument: The target, the name, the team or the limit is invalid.
        """
        limit = checks.check_limit(limit, most=_HISTORY_MOST)
        with borrowed_connection(self.database, None) as borrowed:
            return [
                FactChange(*row)
                for row in sql.run_leniently(
                    borrowed, "fact_history", _parameters(target, name, team_id) | {"limit": limit}
                )
            ]

    def delete(
        self,
        target: Mapping[str, str],
        name: str,
        *,
        team_id: str | None = None,
        by: str | None = None,
        connection: psycopg.Connection[Any] | None = None,
    ) -> None:
        """Delete a fact but keep its history, and wake the actions that wait for the fact.

        Args:
            target: The entity: `{"type": "invoice", "id": "42"}`.
            name: The name of the fact.
            team_id: The team of the fact; None: a fact without a team.
            by: Who deletes the fact; stored in its history.
            connection: Joins the caller's transaction.

        Raises:
            UnknownFact: The fact does not exist in that team.
            InvalidArgument: The target, the name, the team or `by` is invalid.
        """
        parameters = _parameters(target, name, team_id) | {"by": checks.check_text("by", by, longest=_TEXT_MOST)}
        with borrowed_connection(self.database, connection) as borrowed:
            if sql.run(borrowed, "delete_fact", parameters).fetchone() is None:
                raise UnknownFact(target["type"], target["id"], name)
        announce(self.wake, connection, has_changed=True)


def _parameters(target: Mapping[str, str], name: str, team_id: str | None) -> dict[str, Any]:
    """Validate the target, the name and the team of a fact; return them as parameters of a statement.

    Raises:
        InvalidArgument: The target, the name or the team is invalid.
    """
    if target is None:
        raise InvalidArgument("target", problem='is required, for example {"type": "invoice", "id": "42"}')
    checks.target_text(dict(target) if hasattr(target, "keys") else target)
    for field, value in (("target.type", target["type"]), ("target.id", target["id"]), ("name", name)):
        checks.check_text(field, value, longest=_TEXT_MOST)
    if not isinstance(name, str) or "*" in name:
        raise InvalidArgument("name", name, f"a string of 1 to {_TEXT_MOST} characters without *")
    checks.check_text("team_id", team_id, longest=_TEXT_MOST)
    return {"target_type": target["type"], "target_id": target["id"], "name": name, "team_id": team_id or ""}
