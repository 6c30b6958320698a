"""Create, list and revoke API tokens."""

from functools import partial
from http import HTTPStatus
from typing import ClassVar

from pydantic import Field

from scheduled_actions.core.errors import UnknownToken
from scheduled_actions.operations import tokens
from scheduled_actions.web.api.models import (
    Delay,
    EmptyRequest,
    InstantOrDelay,
    LastInstant,
    PageQuery,
    Record,
    ShortText,
    TokenName,
    page_of,
    shares_fields,
)
from scheduled_actions.web.api.routing import Answer, Call, Route, page_answer


class CreateTokenRequest(InstantOrDelay):
    """The name, role, team and expiry of a new token."""

    alternatives: ClassVar[tuple[str, str]] = ("expires_at", "expires_in")

    name: TokenName = Field(
        description="Name of the token, recorded in the history of the actions that the token changes."
    )
    role: tokens.Role = Field(strict=False)
    team_id: ShortText | None = Field(
        None,
        description="The only team that the new token can access. Default: the team of the request's token, else all "
        "teams.",
    )
    expires_at: LastInstant | None = None
    expires_in: Delay | None = Field(
        None,
        description="Instead of `expires_at`: seconds from now, or an ISO 8601 duration. Without either, the token "
        "does not expire.",
    )


@shares_fields(
    tokens.Token,
    name=None,
    hint="The first characters of the secret.",
    last_used_at="Time of the last use, accurate to an hour; null before the first use.",
    revoked_at=None,
)
class SecretRecord(Record):
    """Fields that tokens and calendar feeds share; the secret itself is not stored."""


@shares_fields(
    tokens.Token,
    role=None,
    expires_at=None,
    is_expired=None,
)
class TokenDocument(SecretRecord):
    """A stored token, without its secret."""


class CreatedToken(TokenDocument):
    """A new token with its secret."""

    token: str | None = Field(
        description="The token itself, shown only in this response: only its digest is stored. Null in a replayed "
        "response."
    )


TokenPage = page_of("TokenPage", "A page of tokens, newest first.", tokens=list[TokenDocument])


def create_token(call: Call[EmptyRequest, CreateTokenRequest]) -> Answer:
    """Create a token; a caller with a team can create tokens only for that team."""
    given = {**dict(call.body), "team_id": call.caller.team_for(call.body.team_id)}
    with call.borrowed() as connection:
        token, secret = tokens.create(connection, **given, created_by=call.caller.name)
    return Answer(TokenDocument.model_validate(token), HTTPStatus.CREATED).extended(CreatedToken, token=secret)


def list_tokens(call: Call[PageQuery, EmptyRequest]) -> Answer:
    """Return a page of tokens, including revoked and expired ones, newest first."""
    with call.borrowed() as connection:
        return page_answer(
            call,
            TokenPage,
            partial(tokens.newest, connection, team_id=call.team_filter, before=call.query.cursor),
        )


def revoke_token(call: Call[EmptyRequest, EmptyRequest]) -> Answer:
    """Revoke a token immediately; return the token."""
    with call.borrowed() as connection:
        return Answer(
            TokenDocument.model_validate(tokens.revoke(connection, call.reference, team_id=call.caller.team_id))
        )


ROUTES = (
    Route(
        "GET", "/tokens", list_tokens, "List tokens, newest first",
        tag="Tokens", least_role=tokens.Role.ADMIN, query=PageQuery,
        answers={HTTPStatus.OK: (TokenPage, "A page of tokens.")},
    ),
    Route(
        "POST", "/tokens", create_token, "Create a token", tag="Tokens", least_role=tokens.Role.ADMIN,
        description="The token is shown only in this response: only its digest is stored.", body=CreateTokenRequest,
        answers={HTTPStatus.CREATED: (CreatedToken, "The token.")}, creates=True, shown_once="token",
    ),
    Route(
        "POST", "/tokens/{id}/revoke", revoke_token, "Revoke a token immediately",
        tag="Tokens", least_role=tokens.Role.ADMIN, description="Revoking a token again changes nothing.",
        answers={HTTPStatus.OK: (TokenDocument, "The token.")}, refuses=(UnknownToken,), creates=True,
    ),
)  # fmt: skip
