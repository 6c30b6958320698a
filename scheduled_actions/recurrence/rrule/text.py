"""Parse a recurrence in iCalendar format: a bare rule, or lines of DTSTART, RRULE, RDATE and EXDATE."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from scheduled_actions.core.messages import did_you_mean
from scheduled_actions.recurrence.phrases import Malformed, quoted, refuse
from scheduled_actions.recurrence.repeating import is_repeating_interval, repeating_rrule
from scheduled_actions.recurrence.rrule.parts import Parts, Stamp, read_parts, read_stamp
from scheduled_actions.recurrence.weekdays import is_weekday_rule, weekday_rrule

_PROPERTIES = ("DTSTART", "RRULE", "RDATE", "EXDATE")
_NO_END = "is not supported, because an action has no duration: remove it"
_REFUSED = {
    "EXRULE": "EXRULE is no longer part of iCalendar (RFC 5545): list the dates in EXDATE, or narrow the RRULE",
    "DTEND": f"DTEND {_NO_END}",
    "DURATION": f"DURATION {_NO_END}",
}
#: A folded line continues after a line break and white space; an indented new line begins with a property name.
_FOLD = re.compile(rf"\n[ \t]+(?!(?:{'|'.join([*_PROPERTIES, *_REFUSED])})[;:])", re.IGNORECASE)
_LINE = re.compile(r'(?P<name>[A-Za-z-]+)(?P<parameters>(?:;[A-Za-z-]+=(?:"[^"]*"|[^";:]*))*):(?P<value>.*)')
_PARAMETER = re.compile(r';([A-Za-z-]+)=(?:"([^"]*)"|([^";:]*))')


class _ContentLine(NamedTuple):
    name: str
    parameters: dict[str, str]
    value: str


@dataclass(frozen=True, slots=True)
class RecurrenceText:
    """A parsed recurrence in iCalendar format."""

    parts: Parts
    #: DTSTART.
    start: Stamp | None
    #: RDATE: additional instants.
    dates: tuple[Stamp, ...]
    #: EXDATE: excluded instants; a date excludes its whole day.
    exceptions: tuple[Stamp, ...]


@lru_cache(maxsize=1024)
def read_text(text: str, zone: ZoneInfo) -> RecurrenceText:
    """Parse and check a recurrence text; results are cached, because many schedules share a text.

    Args:
        text: `FREQ=…` or `RRULE:FREQ=…`, or several lines, separated by line breaks or spaces. Lines may be folded.
            Also a rule for days of the week in words, or a repeating interval of ISO 8601.
        zone: The zone of the schedule, to whose wall clock the start of a repeating interval is converted.

    Raises:
        Malformed: The message names the line, the problem and what to write instead.

    Source: RFC 5545 §3.1, §3.8.2.4, §3.8.5.
    """
    lines = _lines(_as_icalendar(text, zone))
    starts, dates, exceptions = (
        tuple(stamp for line in lines if line.name == name for stamp in _stamps(line))
        for name in ("DTSTART", "RDATE", "EXDATE")
    )
    refuse((len(starts) > 1, "DTSTART has more than one value: give one start"))
    return RecurrenceText(read_parts(_rule(lines)), starts[0] if starts else None, dates, exceptions)


def _as_icalendar(text: str, zone: ZoneInfo) -> str:
    words = " ".join(text.lower().split())
    if is_weekday_rule(words):
        return weekday_rrule(words)
    return repeating_rrule(words.upper(), zone) if is_repeating_interval(words) else text


def _rule(lines: list[_ContentLine]) -> str:
    rules = [line.value for line in lines if line.name == "RRULE"]
    stray = next((rule for rule in rules[1:] if "FREQ=" not in rule.upper()), "")
    refuse(
        (not rules, "has no RRULE: add one, such as RRULE:FREQ=DAILY"),
        (stray, f"has a space before {quoted(stray)}: a rule contains no spaces"),
        (len(rules) > 1, "has more than one RRULE, which RFC 5545 leaves undefined: create one schedule for each"),
    )
    return rules[0]


def _lines(text: str) -> list[_ContentLine]:
    strange = next((character for character in text if not character.isascii()), "")
    refuse(
        (strange, f"{quoted(strange)} is not allowed in a rule: use ASCII characters"),
        ("\\n" in text, r"contains the two characters \n instead of a line break: use a line break or a space"),
        (not text.strip(), "is empty: write a rule, such as FREQ=DAILY"),
    )
    return [_read_line(word) for word in _FOLD.sub("", text.strip().replace("\r\n", "\n")).split()]


def _read_line(word: str) -> _ContentLine:
    if re.match("[A-Za-z]+=", word):
        return _ContentLine("RRULE", {}, word)
    match = _LINE.fullmatch(word)
    name = match["name"].upper() if match else word
    if name in _REFUSED:
        raise Malformed(_REFUSED[name])
    if match is None or name not in _PROPERTIES:
        hint = did_you_mean(name, _PROPERTIES, otherwise='a rule has no spaces, and begins with "FREQ=" or "RRULE:"')
        raise Malformed(f"{quoted(name)} is not one of the properties {', '.join(_PROPERTIES)}; {hint}")
    parameters = {key.upper(): in_quotes or plain for key, in_quotes, plain in _PARAMETER.findall(match["parameters"])}
    known = {"VALUE", "TZID"} if name != "RRULE" else set()
    strange = next((key for key in parameters if key not in known and not key.startswith("X-")), "")
    refuse((strange, f"{name}: unknown parameter {quoted(strange)}: remove it"))
    return _ContentLine(name, parameters, match["value"])


def _stamps(line: _ContentLine) -> list[Stamp]:
    kind = line.parameters.get("VALUE", "").upper()
    refuse(
        (
            kind == "PERIOD",
            f"{line.name}: VALUE=PERIOD has an end, but an action starts at an instant: list the starts",
        ),
        (kind not in {"", "DATE", "DATE-TIME"}, f"{line.name}: VALUE={kind} is not DATE or DATE-TIME"),
    )
    zone = _zone(line.name, line.parameters["TZID"]) if "TZID" in line.parameters else None
    stamps = [read_stamp(line.name, value, zone=zone) for value in line.value.upper().split(",")]
    refuse(
        (
            kind and any(stamp.is_date != (kind == "DATE") for stamp in stamps),
            f"{line.name}: VALUE={kind}, but {line.value[:30]} is {'a time' if kind == 'DATE' else 'a date'}",
        )
    )
    return stamps


def _zone(name: str, key: str) -> ZoneInfo:
    try:
        return ZoneInfo(key)
    except Exception:  # noqa: BLE001 - zoneinfo raises KeyError, ValueError, OSError and more for bad names
        raise Malformed(f"{name}: TZID={key[:40]} is not an IANA time zone, such as Europe/Berlin") from None
