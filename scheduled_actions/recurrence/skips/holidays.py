"""Public holidays and those of stock exchanges, from the library `holidays` (an extra), loaded when asked for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from scheduled_actions.core.errors import InvalidArgument, RecurrenceInvalid
from scheduled_actions.recurrence.phrases import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import date
    from types import ModuleType

    from holidays import HolidayBase

_EXPECTED = '"US", "US-CA", "NYSE", {"country": "US", "subdivision": "CA"} or {"market": "NYSE"}'
_SHORTHAND = re.compile(r"([A-Za-z0-9]{2,4})(?:-([^-].{0,59}))?")
#: Longer names are none.
_LONGEST_NAME = 60
#: Names listed where none is near.
_LISTED_MOST = 20
#: Nothing is known of later holidays, and each year of a calendar takes a millisecond to work out.
_LAST_YEAR = 2199
#: Names in English wherever the library has them, whatever the machine's locale says.
_LANGUAGE = "en_US"


@dataclass(frozen=True, slots=True)
class HolidayCalendar:
    """Whose holidays count: a country's, a subdivision's as well, or a market's."""

    country: str | None = None
    subdivision: str | None = None
    market: str | None = None

    @property
    def label(self) -> str:
        """What people call it: `US`, `US-CA`, `NYSE`."""
        return self.market or "-".join(filter(None, (self.country, self.subdivision)))

    def name_of(self, day: date) -> str | None:
        """Return what is celebrated on a day; None where nothing is, and after the last year that is looked up."""
        if day.year > _LAST_YEAR:
            return None
        return _holidays_of(self, day.year).get(day)

    def as_json(self) -> dict[str, str]:
        """Return it as `parse_holidays` reads it."""
        parts = (("country", self.country), ("subdivision", self.subdivision), ("market", self.market))
        return {name: value for name, value in parts if value}


def parse_holidays(value: str | Mapping[str, Any], *, path: str) -> HolidayCalendar:
    """Return the calendar that `value` names, known to exist.

    Args:
        value: `US`, `US-CA` or `NYSE`; or an object with `country` and perhaps `subdivision`, or with `market`.
        path: Where it stands, for errors.

    Raises:
        InvalidArgument: It has another shape.
        RecurrenceInvalid: There is no such country, subdivision or market, or the library is not installed.
    """
    asked = _from_text(value, path) if isinstance(value, str) else _from_object(value, path)
    return _known(asked, path)


def label_of(stored: object) -> str:
    """Return what a calendar that was stored is called, as `parse_holidays` reads it; empty where there is none."""
    if isinstance(stored, str):
        return stored
    if not isinstance(stored, dict) or not stored.keys() <= HolidayCalendar.__dataclass_fields__.keys():
        return ""
    return HolidayCalendar(**stored).label if all(isinstance(name, str) for name in stored.values()) else ""


def _from_text(text: str, path: str) -> HolidayCalendar:
    parts = _SHORTHAND.fullmatch(text)
    if parts is None:
        raise InvalidArgument(path, text, _EXPECTED)
    code, subdivision = parts[1].upper(), parts[2]
    # No code is a country's and a market's, and a market has no parts.
    if subdivision is None and code in _markets(path):
        return HolidayCalendar(market=code)
    return HolidayCalendar(code, subdivision)


def _from_object(value: object, path: str) -> HolidayCalendar:
    if not isinstance(value, dict) or not value:
        raise InvalidArgument(path, value, _EXPECTED)
    for key, name in value.items():
        if key not in HolidayCalendar.__dataclass_fields__:
            near = nearest(str(key), HolidayCalendar.__dataclass_fields__)
            raise InvalidArgument(path, key, f'one of its keys; did you mean "{near}"?' if near else _EXPECTED)
        if not isinstance(name, str) or not 1 <= len(name) <= _LONGEST_NAME:
            raise InvalidArgument(f"{path}.{key}", name, "a name, such as US, CA or NYSE")
    if ("market" in value) == ("country" in value) or ("market" in value and "subdivision" in value):
        raise InvalidArgument(path, value, f"a country (and perhaps a subdivision), or a market: {_EXPECTED}")
    country, market = value.get("country"), value.get("market")
    return HolidayCalendar(country and country.upper(), value.get("subdivision"), market and market.upper())


@lru_cache(maxsize=512)
def _known(asked: HolidayCalendar, path: str) -> HolidayCalendar:
    """Return the calendar as the library spells it."""
    if asked.market is not None:
        _check_known(asked.market, _markets(path), path, "no market")
        return asked
    country = asked.country or ""
    _check_known(country, _countries(path), path, "no country")
    if asked.subdivision is None:
        return asked
    entity = _library(path).country_holidays(country)
    by_name = {name.lower(): name for name in (*entity.subdivisions, *entity.subdivisions_aliases)}
    subdivision = by_name.get(asked.subdivision.lower(), asked.subdivision)
    _check_known(subdivision, by_name.values(), path, f"no subdivision of {country}")
    return HolidayCalendar(country, subdivision)


def _check_known(name: str, known: Iterable[str], path: str, what: str) -> None:
    names = list(known)
    if name in names:
        return
    near = nearest(name, names)
    if near:
        hint = f'did you mean "{near}"?'
    elif names:
        hint = f"known are {', '.join(names[:_LISTED_MOST])}{' and others' if len(names) > _LISTED_MOST else ''}"
    else:
        hint = "it has none that differ"
    raise RecurrenceInvalid(name, f"{path}: {what} of that name is known; {hint}", name=path)


def _countries(path: str) -> list[str]:
    return list(_library(path).registry.EntityLoader.get_country_codes())


def _markets(path: str) -> list[str]:
    return list(_library(path).registry.EntityLoader.get_financial_codes())


def _library(path: str) -> ModuleType:
    try:
        import holidays  # noqa: PLC0415 - an extra, and a tenth of a second to load
        import holidays.registry  # noqa: PLC0415 - as above
    except ImportError:
        problem = 'needs the library "holidays": pip install "scheduled-actions[holidays]"'
        raise RecurrenceInvalid(path, problem, name=path) from None
    return holidays


@lru_cache(maxsize=2048)
def _holidays_of(calendar: HolidayCalendar, year: int) -> dict[date, str]:
    library = _library("holidays")
    found: HolidayBase
    if calendar.market is not None:
        found = library.financial_holidays(calendar.market, years=year, expand=False, language=_LANGUAGE)
    else:
        found = library.country_holidays(
            calendar.country, subdiv=calendar.subdivision, years=year, expand=False, language=_LANGUAGE
        )
    return dict(found)
