"""Who has signed in: cookies that are signed, that scripts cannot read, and in which no token stands.

A session holds the digest of a token with its role and team, so it ends when the token is revoked, expires or changes;
the keys come from `ADMIN_TOKEN`, so it ends, too, when that one is replaced. The database keeps the sessions that were
signed out of, until their cookies have expired.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from itsdangerous import BadData, URLSafeTimedSerializer

from scheduled_actions.core.errors import RequestError
from scheduled_actions.operations import tokens_store as store
from scheduled_actions.web.api.auth.authentication import ADMIN, Caller, check_open, holder_of
from scheduled_actions.web.api.requests.refusals import NotAuthorised

if TYPE_CHECKING:
    from scheduled_actions.runtime import Runtime

#: A session ends so long after it began: a working day.
SESSION_SECONDS = 12 * 3600
#: A form to sign in with may stay open for so long.
VISIT_SECONDS = 3600
#: What a change says is told within so long, or not at all.
SAID_SECONDS = 60
SESSION_COOKIE = "scheduled_actions_session"
VISIT_COOKIE = "scheduled_actions_visit"
SAID_COOKIE = "scheduled_actions_said"
SHOWN_COOKIE = "scheduled_actions_shown"
_SALT = b"scheduled-actions dashboard"
#: 16 MiB and some 50 ms: who holds a cookie cannot try out what ADMIN_TOKEN may be.
_SCRYPT_COST = 2**14


class FormExpired(RequestError):
    """The form came without the token that it was given, or that token is of another session."""

    code = "form_expired"

    def __init__(self) -> None:
        super().__init__("the form has expired, or did not come from this page: load the page again and repeat")


@dataclass(frozen=True, slots=True)
class Session:
    """Somebody who has signed in."""

    id: UUID
    #: Of the token; None for `ADMIN_TOKEN`.
    digest: bytes | None
    #: The token's role and team when the session began.
    rights: str
    #: Stands in each form of the session.
    csrf: str


class Sessions:
    """Writes and reads the cookies of one project.

    Args:
        runtime: Its secret, and its tokens.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def begin(self, caller: Caller, digest: bytes | None) -> str:
        """Return the cookie of a new session.

        Args:
            caller: Who signs in.
            digest: Of the token that was shown; None for `ADMIN_TOKEN`.
        """
        told = "" if digest is None else base64.b64encode(digest).decode()
        session = {"id": uuid4().hex, "digest": told, "rights": _rights(caller), "csrf": secrets.token_urlsafe(16)}
        return self.sign("session", session)

    def end(self, session: Session) -> None:
        """End a session: its cookie opens nothing any more, wherever it is kept.

        Raises:
            DatabaseUnavailable: It could not be ended.
        """
        with self._runtime.database.connection() as connection:
            store.end_session(connection, session.id, lifetime_seconds=SESSION_SECONDS)

    def read(self, cookie: str | None) -> Session | None:
        """Return the session of a cookie; None where there is none, or no longer."""
        match self.unsign("session", cookie, SESSION_SECONDS):
            case {"id": str(number), "digest": str(told), "rights": str(rights), "csrf": str(csrf)}:
                try:
                    return Session(UUID(number), base64.b64decode(told) if told else None, rights, csrf)
                except (binascii.Error, ValueError):
                    return None
            case _:
                return None

    def caller(self, session: Session) -> Caller:
        """Return who has signed in, as the token is now.

        Raises:
            NotAuthorised: It was revoked, was changed or has expired, or the session was signed out of.
            NotConfigured: The API is closed.
            DatabaseUnavailable: It cannot be looked up.
        """
        check_open(self._runtime)
        with self._runtime.database.connection() as connection:
            if store.is_ended(connection, session.id):
                raise NotAuthorised("the session was ended: sign in again")
        caller = ADMIN if session.digest is None else holder_of(self._runtime, session.digest)
        if _rights(caller) != session.rights:
            raise NotAuthorised("the token has changed: sign in again")
        return caller

    def sign(self, purpose: str, value: Any) -> str:  # noqa: ANN401 - small JSON
        """Return a value that only this project can have written, for this purpose."""
        return self._serializer(purpose).dumps(value)

    def unsign(self, purpose: str, text: str | None, seconds: int) -> Any:  # noqa: ANN401 - as signed
        """Return what was signed for this purpose, if that is no longer ago; else None."""
        if not text:
            return None
        try:
            return self._serializer(purpose).loads(text, max_age=seconds)
        except BadData:
            return None

    def seal(self, session: Session, value: Any) -> str:  # noqa: ANN401 - small JSON
        """Return a value for the next page of that session alone; it can be read by whoever has the cookie, who may."""
        return self.sign(f"shown {session.csrf}", value)

    def unseal(self, session: Session, sealed: str | None) -> Any:  # noqa: ANN401 - as sealed
        """Return what was sealed for this session a moment ago; else None."""
        return self.unsign(f"shown {session.csrf}", sealed, SAID_SECONDS)

    def _serializer(self, purpose: str) -> URLSafeTimedSerializer:
        return URLSafeTimedSerializer(
            self._keys,
            salt=purpose.encode(),
            signer_kwargs={"key_derivation": "hmac", "digest_method": hashlib.sha256},
        )

    @cached_property
    def _keys(self) -> list[bytes]:
        """A key for each value that `ADMIN_TOKEN` accepts; the last one signs."""
        check_open(self._runtime)
        return [_key(value) for value in self._runtime.config.admin_token.accepted]


def _rights(caller: Caller) -> str:
    return f"{caller.role} {caller.team_id or ''}"


@cache
def _key(value: bytes) -> bytes:
    return hashlib.scrypt(value, salt=_SALT, n=_SCRYPT_COST, r=8, p=1, dklen=32)


def check_csrf(expected: str, sent: str) -> None:
    """Return if a form sent the token that it was given.

    Raises:
        FormExpired: It did not.
    """
    if not expected or not hmac.compare_digest(expected.encode(), sent.encode("utf-8", "surrogatepass")):
        raise FormExpired
