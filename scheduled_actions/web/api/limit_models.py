"""The limit keys and the expiry of actions in requests and responses."""

from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic.config import JsonDict

from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.registry import limit_keys
from scheduled_actions.web.api.models import (
    DURATION_PATTERN,
    MAX_DELAY_DAYS,
    Moment,
    RequestModel,
    parse_delay,
    rejection,
    rejection_of,
)


def _parse_lifetime(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Convert a number of seconds or a duration as `parse_delay` does, and reject zero."""
    lifetime = parse_delay(value)
    if not lifetime:
        raise rejection("should be a duration above zero")
    return lifetime


def _readable_keys(value: Any) -> Any:  # noqa: ANN401 - any array of the database
    """Return stored limit keys as strings, because a row that SQL inserted may contain any values."""
    return [str(key) for key in value] if isinstance(value, list) else value


#: Limit keys in a response.
StoredLimitKeys = Annotated[list[str] | None, BeforeValidator(_readable_keys)]


def _parse_limit(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Convert a limit key, or a list of one to three keys, to a list."""
    try:
        return limit_keys.check(value)
    except InvalidArgument as error:
        raise rejection_of(error) from None


#: A delay above zero.
Lifetime = Annotated[
    timedelta,
    BeforeValidator(_parse_lifetime),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0, "maximum": MAX_DELAY_DAYS * 86400},
                {"type": "string", "pattern": DURATION_PATTERN},
            ],
            "examples": ["PT1H"],
        }
    ),
]
_LIMIT_KEY: JsonDict = {
    "type": "string",
    "minLength": 1,
    "maxLength": limit_keys.KEY_LIMIT,
    "pattern": "^[^\\u0000-\\u001F\\u007F-\\u009F]*$",
}
#: One limit key, or a list of keys.
LimitKeys = Annotated[
    list[str],
    BeforeValidator(_parse_limit),
    WithJsonSchema(
        {
            "anyOf": [
                _LIMIT_KEY,
                {
                    "type": "array",
                    "items": _LIMIT_KEY,
                    "minItems": 1,
                    "maxItems": limit_keys.MAX_KEYS,
                    "uniqueItems": True,
                },
            ]
        }
    ),
]


class LimitAndExpiry(RequestModel):
    """The limit keys of an action, and when it expires."""

    limit: LimitKeys | None = Field(
        None,
        description="Limit keys of the action: one, or a list of up to three. The limits of each key in `[limits]` of "
        "the settings apply while the action runs.",
        examples=["api:acme", ["api:acme", "reports"]],
    )
    expires_at: Moment | None = Field(
        None,
        description="No attempt starts from then on: an instant after `scheduled_at`, with an offset or in `timezone`; "
        "a day means its last second.",
    )


class LimitAndExpiryOptions(LimitAndExpiry):
    """The limit keys and the expiry of a new action."""

    expires_in: Lifetime | None = Field(
        None, description="Instead of `expires_at`: seconds after the due time, or an ISO 8601 duration."
    )
    on_expiry: Literal["skip", "fail"] | None = Field(
        None,
        description="How an action ends that has not started by `expires_at`: `skip` as skipped, `fail` as failed. "
        "Default: `skip`.",
    )
