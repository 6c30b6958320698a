"""Manage API tokens, of which only the digest is stored, and record ended sessions of the dashboard."""

from dataclasses import dataclass, fields
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from scheduled_actions.core import checks as arguments
from scheduled_actions.core.errors import InvalidArgument, UnknownToken
from scheduled_actions.core.token_generation import TokenKind, digest_of
from scheduled_actions.database.connection import Connection
from scheduled_actions.database.statements import Statements

sql = Statements(__file__)

_KIND = TokenKind("sat_")
#: Returns whether a string has the form of a token.
is_one = _KIND.is_one
NAME_LENGTH = 100
TEAM_LENGTH = 255
_LONGEST_LIFE = timedelta(days=36525)


class Role(StrEnum):
    """The rights of a token; each role includes the previous ones."""

    #: Read data.
    VIEWER = "viewer"
    #: Change data, and override edit locks.
    OPERATOR = "operator"
    #: Create and revoke tokens.
    ADMIN = "admin"

    def includes(self, other: "Role") -> bool:
        """Return whether this role may do everything that the other may."""
        return list(Role).index(self) >= list(Role).index(other)


@dataclass(frozen=True, slots=True)
class Token:
    """A stored token, without its secret."""

    id: UUID
    #: A label for people; stored in the history of the actions that the token changes.
    name: str
    #: The first characters of the secret.
    hint: str
    role: Role
    #: The one team whose data the token may use; None: all teams.
    team_id: str | None
    created_by: str | None
    created_at: datetime
    #: None: the token never expires.
    expires_at: datetime | None
    #: To within an hour; None before the first use.
    last_used_at: datetime | None
    revoked_at: datetime | None
    is_expired: bool


def create(
    connection: Connection,
    *,
    name: str,
    role: str,
    team_id: str | None = None,
    expires_at: datetime | date | str | None = None,
    expires_in: timedelta | None = None,
    created_by: str | None = None,
) -> tuple[Token, str]:
    """Create a token; return the token and its secret. The secret is not stored.

    Args:
        connection: Its transaction, if any, includes the token.
        name: A label for people, at most 100 characters.
        role: `viewer`, `operator` or `admin`.
        team_id: The one team whose data the token may use, at most 255 characters; None: all teams.
        expires_at: An instant with an offset, or a day (its last second in UTC); takes precedence over `expires_in`.
            None: after `expires_in`, or never.
        expires_in: Time until the token expires, at most a hundred years.
        created_by: Who creates the token.

    Raises:
        InvalidArgument: A value is invalid; nothing was created.
    """
    if expires_in is not None and not timedelta(0) <= expires_in <= _LONGEST_LIFE:
        raise InvalidArgument("expires_in", expires_in, "a duration between zero and a hundred years")
    secret = _KIND.generate()
    values = {
        "name": arguments.check_name("name", name, longest=NAME_LENGTH),
        "digest": digest_of(secret),
        "hint": _KIND.hint_of(secret),
        "role": check_role(role),
        "team_id": arguments.check_text("team_id", team_id, longest=TEAM_LENGTH),
        "created_by": created_by,
        "expires_at": arguments.check_end("expires_at", expires_at),
        "expires_in": expires_in,
    }
    (row,) = sql.run_leniently(connection, "create_token", values)
    return _token(row), secret


def hint_of(secret: str) -> str:
    """Return the first characters of a token; empty for a string that is not a token."""
    return _KIND.hint_of(secret) if is_one(secret) else ""


def find_digest(connection: Connection, digest: bytes) -> Token | None:
    """Return the token whose secret has that digest, even if it is revoked or expired; None if there is none.

    The use of a valid token is recorded at most once an hour.
    """
    row = sql.run_leniently(connection, "find_token", {"digest": digest}).fetchone()
    return None if row is None else _token(row)


def newest(
    connection: Connection, *, team_id: str | None = None, before: UUID | None = None, limit: int = 100
) -> list[Token]:
    """Return tokens, the newest first.

    Args:
        connection: To the project's database.
        team_id: Only tokens of this team; None: all tokens.
        before: Only tokens older than the one with this id.
        limit: Maximum number of tokens.
    """
    rows = sql.run_leniently(connection, "list_tokens", {"team_id": team_id, "before": before, "limit": limit})
    return [_token(row) for row in rows]


def revoke(connection: Connection, token_id: UUID | str, *, team_id: str | None = None) -> Token:
    """Revoke a token immediately, and return it; a second call changes nothing.

    Raises:
        UnknownToken: No token (of that team) has the id.
    """
    try:
        parameters = {"id": UUID(str(token_id)), "team_id": team_id}
    except ValueError:
        raise UnknownToken(token_id) from None
    row = sql.run_leniently(connection, "revoke_token", parameters).fetchone()
    if row is None:
        raise UnknownToken(token_id)
    return _token(row)


def check_role(value: str) -> Role:
    """Return the role with that name.

    Raises:
        InvalidArgument: No role has that name.
    """
    try:
        return Role(value)
    except ValueError:
        raise InvalidArgument("role", value, f"one of {', '.join(Role)}") from None


def _token(row: tuple[Any, ...]) -> Token:
    values = dict(zip([field.name for field in fields(Token)], row, strict=True))
    return Token(**values | {"role": Role(values["role"]), "is_expired": bool(values["is_expired"])})


def end_session(connection: Connection, session_id: UUID, *, lifetime_seconds: int) -> None:
    """Store that a session of the dashboard has ended, and delete up to 1,000 rows whose cookies have expired.

    Args:
        connection: Stores the session.
        session_id: The session.
        lifetime_seconds: How long a cookie is valid.
    """
    sql.run(connection, "end_session", {"id": session_id, "lifetime_seconds": lifetime_seconds})


def is_ended(connection: Connection, session_id: UUID) -> bool:
    """Return whether a session of the dashboard has ended."""
    row = sql.run(connection, "session_is_ended", {"id": session_id}).fetchone()
    return row is not None and bool(row[0])
