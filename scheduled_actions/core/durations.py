"""Parse durations in ISO 8601 (`PT5M`) or in short form (`5m`, `1h30m`)."""

import re
from datetime import timedelta

from scheduled_actions.core.errors import InvalidArgument

#: The number of digits is limited, so that parsing stays fast.
_NUMBER = r"[0-9]{1,12}(?:[.,][0-9]{1,9})?"
_ISO = re.compile(
    rf"P(?:(?P<years>{_NUMBER})Y)?(?:(?P<months>{_NUMBER})M)?(?:(?P<weeks>{_NUMBER})W)?(?:(?P<days>{_NUMBER})D)?"
    rf"(?:T(?=[0-9])(?:(?P<hours>{_NUMBER})H)?(?:(?P<minutes>{_NUMBER})M)?(?:(?P<seconds>{_NUMBER})S)?)?"
)
_SHORT = re.compile(
    rf"(?:(?P<weeks>{_NUMBER})w)?(?:(?P<days>{_NUMBER})d)?"
    rf"(?:(?P<hours>{_NUMBER})h)?(?:(?P<minutes>{_NUMBER})m)?(?:(?P<seconds>{_NUMBER})s)?"
)
_EXPECTED = "a duration such as PT5M, P1D or PT1H30M (ISO 8601), or 90s, 5m, 2h or 3d"
_CALENDAR = "a fixed duration: use days or weeks (P30D, P4W) instead of years and months; minutes follow a T (PT5M)"


def parse_duration(text: str, *, name: str = "duration") -> timedelta:
    """Parse a duration of zero or more.

    Args:
        text: ISO 8601 with weeks, days, hours, minutes and seconds, or the short form `1h30m`. The last part may have
            a fraction.
        name: Name of the argument in errors.

    Raises:
        InvalidArgument: The text is malformed, has years or months (whose length varies), or exceeds 999,999,999 days.

    Source: ISO 8601-1:2019 §5.5.2; weeks combined with other parts as in ISO 8601-2.
    """
    match = _ISO.fullmatch(text) or _SHORT.fullmatch(text)
    parts = {unit: given.replace(",", ".") for unit, given in match.groupdict().items() if given} if match else {}
    if not parts or any("." in given for given in list(parts.values())[:-1]):
        raise InvalidArgument(name, text, _EXPECTED)
    if "years" in parts or "months" in parts:
        raise InvalidArgument(name, text, _CALENDAR)
    try:
        return timedelta(**{unit: float(given) for unit, given in parts.items()})
    except OverflowError:
        raise InvalidArgument(name, text, "a duration of at most 999,999,999 days") from None
