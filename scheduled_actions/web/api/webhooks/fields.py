"""Settings of a webhook endpoint as the management API takes them: each checked where it enters, and described."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from scheduled_actions.core.errors import InvalidArgument, UrlInvalid
from scheduled_actions.outbound.delivery import URL_LIMIT
from scheduled_actions.web.api.models import refused
from scheduled_actions.webhooks.endpoints.checks import (
    DESCRIPTION_LIMIT,
    RATE_LEAST,
    RATE_MOST,
    check_secret,
    check_settings,
)
from scheduled_actions.webhooks.rules import filters, headers, routing

if TYPE_CHECKING:
    from collections.abc import Callable

_NO_NUL = "^[^\\u0000]*$"


def _setting(name: str) -> BeforeValidator:
    """Return the check of one setting of an endpoint; what it refuses is refused here, of the same field."""
    return BeforeValidator(_asked(name, lambda value: check_settings({name: value})[name]))


def _asked(name: str, check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def asked(value: Any) -> Any:  # noqa: ANN401 - it is what is judged
        try:
            return check(value)
        except InvalidArgument as error:
            # Some refusals name a place inside the field, some what they judge.
            where = error.name if error.name.startswith(name) else name
            raise refused(InvalidArgument(where, error.value, error.expected)) from None
        except UrlInvalid as error:
            message = f"{error.problem}; it must be {error.expected}"
            raise PydanticCustomError("refused", "{message}", {"message": message}) from None

    return asked


def _secret(value: Any) -> Any:  # noqa: ANN401 - it is what is judged
    if not isinstance(value, str):
        raise InvalidArgument("secret", "what is given", "a text")
    return check_secret(value)


_SCALAR: dict[str, Any] = {"anyOf": [{"type": ["null", "boolean", "number"]}, {"type": "string", "pattern": _NO_NUL}]}
_SCALARS = {"type": "array", "items": _SCALAR, "maxItems": filters.VALUES_LIMIT}
_TEXT = {"type": "string", "pattern": _NO_NUL}
_CONDITION: dict[str, Any] = {
    "anyOf": [
        _SCALAR,
        _SCALARS,
        {
            "type": "object",
            "properties": {
                **dict.fromkeys(("$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$contains"), _SCALAR),
                **dict.fromkeys(("$in", "$nin"), _SCALARS),
                **dict.fromkeys(("$starts_with", "$ends_with"), _TEXT),
                "$exists": {"type": "boolean"},
            },
            "additionalProperties": False,
        },
    ]
}
_PATHS: dict[str, Any] = {
    "type": "object",
    "maxProperties": filters.NAMES_LIMIT,
    "propertyNames": {"pattern": "^[^$\\u0000][^\\u0000]*$"},
    "additionalProperties": _CONDITION,
}
_INNER = {"type": "array", "items": _PATHS, "minItems": 1, "maxItems": filters.LIST_LIMIT}
_FILTER: dict[str, Any] = {
    "description": f"Paths into the body that is delivered, and what must stand there; at most "
    f"{filters.LENGTH_LIMIT:,} characters. `$and`, `$or` and `$not` may stand inside one another.",
    "type": ["object", "null"],
    "maxProperties": filters.NAMES_LIMIT,
    "properties": {"$and": _INNER, "$or": _INNER, "$not": _PATHS},
    "propertyNames": {"pattern": "^([^$\\u0000][^\\u0000]*|[$](and|or|not))$"},
    "additionalProperties": _CONDITION,
}

Url = Annotated[
    str,
    _setting("url"),
    WithJsonSchema(
        {
            "description": "https, with a host of the public internet.",
            "type": "string",
            "maxLength": URL_LIMIT,
            "pattern": r"^https://([A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?\.){1,4}[A-Za-z]{2,24}(:[1-9][0-9]{0,3})?"
            r"(/[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*)?$",
        }
    ),
]
Description = Annotated[
    str,
    _setting("description"),
    WithJsonSchema({"type": "string", "maxLength": DESCRIPTION_LIMIT, "pattern": _NO_NUL}),
]
Patterns = Annotated[
    list[str],
    _setting("patterns"),
    WithJsonSchema(
        {
            "description": f"{routing.PATTERN_SHAPE.capitalize()}.",
            "type": "array",
            "minItems": 1,
            "maxItems": 100,
            "items": {"type": "string", "maxLength": routing.NAME_LIMIT, "pattern": routing.PATTERN},
        }
    ),
]
Filter = Annotated[dict[str, Any] | None, _setting("filter"), WithJsonSchema(_FILTER)]
Rate = Annotated[
    float | None,
    _setting("rate_limit"),
    WithJsonSchema({"type": ["number", "null"], "minimum": RATE_LEAST, "maximum": RATE_MOST}),
]
Headers = Annotated[
    dict[str, str],
    _setting("headers"),
    WithJsonSchema(
        {
            "description": "Those that frame or sign the message are refused.",
            "type": "object",
            "maxProperties": headers.COUNT_LIMIT,
            "propertyNames": {"pattern": "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$"},
            "additionalProperties": {"type": "string", "pattern": "^[!-~]([ -~\\t]{0,1022}[!-~])?$"},
        }
    ),
]
Secret = Annotated[
    str,
    BeforeValidator(_asked("secret", _secret)),
    WithJsonSchema({"type": "string", "pattern": "^whsec_([A-Za-z0-9+/]{4}){8,21}$"}),
]
Ordering = Literal["none", "fifo"]
