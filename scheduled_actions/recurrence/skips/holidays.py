"""Look up holidays of countries and stock exchanges in the library `holidays` (an extra), imported on first use."""

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import date
from functools import lru_cache
from types import ModuleType

from scheduled_actions.core.errors import InvalidArgument, RecurrenceInvalid
from scheduled_actions.core.messages import did_you_mean

_EXPECTED = '"US", "US-CA", "NYSE", {"country": "US", "subdivision": "CA"} or {"market": "NYSE"}'
#: Maximum length of a code or name in characters.
_LONGEST_NAME = 60
#: Maximum number of known names in an error without a suggestion.
_LISTED_MOST = 20
#: The last year with holidays: later holidays are unknown, and a search through many years would be slow.
_LAST_YEAR = 2199


@dataclass(frozen=True, slots=True)
class HolidayCalendar:
    """The holiday calendar of a country, of a subdivision of a country, or of a market."""

    country: str | None = None
    subdivision: str | None = None
    market: str | None = None

    @property
    def label(self) -> str:
        """The short name: `US`, `US-CA`, `NYSE`."""
        return self.market or "-".join(filter(None, (self.country, self.subdivision)))

    def name_of(self, day: date) -> str | None:
        """Return the name of the holiday on a day; None if there is none, or the year is after 2199."""
        return None if day.year > _LAST_YEAR else _holidays_of(self, day.year).get(day)

    def as_json(self) -> dict[str, str]:
        """Return the calendar as the JSON object that `parse_holidays` accepts."""
        return {name: value for name, value in asdict(self).items() if value}


def parse_holidays(value: object, path: str) -> HolidayCalendar:
    """Parse a holiday calendar, and check that it exists.

    Args:
        value: `US`, `US-CA` or `NYSE`; or an object with `country` and optionally `subdivision`, or with `market`.
        path: The path of the value, for errors.

    Raises:
        InvalidArgument: The value has another format.
        RecurrenceInvalid: The country, subdivision or market does not exist, or the library is not installed.
    """
    return _existing(_from_text(value, path) if isinstance(value, str) else _from_object(value, path), path)


def label_of(stored: object) -> str:
    """Return the short name of a stored holiday calendar; an empty string if it is not valid."""
    if isinstance(stored, str):
        return stored
    if not isinstance(stored, dict) or not stored.keys() <= HolidayCalendar.__dataclass_fields__.keys():
        return ""
    return HolidayCalendar(**stored).label if all(isinstance(name, str) for name in stored.values()) else ""


def _from_text(text: str, path: str) -> HolidayCalendar:
    parts = re.fullmatch(r"([A-Za-z0-9]{2,4})(?:-([^-].{0,59}))?", text)
    if parts is None:
        raise InvalidArgument(path, text, f"a holiday calendar, such as {_EXPECTED}")
    code, subdivision = parts[1].upper(), parts[2]
    # The codes of countries and markets are distinct, and markets have no subdivisions.
    is_market = subdivision is None and code in _library(text, path).registry.EntityLoader.get_financial_codes()
    return HolidayCalendar(market=code) if is_market else HolidayCalendar(code, subdivision)


def _from_object(value: object, path: str) -> HolidayCalendar:
    if not isinstance(value, dict) or not value:
        raise InvalidArgument(path, value, f"a holiday calendar, such as {_EXPECTED}")
    for key, name in value.items():
        if key not in HolidayCalendar.__dataclass_fields__:
            hint = did_you_mean(
                str(key), HolidayCalendar.__dataclass_fields__, otherwise="use country and subdivision, or market"
            )
            raise InvalidArgument(path, key, f"a key of holidays; {hint}")
        if not isinstance(name, str) or not 1 <= len(name) <= _LONGEST_NAME:
            raise InvalidArgument(f"{path}.{key}", name, "a name, such as US, CA or NYSE")
    if ("market" in value) == ("country" in value) or ("market" in value and "subdivision" in value):
        raise InvalidArgument(path, value, f"a holiday calendar with either a country or a market, such as {_EXPECTED}")
    country, market = value.get("country"), value.get("market")
    return HolidayCalendar(country and country.upper(), value.get("subdivision"), market and market.upper())


@lru_cache(maxsize=512)
def _existing(calendar: HolidayCalendar, path: str) -> HolidayCalendar:
    """Check that a calendar exists; return it with the library's spelling of the subdivision."""
    library = _library(calendar.label, path)
    if calendar.market is not None:
        _check_known(calendar.market, library.registry.EntityLoader.get_financial_codes(), path, "market")
        return calendar
    country = calendar.country or ""
    _check_known(country, library.registry.EntityLoader.get_country_codes(), path, "country")
    if calendar.subdivision is None:
        return calendar
    entity = library.country_holidays(country)
    by_name = {name.lower(): name for name in (*entity.subdivisions, *entity.subdivisions_aliases)}
    subdivision = by_name.get(calendar.subdivision.lower(), calendar.subdivision)
    _check_known(subdivision, by_name.values(), path, f"subdivision of {country}")
    return HolidayCalendar(country, subdivision)


def _check_known(name: str, known: Iterable[str], path: str, what: str) -> None:
    names = list(known)
    if name not in names:
        listed = f"known values: {', '.join(names[:_LISTED_MOST])}{' and others' if len(names) > _LISTED_MOST else ''}"
        hint = did_you_mean(name, names, otherwise=listed if names else "this country has no known subdivisions")
        raise RecurrenceInvalid(name, f"is an unknown {what}; {hint}", name=path)


def _library(name: str, path: str) -> ModuleType:
    try:
        import holidays.registry  # noqa: PLC0415 - an extra, and a tenth of a second to load
    except ImportError:
        raise RecurrenceInvalid(
            name, 'needs the library "holidays": run pip install "scheduled-actions[holidays]"', name=path
        ) from None
    return holidays


@lru_cache(maxsize=2048)
def _holidays_of(calendar: HolidayCalendar, year: int) -> dict[date, str]:
    library = _library(calendar.label, "holidays")
    # Names are in English where the library has them, regardless of the machine's locale.
    options = {"years": year, "expand": False, "language": "en_US"}
    if calendar.market is not None:
        return dict(library.financial_holidays(calendar.market, **options))
    return dict(library.country_holidays(calendar.country, subdiv=calendar.subdivision, **options))
