"""What schedules and calendars of deadlines leave out, as JSON Schema says it; what it means is judged elsewhere."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import WithJsonSchema

from scheduled_actions.recurrence.phrases import WEEKDAYS
from scheduled_actions.recurrence.skips.model import DATES_MOST, WINDOWS_MOST
from scheduled_actions.web.api.models import WITHOUT_NUL

_DAY = {"type": "string", "format": "date"}
_NAME = {"type": "string", "minLength": 1, "maxLength": 60, **WITHOUT_NUL}
_HOUR = "([01]?[0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?"
#: A time of day, as people type it.
TIME_OF_DAY: dict[str, Any] = {"type": "string", "pattern": f"^{_HOUR}$", "examples": ["09:00"]}
#: From one time of day to another.
HOURS = f"^{_HOUR}-{_HOUR}$"
_INSTANT = {"type": "string", "format": "date-time"}
_DAYS = [name for day in WEEKDAYS for name in (day[:3].lower(), day.lower())]


def object_of(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    """Return the schema of an object that has these properties and no others."""
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


_CALENDAR: dict[str, Any] = {
    "weekends": {"type": "boolean"},
    "holidays": {
        "description": "`US`, `US-CA` or `NYSE`; or a country, perhaps with a subdivision; or a market.",
        "anyOf": [
            {"type": "string", "pattern": "^[A-Za-z0-9]{2,4}(-[A-Za-z0-9]{1,10})?$", "examples": ["US-CA"]},
            object_of({"country": _NAME, "subdivision": _NAME}, "country"),
            object_of({"market": _NAME}, "market"),
        ],
    },
    "dates": {"type": "array", "items": _DAY, "maxItems": DATES_MOST},
    "ranges": {
        "description": "The days of both ends are part of it.",
        "type": "array",
        "items": object_of({"from": _DAY, "to": _DAY}, "from", "to"),
        "maxItems": DATES_MOST,
    },
    "then": {
        "description": "`drop` leaves it out; the others move it to the business day before or after.",
        "enum": ["drop", "preceding", "following"],
    },
}
_SKIP: dict[str, Any] = {
    **_CALENDAR,
    "windows": {
        "description": "From one time of day to another (`22:00`, `24:00`), on some days; or between two instants.",
        "type": "array",
        "items": {
            "anyOf": [
                object_of(
                    {
                        "from": TIME_OF_DAY,
                        "to": {"anyOf": [TIME_OF_DAY, {"const": "24:00"}]},
                        "days": {"type": "array", "items": {"enum": _DAYS}, "minItems": 1},
                    },
                    "from",
                    "to",
                ),
                object_of({"from": _INSTANT, "to": _INSTANT}, "from", "to"),
            ]
        },
        "maxItems": WINDOWS_MOST,
    },
    "function": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"},
}


def _with_nulls(properties: dict[str, Any]) -> dict[str, Any]:
    return object_of({name: _or_null(schema) for name, schema in properties.items()})


#: What is left out of a recurrence.
Skip = Annotated[dict[str, Any], WithJsonSchema(_with_nulls(_SKIP))]
#: What is no working time of a deadline.
WorkingCalendar = Annotated[
    dict[str, Any],
    WithJsonSchema(
        _with_nulls({**_CALENDAR, "hours": object_of({"from": TIME_OF_DAY, "to": TIME_OF_DAY}, "from", "to")})
    ),
]
