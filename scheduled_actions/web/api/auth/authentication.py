"""Who asks the management API: `ADMIN_TOKEN`, or a token from the table; and what each may."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduled_actions.core.errors import NotConfigured
from scheduled_actions.core.requester import Requester
from scheduled_actions.core.secret import SECRET_MIN_LENGTH, bearer
from scheduled_actions.core.token_generation import digest_of
from scheduled_actions.operations import tokens
from scheduled_actions.operations.tokens import Role
from scheduled_actions.web.api.requests.refusals import Forbidden, NotAuthorised, TooManyAttempts

if TYPE_CHECKING:
    from uuid import UUID

    from scheduled_actions.runtime import Runtime
    from scheduled_actions.web.api.auth.attempts import FailedAttempts

log = logging.getLogger("scheduled_actions")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, and how far that reaches."""

    #: As the history of an action names it.
    name: str
    role: Role
    #: The one team that there is for it; None: all of them.
    team_id: str | None
    #: Its token in the table; None for `ADMIN_TOKEN`.
    token_id: UUID | None = None

    @property
    def own_name(self) -> str:
        """The name of the token, without its kind."""
        return self.name.partition(":")[2]

    @property
    def requester(self) -> Requester:
        """The caller as services know it."""
        return Requester(team_id=self.team_id)

    def must_be(self, role: Role) -> None:
        """Return if the caller may do what a role may.

        Raises:
            Forbidden: It may not.
        """
        if not self.role.includes(role):
            raise Forbidden(f"{self.name} is {self.role}; this needs {role}")

    def must_have_no_team(self, subject: str) -> None:
        """Return if the caller sees all teams.

        Raises:
            Forbidden: It sees one alone, and what is asked for belongs to none.
        """
        if self.team_id is not None:
            raise Forbidden(f"{self.name} is bound to a team, and {subject}; use a token without a team")

    def sees(self, team_id: str | None) -> bool:
        """Whether there can be anything to see of that team; None: of all that the caller sees."""
        return self.team_id is None or team_id in {None, self.team_id}

    def team_for(self, given: str | None) -> str | None:
        """Return the team that something new belongs to: the caller's own where it has one.

        Raises:
            Forbidden: Another team is given.
        """
        if not self.sees(given):
            raise Forbidden(f"{self.name} is bound to a team, and team_id is not that team: leave it out")
        return self.team_id or given


_UNKNOWN = (
    "the token is not one that opens the API: it may be of another deployment, or have expired or been revoked "
    "(`scheduled-actions token list`)"
)
#: Who shows `ADMIN_TOKEN`.
ADMIN = Caller("api:admin", Role.ADMIN, None)


def authenticated(runtime: Runtime, authorization: str | None, *, address: str, attempts: FailedAttempts) -> Caller:
    """Return who sent an Authorization header; see `holder` for what is raised.

    Args:
        runtime: The secret and the database.
        authorization: The header as it came; None where there was none.
        address: Where the request came from.
        attempts: The wrong tokens of late.
    """
    check_open(runtime)
    shown = bearer(authorization)
    if not shown:
        raise NotAuthorised(
            "send Authorization: Bearer with ADMIN_TOKEN or a token of `scheduled-actions token create`"
        )
    return holder(runtime, shown, address=address, attempts=attempts)


def check_open(runtime: Runtime) -> None:
    """Return if the API is open.

    Raises:
        NotConfigured: `ADMIN_TOKEN` is unset or too short: then the API is closed, to stored tokens, too.
    """
    if not runtime.config.admin_token.is_usable:
        raise NotConfigured(
            "ADMIN_TOKEN", f"set it to {SECRET_MIN_LENGTH} random characters or more; until then the API is closed"
        )


def holder(runtime: Runtime, shown: str, *, address: str, attempts: FailedAttempts) -> Caller:
    """Return who shows a token.

    Args:
        runtime: The secret and the database.
        shown: The token.
        address: Where it came from.
        attempts: The recent wrong tokens.

    Raises:
        NotConfigured: See `check_open`.
        NotAuthorised: It opens nothing.
        TooManyAttempts: It opens nothing, and too many like it came from that address.
        DatabaseUnavailable: Stored tokens cannot be looked up.
    """
    check_open(runtime)
    # A right token is let in whatever was sent before it: behind a proxy, callers share an address.
    if runtime.config.admin_token.matches(shown):
        return ADMIN
    try:
        return _holder(runtime, shown)
    except NotAuthorised as error:
        wait = attempts.failed(address, shown)
        if wait:
            raise TooManyAttempts(wait) from None
        log.warning("api.refused address=%s reason=%s", address, error)
        raise


def _holder(runtime: Runtime, shown: str) -> Caller:
    if not tokens.is_one(shown):
        raise NotAuthorised(_UNKNOWN)
    return holder_of(runtime, digest_of(shown))


def holder_of(runtime: Runtime, digest: bytes) -> Caller:
    """Return who holds the stored token of a digest.

    Raises:
        NotAuthorised: There is none, or it was revoked or has expired.
        DatabaseUnavailable: It cannot be looked up.
    """
    with runtime.database.connection() as connection:
        token = tokens.find_digest(connection, digest)
    if token is None:
        raise NotAuthorised(_UNKNOWN)
    if token.revoked_at is not None:
        raise NotAuthorised(f"the token {token.hint}… was revoked")
    if token.is_expired:
        raise NotAuthorised(f"the token {token.hint}… has expired")
    return Caller(f"token:{token.name}", token.role, token.team_id, token.id)
