"""Tokens of the management API: made here, shown once, and known afterwards by their digest alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any
from uuid import UUID

from scheduled_actions.core import checks as arguments
from scheduled_actions.core.errors import InvalidArgument, UnknownToken
from scheduled_actions.core.token_generation import Minting, digest_of
from scheduled_actions.operations import tokens_store as store

if TYPE_CHECKING:
    from scheduled_actions.database.connection import Connection

_MINTING = Minting("sat_")
NAME_LENGTH = 100
TEAM_LENGTH = 255
_LONGEST_LIFE = timedelta(days=36525)


class Role(StrEnum):
    """What a token may do; each may all that those before it may."""

    #: Reads.
    VIEWER = "viewer"
    #: Reads and changes, and may force a locked change.
    OPERATOR = "operator"
    #: All that, and makes and revokes tokens.
    ADMIN = "admin"

    def includes(self, other: Role) -> bool:
        """Whether this role may do what the other may."""
        return _RANKS[self] >= _RANKS[other]


_RANKS = {role: rank for rank, role in enumerate(Role)}


@dataclass(frozen=True, slots=True)
class Token:
    """One token, as far as it is known here; the secret itself is not."""

    id: UUID
    #: What people call it; the history of an action names it so.
    name: str
    #: Its first characters.
    hint: str
    role: Role
    #: The one team it sees and touches; None: all of them.
    team_id: str | None
    created_by: str | None
    created_at: datetime
    #: None: it never does.
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
    expires_at: datetime | None = None,
    expires_in: timedelta | None = None,
    created_by: str | None = None,
) -> tuple[Token, str]:
    """Make a token; return what is kept of it, and the token itself, which nobody can read again.

    Args:
        connection: Its transaction, if any, decides whether the token ever was.
        name: What people call it.
        role: `viewer`, `operator` or `admin`.
        team_id: The one team it sees and touches; None: all of them.
        expires_at: Aware; None: `expires_in` from the database's now, or never.
        expires_in: As `expires_at`; a hundred years at most.
        created_by: Who asked for it.

    Raises:
        InvalidArgument: A value is not what it must be; nothing was made.
    """
    if expires_in is not None and not timedelta(0) <= expires_in <= _LONGEST_LIFE:
        raise InvalidArgument("expires_in", expires_in, "a time from now: between zero and a hundred years")
    minted = _MINTING.mint()
    row = store.create(
        connection,
        name=arguments.check_name("name", name, longest=NAME_LENGTH),
        digest=minted.digest,
        hint=minted.hint,
        role=check_role(role),
        team_id=arguments.check_text("team_id", team_id, longest=TEAM_LENGTH),
        created_by=created_by,
        expires_at=arguments.check_aware("expires_at", expires_at),
        expires_in=expires_in,
    )
    return _token(row), minted.secret


def find(connection: Connection, secret: str) -> Token | None:
    """Return the token that was shown, revoked or expired ones included; None for what is no token of ours.

    What cannot be a token is not looked up. That it is in use is noted, to within an hour.
    """
    return find_digest(connection, digest_of(secret)) if is_one(secret) else None


def is_one(secret: str) -> bool:
    """Whether it has the form of a token."""
    return _MINTING.is_one(secret)


def hint_of(secret: str) -> str:
    """Return the first characters of a token; an empty text for what does not have the form of one."""
    return _MINTING.hint_of(secret) if is_one(secret) else ""


def find_digest(connection: Connection, digest: bytes) -> Token | None:
    """Return the token of that digest, as `find`."""
    row = store.find(connection, digest)
    return None if row is None else _token(row)


def newest(
    connection: Connection, *, team_id: str | None = None, before: UUID | None = None, limit: int = 100
) -> list[Token]:
    """Return the newest tokens (of a team), at most `limit`, those with ids below `before`."""
    return [_token(row) for row in store.newest(connection, team_id=team_id, before=before, limit=limit)]


def revoke(connection: Connection, token_id: UUID | str, *, team_id: str | None = None) -> Token:
    """Let a token open nothing any more; one revoked before stays as it was.

    Raises:
        UnknownToken: There is none of that id (in that team).
    """
    try:
        wanted = token_id if isinstance(token_id, UUID) else UUID(token_id)
    except ValueError:
        raise UnknownToken(token_id) from None
    row = store.revoke(connection, wanted, team_id=team_id)
    if row is None:
        raise UnknownToken(token_id)
    return _token(row)


def check_role(value: str) -> Role:
    """Return the role of that name."""
    try:
        return Role(value)
    except ValueError:
        raise InvalidArgument("role", value, f"one of {', '.join(Role)}") from None


def _token(row: store.Row) -> Token:
    *values, is_expired = (one.astimezone(UTC) if isinstance(one, datetime) else one for one in row)
    fields: dict[str, Any] = dict(zip(_FIELDS, values, strict=True))
    fields["role"] = Role(fields["role"])
    return Token(**fields, is_expired=bool(is_expired))


_FIELDS = [name for name in Token.__dataclass_fields__ if name != "is_expired"]
