"""Rights of other database roles: what scheduling and reading need, through schemas of their own."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import psycopg

from scheduled_actions.core.errors import DeploymentError
from scheduled_actions.database.statements import Statements
from scheduled_actions.database.transactions import refused

if TYPE_CHECKING:
    from scheduled_actions.database.connection import Connection


sql = Statements(__file__)


class Kind(StrEnum):
    """What a role may do."""

    #: Schedule actions, emit events, report facts: through functions.
    SCHEDULER = "scheduler"
    #: Read actions, schedules, deadlines, facts and deliveries: through views.
    READER = "reader"


class GrantRefused(DeploymentError):
    """The role that migrates may not create schemas in this database, or not grant rights on them."""

    code = "grant_refused"

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"the database refused the grant: {reason}; run `migrate` as the role that owns the tables, "
            "which needs `grant create on database`"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """The rights of one role."""

    role: str
    kind: Kind
    #: The only team for which it acts; None: any, or none.
    team_id: str | None
    #: The schema with the functions and views that it may use.
    schema: str

    def as_json(self) -> dict[str, Any]:
        """Return its fields."""
        return asdict(self)


def grant(connection: Connection, kind: Kind, role: str, *, team_id: str | None = None) -> Grant:
    """Give a role the rights of a scheduler or a reader; granting them again changes nothing.

    Args:
        connection: In autocommit mode, of the role that owns the tables.
        kind: What the role may do.
        role: Its name, as the catalog has it.
        team_id: The only team for which the role may act or whose rows it may read; None: all.

    Raises:
        RequestError: No role has this name, or the schema belongs to something else.
        GrantRefused: The role of the connection may not do so.
    """
    try:
        row = sql.run(connection, "grant_role", {"kind": kind, "role": role, "team_id": team_id}).fetchone()
    except psycopg.errors.InvalidParameterValue as error:
        raise refused(error) from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise GrantRefused(error.diag.message_primary or "insufficient privilege") from error
    return Grant(role=role, kind=kind, team_id=team_id, schema=row[0] if row else "")
