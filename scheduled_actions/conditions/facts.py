"""Facts: what the application says is so, for the conditions of actions."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from scheduled_actions.conditions import store
from scheduled_actions.conditions.rules.model import FactKey
from scheduled_actions.core import checks as arguments
from scheduled_actions.core import json_text
from scheduled_actions.core.errors import InvalidArgument, UnknownFact
from scheduled_actions.core.pages import READ_MOST
from scheduled_actions.database.transactions import borrowed_connection, joined_connection

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from uuid import UUID

    import psycopg

    from scheduled_actions.conditions.fact import Fact, FactChange, Reported
    from scheduled_actions.core.wake import Wake
    from scheduled_actions.database.connection import Connection, Database

#: In bytes of its JSON.
VALUE_LIMIT = 16 * 1024
_LONGEST = 255
_HISTORY_MOST = 1000


class Facts:
    """The facts of one project.

    Args:
        database: Where the tables are.
        wake: Has a tick look at once when an action waits for what has changed; None leaves it to the cron.
    """

    def __init__(self, database: Database, wake: Wake | None = None) -> None:
        self._database = database
        self._wake = wake

    def report(
        self,
        target: Mapping[str, str],
        name: str,
        value: Any,  # noqa: ANN401 - any JSON
        *,
        team_id: str | None = None,
        by: str | None = None,
        connection: psycopg.Connection[Any] | None = None,
    ) -> Reported:
        """Say what is so of a thing; what waits for it runs at once.

        Args:
            target: The thing: `{"type": "invoice", "id": "42"}`.
            name: What is said of it: `state`, `amount`, `approval:ann`, `user_action:signed:ann`.
            value: Any JSON; the same as before changes nothing and wakes nobody.
            team_id: The tenant: only its actions see it.
            by: Who says so; kept.
            connection: Your own psycopg connection: roll its transaction back, and it never was so.

        Raises:
            RequestError: An argument cannot be what it is; nothing was changed.
            DatabaseUnavailable: The database cannot be reached.
        """
        key = fact_key(target, name)
        text = json_text.encode("value", value, limit=VALUE_LIMIT)
        arguments.check_text("team_id", team_id, longest=_LONGEST)
        arguments.check_text("by", by, longest=_LONGEST)
        with borrowed_connection(self._database, connection) as borrowed:
            reported = store.report(borrowed, key, text, team_id=team_id, by=by)
        if reported.awaited:
            self._announce(connection)
        return reported

    @contextmanager
    def locked(
        self, target: Mapping[str, str], name: str, *, team_id: str | None, connection: Connection | None = None
    ) -> Iterator[tuple[Fact, Connection]]:
        """Give a fact that stays as it is until the block ends, and the connection whose transaction keeps it so.

        Raises:
            UnknownFact: None of that name was reported of the thing (in that team).
        """
        with borrowed_connection(self._database, connection) as lent, lent.transaction():
            store.lock(lent, fact_key(target, name), team_id=team_id)
            yield self.get(target, name, team_id=team_id, connection=lent), lent

    def get(
        self,
        target: Mapping[str, str],
        name: str,
        *,
        team_id: str | None = None,
        connection: Connection | None = None,
    ) -> Fact:
        """Return a fact.

        Raises:
            UnknownFact: None of that name was reported of the thing (in that team).
        """
        arguments.check_text("team_id", team_id)
        with borrowed_connection(self._database, connection) as borrowed:
            found = store.get(borrowed, fact_key(target, name), team_id=team_id)
        if found is None:
            raise UnknownFact(target["type"], target["id"], name)
        return found

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
        """Return the newest facts that match every filter given.

        Args:
            target_type: Of things of this type.
            target_id: Of things of this id.
            name: Of this name.
            team_id: Of this team; None: of all.
            cursor: The id of the last fact of the page before.
            limit: 1 to 101.
        """
        arguments.check_limit(limit, most=READ_MOST)
        with borrowed_connection(self._database, None) as borrowed:
            return store.find(
                borrowed,
                target_type=arguments.check_text("target_type", target_type),
                target_id=arguments.check_text("target_id", target_id),
                name=arguments.check_text("name", name),
                team_id=arguments.check_text("team_id", team_id),
                before=None if cursor is None else arguments.check_cursor(cursor),
                limit=limit,
            )

    def history(
        self, target: Mapping[str, str], name: str, *, team_id: str | None = None, limit: int = 100
    ) -> list[FactChange]:
        """Return the latest values that a fact had, the newest first; empty where it was never reported."""
        arguments.check_limit(limit, most=_HISTORY_MOST)
        with borrowed_connection(self._database, None) as borrowed:
            return store.history(borrowed, fact_key(target, name), team_id=team_id, limit=limit)

    def delete(
        self,
        target: Mapping[str, str],
        name: str,
        *,
        team_id: str | None = None,
        by: str | None = None,
        connection: psycopg.Connection[Any] | None = None,
    ) -> None:
        """Forget a fact; its history stays.

        Raises:
            UnknownFact: None of that name was reported of the thing (in that team).
        """
        key = fact_key(target, name)
        with borrowed_connection(self._database, connection) as borrowed:
            gone = store.delete(borrowed, key, team_id=team_id, by=by)
        if gone is None:
            raise UnknownFact(key.target_type, key.target_id, name)
        self._announce(connection)

    def _announce(self, connection: psycopg.Connection[Any] | None) -> None:
        """Have a tick look now; where another transaction decides, one that lingers looks within a second."""
        if self._wake is not None and connection is None and joined_connection.get() is None:
            self._wake.committed(has_changed=True)


def fact_key(target: Mapping[str, str], name: str) -> FactKey:
    """Return which fact is meant.

    Raises:
        InvalidArgument: The target or the name cannot be.
    """
    if target is None:
        raise InvalidArgument("target", target, 'the thing it is about: {"type": "invoice", "id": "42"}')
    arguments.target_text(dict(target) if hasattr(target, "keys") else target)
    for field, value in (("target.type", target["type"]), ("target.id", target["id"]), ("name", name)):
        arguments.check_text(field, value, longest=_LONGEST)
    if not isinstance(name, str) or "*" in name:
        raise InvalidArgument("name", name, "a text of 1 to 255 characters without *")
    return FactKey(target["type"], target["id"], name)
