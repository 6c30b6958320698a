"""Field types of the settings of a webhook endpoint."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, WithJsonSchema

from scheduled_actions.core.errors import InvalidArgument, UrlInvalid
from scheduled_actions.outbound.delivery import URL_LIMIT
from scheduled_actions.web.api.models import rejection, rejection_of
from scheduled_actions.webhooks.endpoints.checks import (
    DESCRIPTION_LIMIT,
    HEADERS_MOST,
    RATE_LEAST,
    RATE_MOST,
    check_secret,
    check_settings,
)
from scheduled_actions.webhooks.rules import filters, routing

_NO_NUL = "^[^\\u0000]*$"


def _setting(name: str, check: Callable[[Any], Any] | None = None) -> BeforeValidator:
    """Return a validator of a setting; None for `check` selects the check of the endpoint service."""

    def validate(value: Any) -> Any:  # noqa: ANN401 - any JSON
        try:
            return check(value) if check else check_settings({name: value})[name]
        except InvalidArgument as error:
            # An error of a part of the setting names the path of the part, and keeps it. Any other name that the check
            # chose is replaced by the name of the setting.
            raise rejection_of(error.renamed(error.name if error.name.startswith(name) else name)) from None
        except UrlInvalid as error:
            raise rejection(f"{error.problem}; it must be {error.expected}") from None

    return BeforeValidator(validate)


def _check_secret(value: Any) -> Any:  # noqa: ANN401 - any JSON
    if not isinstance(value, str):
        raise InvalidArgument("secret", problem="must be a string")
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
    "description": f"Conditions on values of the delivered body, by path; at most {filters.LENGTH_LIMIT:,} characters "
    f"of JSON. `$and`, `$or` and `$not` can be nested, at most {filters.DEPTH_LIMIT} levels including the outermost.",
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
            "description": "https URL with a host on the public internet.",
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
            "description": f"Each item is {routing.PATTERN_SHAPE}.",
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
            "description": "Additional request headers. These are rejected: `cookie`, `sec-*`, headers that every "
            "delivery sets (such as `content-type` and `webhook-*`), and headers that control the connection or its "
            "routing (such as `host`, `proxy-*` and `x-forwarded-*`).",
            "type": "object",
            "maxProperties": HEADERS_MOST,
            "propertyNames": {"pattern": "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$"},
            "additionalProperties": {"type": "string", "pattern": "^[!-~]([ -~\\t]{0,1022}[!-~])?$"},
        }
    ),
]
Secret = Annotated[
    str,
    _setting("secret", _check_secret),
    WithJsonSchema({"type": "string", "pattern": "^whsec_([A-Za-z0-9+/]{4}){8,21}$"}),
]
Ordering = Literal["none", "fifo"]
