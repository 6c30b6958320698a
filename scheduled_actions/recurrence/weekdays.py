"""Convert rules such as `every weekday at 09:00` and `last friday of the month` to RRULEs."""

import re

from scheduled_actions.core.messages import did_you_mean
from scheduled_actions.recurrence.phrases import WEEKDAYS, Malformed, ordinal, quoted, read_position, read_time, refuse

#: The values of BYDAY for the words that name days, in the singular.
_DAYS = {
    "weekday": "MO,TU,WE,TH,FR",
    "weekend": "SA,SU",
    "thur": "TH",
    **{day.lower(): day[:2].upper() for day in WEEKDAYS},
    **{day[:3].lower(): day[:2].upper() for day in WEEKDAYS},
}
_CODES = [day[:2].upper() for day in WEEKDAYS]
#: For each period, FREQ and the maximum number of one weekday in it.
_PERIODS = {"month": ("MONTHLY", 5), "year": ("YEARLY", 53)}
#: A text that names days, and is neither a cron expression nor an RRULE.
_RULE = re.compile(rf"(?![0-9*?/,@#lwh-]+ |.*=).*\b(?:{'|'.join(_DAYS)})s?\b")
_NTH = re.compile(
    r"(?:(?:on|every) )?(?:the )?(?P<which>[a-z0-9-]+(?: (?:to )?last)?) (?P<day>[a-z]+)"
    r" (?:of|in) (?:(?:the|each|every|a) )?(?P<period>[a-z]+)"
)
_WEEKLY = re.compile(r"(?:(?:weekly|every week) )?(?:on )?(?:(?:every|each) )?(?P<days>.+)")
_SOME_WEEKS = re.compile(r"(?:other|second|2|2nd) (?P<day>[a-z]+)")
_RANGE = re.compile(r"(?P<first>[a-z]+)(?: to | ?- ?)(?P<last>[a-z]+)")
_FORMS = 'write "every weekday", "every monday and friday at 09:00" or "first monday of the month"'


def is_weekday_rule(words: str) -> bool:
    """Whether a rule names days of the week in words; `words` is in lower case, with single spaces."""
    return _RULE.match(words) is not None


def weekday_rrule(words: str) -> str:
    """Return the RRULE of a rule for days of the week; without `at`, its time of day is that of the start.

    Args:
        words: Such as `every monday and friday at 09:00`, `weekdays` or `2nd last friday of the month`; in lower case,
            with single spaces.

    Raises:
        Malformed: The text is not such a rule.
    """
    days, at, time_words = words.partition(" at ")
    nth = _NTH.fullmatch(days)
    rule = _nth_day(nth["which"], nth["day"], nth["period"]) if nth else _weekly(days)
    if not at:
        return rule
    time = read_time(time_words)
    return f"{rule};BYHOUR={time.hour};BYMINUTE={time.minute};BYSECOND={time.second}"


def _nth_day(which: str, day: str, period: str) -> str:
    if period not in _PERIODS:
        raise Malformed(f'"{period}" is not a period; {did_you_mean(period, _PERIODS, otherwise="use month or year")}')
    code, position = _code(day), read_position(which)
    frequency, most = _PERIODS[period]
    refuse(
        (
            "," in code,
            f'"{day}" is several days: write "{which} business day of the {period}", or name one, such as monday',
        ),
        (
            not 1 <= abs(position) <= most,
            f"a {period} has no {ordinal(abs(position))} {day}; use 1st to {ordinal(most)}",
        ),
    )
    return f"FREQ={frequency};BYDAY={position}{code}"


def _weekly(words: str) -> str:
    match = _WEEKLY.fullmatch(words)
    days = match["days"] if match else words
    if some := _SOME_WEEKS.fullmatch(days):
        day = some["day"].removesuffix("s").capitalize()
        raise Malformed(f'does not define the first week: write "every 2 weeks", with a start on a {day}')
    codes = [code for item in re.split(r",? and |, ?", days) for code in _codes(item)]
    return f"FREQ=WEEKLY;BYDAY={','.join(codes)}"


def _codes(item: str) -> list[str]:
    """Return the days of one item of a list: a day, `weekday`, or a range such as `monday to thursday`."""
    span = _RANGE.fullmatch(item)
    if span is None:
        return [_code(item)]
    codes = [_code(day) for day in span.groups()]
    refuse(
        (
            "," in "".join(codes),
            f'"{item}" is not a range: write it from one day to another, such as monday to thursday',
        )
    )
    first, last = map(_CODES.index, codes)
    return _CODES[first : last + 1] if first <= last else _CODES[first:] + _CODES[: last + 1]


def _code(day: str) -> str:
    singular = day.removesuffix("s")
    if singular not in _DAYS:
        hint = _FORMS if " " in day else did_you_mean(singular, _DAYS, otherwise=_FORMS)
        raise Malformed(f"{quoted(day)} is not a day of the week; {hint}")
    return _DAYS[singular]
