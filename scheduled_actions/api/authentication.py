"""Who asks the management API: `ADMIN_TOKEN`, or a token from the table; and what each may."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduled_actions import tokens
from scheduled_actions.api.credentials import NotAuthorised, bearer, matches
from scheduled_actions.api.refusals import Forbidden, TooManyAttempts
from scheduled_actions.config import SECRET_MIN_LENGTH
from scheduled_actions.errors import NotConfigured
from scheduled_actions.tokens import Role

if TYPE_CHECKING:
    from scheduled_actions.api.attempts import FailedAttempts
    from scheduled_actions.runtime import Runtime

log = logging.getLogger("scheduled_actions")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, and how far that reaches."""

    #: As the history of an action names it.
    name: str
    role: Role
    #: The one team that there is for it; None: all of them.
    team_id: str | None

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


def authenticated(runtime: Runtime, authorization: str | None, *, address: str, attempts: FailedAttempts) -> Caller:
    """Return who sent an Authorization header.

    Args:
        runtime: The secret and the database.
        authorization: The header as it came; None where there was none.
        address: Where the request came from.
        attempts: The wrong tokens of late.

    Raises:
        NotConfigured: `ADMIN_TOKEN` is unset or too short: then the API is closed, to stored tokens, too.
        NotAuthorised: No token, or one that opens nothing.
        TooManyAttempts: Too many wrong ones came from that address; this one was not looked at.
        DatabaseUnavailable: Stored tokens cannot be looked up.
    """
    admin = runtime.config.admin_token
    if not admin.is_usable:
        raise NotConfigured(
            "ADMIN_TOKEN", f"set it to {SECRET_MIN_LENGTH} random characters or more; until then the API is closed"
        )
    shown = bearer(authorization)
    if not shown:
        raise NotAuthorised(
            "send Authorization: Bearer with ADMIN_TOKEN or a token of `scheduled-actions token create`"
        )
    digest = hashlib.sha256(shown.encode("utf-8", "surrogatepass")).digest()
    wait = attempts.wait(address, digest)
    if wait:
        raise TooManyAttempts(wait)
    if matches(admin, shown):
        attempts.succeeded(digest)
        return Caller("api:admin", Role.ADMIN, None)
    try:
        caller = _holder(runtime, shown)
    except NotAuthorised as error:
        attempts.failed(address, digest)
        log.warning("api.refused address=%s reason=%s", address, error)
        raise
    attempts.succeeded(digest)
    return caller


def _holder(runtime: Runtime, shown: str) -> Caller:
    if not shown.startswith(tokens.PREFIX):
        raise NotAuthorised("the token is not one that opens the API")
    with runtime.database.connection() as connection:
        token = tokens.find(connection, shown)
    if token is None:
        raise NotAuthorised("the token is not one that opens the API")
    if token.revoked_at is not None:
        raise NotAuthorised(f"the token {token.hint}… was revoked")
    if token.is_expired:
        raise NotAuthorised(f"the token {token.hint}… has expired")
    return Caller(f"token:{token.name}", token.role, token.team_id)
