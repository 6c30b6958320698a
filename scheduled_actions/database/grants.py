"""Grant other database roles the privileges to schedule or to read, through separate access schemas."""

from dataclasses import dataclass
from enum import StrEnum

import psycopg

from scheduled_actions.core.errors.families import DeploymentError, error_class
from scheduled_actions.database.connection import Connection
from scheduled_actions.database.statements import Statements
from scheduled_actions.database.transactions import database_refusal

sql = Statements(__file__)


class RoleKind(StrEnum):
    """The kind of access that a role gets."""

    #: May schedule actions, emit events and report facts, through functions.
    SCHEDULER = "scheduler"
    #: May read actions, schedules, deadlines, facts and deliveries, through views.
    READER = "reader"


@error_class
class GrantRefused(DeploymentError):
    """The role of the connection may not create schemas in this database, or may not grant the privileges."""

    message = (
        "the database refused the grant: {reason}; run `scheduled-actions migrate` as the role that owns the tables, "
        "and allow that role to create schemas with `grant create on database`"
    )
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """The privileges that were granted to one role."""

    role: str
    kind: RoleKind
    #: The only team that the role may access; None: all teams.
    team_id: str | None
    #: The schema with the functions and views that the role may use.
    schema: str


def grant(connection: Connection, kind: RoleKind, role: str, *, team_id: str | None = None) -> Grant:
    """Grant a role the privileges of a scheduler or a reader; repeating the call changes nothing.

    Args:
        connection: In autocommit mode, as the role that owns the tables.
        kind: The kind of access.
        role: The name of the role, as stored in the catalog.
        team_id: The only team that the role may access; None: all teams.

    Raises:
        RequestError: The role does not exist, the team id is empty or too long, another role owns the tables, or a
            schema with the required name exists that is not an access schema.
        GrantRefused: The role of the connection may not create schemas or grant these privileges.
    """
    try:
        (schema,) = sql.run_one(connection, "grant_role", {"kind": kind, "role": role, "team_id": team_id})
    except psycopg.errors.InvalidParameterValue as error:
        raise database_refusal(error) from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise GrantRefused(error.diag.message_primary or "insufficient privilege") from error
    return Grant(role=role, kind=kind, team_id=team_id, schema=schema)
