"""Tokens over HTTP: make, list, revoke."""

from __future__ import annotations

from datetime import datetime
from http import HTTPStatus
from typing import Self
from uuid import UUID

from pydantic import ConfigDict, Field, model_validator

from scheduled_actions.core.errors import UnknownToken
from scheduled_actions.core.pages import page_of
from scheduled_actions.operations import tokens
from scheduled_actions.operations.tokens import Role
from scheduled_actions.web.api.models import Delay, Given, Instant, ShortText, Shown, TokenName, about, not_both
from scheduled_actions.web.api.routing import Answer, Call, Route
from scheduled_actions.web.api.tokens.secrets import KeptSecret, Newest


class NewToken(Given):
    """A token to make."""

    model_config = ConfigDict(json_schema_extra=not_both("expires_at", "expires_in"))

    name: TokenName = Field(description="What people call it; the history of an action names it so.")
    role: Role = Field(strict=False)
    team_id: ShortText | None = Field(None, description="The one team it sees and touches.")
    expires_at: Instant | None = None
    expires_in: Delay | None = Field(None, description="In place of `expires_at`: seconds, or an ISO 8601 duration.")

    @model_validator(mode="after")
    def _ends_once(self) -> Self:
        if {"expires_at", "expires_in"} <= self.model_fields_set:
            raise about("expires_in", "says the same as expires_at: give one of them")
        return self


class Token(KeptSecret):
    """A token, as far as it is known here."""

    role: Role
    expires_at: datetime | None
    is_expired: bool


class MadeToken(Token):
    """A token that was just made."""

    token: str | None = Field(
        description="The token itself. It is shown this once: only its digest is kept. Null in the answer to a "
        "repeated Idempotency-Key."
    )


class TokensPage(Shown):
    """Some of the tokens, the newest first."""

    tokens: list[Token]
    next_cursor: UUID | None


def make(call: Call) -> Answer:
    """Make a token, of the caller's team where it has one."""
    given: NewToken = call.body
    with call.borrowed() as connection:
        token, secret = tokens.create(
            connection,
            name=given.name,
            role=given.role,
            team_id=call.caller.team_for(given.team_id),
            expires_at=given.expires_at,
            expires_in=given.expires_in,
            created_by=call.caller.name,
        )
    return Answer(MadeToken(**dict(Token.model_validate(token)), token=secret), HTTPStatus.CREATED)


def list_tokens(call: Call) -> Answer:
    """Answer the newest tokens, of the caller's team where it has one."""

    def newest(limit: int) -> list[tokens.Token]:
        with call.borrowed() as connection:
            return tokens.newest(connection, team_id=call.caller.team_id, before=call.query.cursor, limit=limit)

    shown, next_cursor = page_of(newest, call.query.limit)
    return Answer(TokensPage(tokens=[Token.model_validate(one) for one in shown], next_cursor=next_cursor))


def revoke(call: Call) -> Answer:
    """Let a token open nothing any more."""
    with call.borrowed() as connection:
        token = tokens.revoke(connection, call.path["id"], team_id=call.caller.team_id)
    return Answer(Token.model_validate(token))


ROUTES = (
    Route(
        method="GET",
        path="/tokens",
        function=list_tokens,
        role=Role.ADMIN,
        tag="Tokens",
        summary="List the tokens, the newest first",
        query=Newest,
        answers={HTTPStatus.OK: (TokensPage, "A page.")},
    ),
    Route(
        method="POST",
        path="/tokens",
        function=make,
        role=Role.ADMIN,
        tag="Tokens",
        summary="Make a token",
        description="It is shown once, in this answer: only its digest is kept.",
        body=NewToken,
        answers={HTTPStatus.CREATED: (MadeToken, "The token.")},
        creates=True,
        shown_once="token",
    ),
    Route(
        method="DELETE",
        path="/tokens/{id}",
        function=revoke,
        role=Role.ADMIN,
        tag="Tokens",
        summary="Revoke a token",
        description="It opens nothing any more; one that was revoked before stays as it was.",
        answers={HTTPStatus.OK: (Token, "The token as it is now.")},
        refuses=(UnknownToken,),
    ),
)
