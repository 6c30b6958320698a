"""The text of a recurrence in iCalendar's words: a bare rule, or lines of DTSTART, RRULE, RDATE and EXDATE."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple
from zoneinfo import ZoneInfo

from scheduled_actions.recurrence.phrases import nearest
from scheduled_actions.recurrence.rrule.dates import Malformed, Stamp, read_stamp, shown
from scheduled_actions.recurrence.rrule.parts import Parts, read_parts

#: More characters than any rule needs.
LENGTH_MOST = 2_000

_PROPERTIES = ("DTSTART", "RRULE", "RDATE", "EXDATE")
_REFUSED = {
    "EXRULE": "EXRULE is no longer part of iCalendar (RFC 5545): name the dates in EXDATE, or narrow the RRULE",
    "DTEND": "DTEND says how long an event lasts, and an action is started at an instant: leave it out",
    "DURATION": "DURATION says how long an event lasts, and an action is started at an instant: leave it out",
}
#: A folded line goes on after a line break and white space; an indented line of its own begins with its name.
_FOLD = re.compile(rf"\n[ \t]+(?!(?:{'|'.join([*_PROPERTIES, *_REFUSED])})[;:])", re.IGNORECASE)
_BARE = re.compile(r"[A-Za-z]+=")
_LINE = re.compile(r'(?P<name>[A-Za-z-]+)(?P<parameters>(?:;[A-Za-z-]+=(?:"[^"]*"|[^";:]*))*):(?P<value>.*)')
_PARAMETER = re.compile(r';([A-Za-z-]+)=(?:"([^"]*)"|([^";:]*))')


class _Line(NamedTuple):
    """A content line."""

    name: str
    parameters: dict[str, str]
    value: str


@dataclass(frozen=True, slots=True)
class Written:
    """What a text says."""

    parts: Parts
    #: DTSTART.
    start: Stamp | None
    #: RDATE: further instants.
    dates: tuple[Stamp, ...]
    #: EXDATE: instants left out; a date leaves out its whole day.
    exceptions: tuple[Stamp, ...]

    @property
    def text(self) -> str:
        """All of it in one spelling, a line for each."""
        lines = [] if self.start is None else [_line("DTSTART", self.start)]
        lines.append(f"RRULE:{self.parts.text}")
        lines += [_line("RDATE", stamp) for stamp in self.dates]
        lines += [_line("EXDATE", stamp) for stamp in self.exceptions]
        return "\n".join(lines)


def read_text(text: str) -> Written:
    """Return what a recurrence says, every line of it checked.

    Args:
        text: `FREQ=…` or `RRULE:FREQ=…`, or several lines, which blanks may part instead of line breaks. Folded lines
            are unfolded.

    Raises:
        Malformed: Naming the line, what is wrong with it, and what would be right.

    Source: RFC 5545 §3.1, §3.8.2.4, §3.8.5.
    """
    lines = _lines(text)
    parts = read_parts(_rule(lines))
    starts, dates, exceptions = (_stamps(lines, name) for name in ("DTSTART", "RDATE", "EXDATE"))
    if len(starts) > 1:
        raise Malformed("DTSTART names more than one start")
    return Written(parts, starts[0] if starts else None, dates, exceptions)


def _rule(lines: list[_Line]) -> str:
    rules = [line.value for line in lines if line.name == "RRULE"]
    if not rules:
        raise Malformed("has no RRULE: write one, such as RRULE:FREQ=DAILY")
    stray = next((rule for rule in rules[1:] if "FREQ=" not in rule.upper()), None)
    if stray is not None:
        raise Malformed(f"has a blank before {shown(stray)}: a rule has none within")
    if len(rules) > 1:
        raise Malformed("has more than one RRULE, which RFC 5545 leaves undefined: make each a schedule of its own")
    return rules[0]


def _lines(text: str) -> list[_Line]:
    if len(text) > LENGTH_MOST:
        raise Malformed(f"is {len(text):,} characters long; at most {LENGTH_MOST:,} are taken")
    if not text.isascii():
        strange = next(character for character in text if not character.isascii())
        raise Malformed(f"{shown(strange)} is no character of a rule")
    if "\\n" in text:
        raise Malformed(r"has the two characters \n where a line break belongs: put a line break or a blank there")
    unfolded = _FOLD.sub("", text.strip().replace("\r\n", "\n"))
    if not unfolded:
        raise Malformed("is empty: write a rule, such as FREQ=DAILY")
    return [_read_line(word) for word in unfolded.split()]


def _read_line(word: str) -> _Line:
    if _BARE.match(word):
        return _Line("RRULE", {}, word)
    match = _LINE.fullmatch(word)
    name = match["name"].upper() if match else word
    if name in _REFUSED:
        raise Malformed(_REFUSED[name])
    if match is None or name not in _PROPERTIES:
        raise Malformed(_no_line(name))
    parameters = {key.upper(): quoted or plain for key, quoted, plain in _PARAMETER.findall(match["parameters"])}
    known = {"VALUE", "TZID"} if name != "RRULE" else set()
    strange = next((key for key in parameters if key not in known and not key.startswith("X-")), None)
    if strange is not None:
        raise Malformed(f"{name}: the parameter {shown(strange)} is not known here")
    return _Line(name, parameters, match["value"])


def _no_line(word: str) -> str:
    near = nearest(word, _PROPERTIES)
    hint = f"did you mean {near}?" if near else "a rule has no blanks within, and begins with FREQ= or RRULE:"
    return f"{shown(word)} is not a line of {', '.join(_PROPERTIES)}; {hint}"


def _stamps(lines: list[_Line], name: str) -> tuple[Stamp, ...]:
    return tuple(stamp for line in lines if line.name == name for stamp in _stamps_of(line))


def _stamps_of(line: _Line) -> list[Stamp]:
    kind = line.parameters.get("VALUE", "").upper()
    if kind == "PERIOD":
        raise Malformed(
            f"{line.name}: VALUE=PERIOD has an end, and an action is started at an instant: name the starts"
        )
    if kind not in {"", "DATE", "DATE-TIME"}:
        raise Malformed(f"{line.name}: VALUE={kind} is neither DATE nor DATE-TIME")
    zone = _zone(line.name, line.parameters["TZID"]) if "TZID" in line.parameters else None
    stamps = [read_stamp(line.name, value, zone=zone) for value in line.value.upper().split(",")]
    if kind and any(stamp.is_date != (kind == "DATE") for stamp in stamps):
        raise Malformed(
            f"{line.name}: VALUE={kind}, but {line.value[:30]} is {'a time' if kind == 'DATE' else 'a date'}"
        )
    return stamps


def _zone(name: str, key: str) -> ZoneInfo:
    try:
        return ZoneInfo(key)
    except Exception:  # noqa: BLE001 - zoneinfo raises KeyError, ValueError, OSError and more for bad names
        raise Malformed(f"{name}: TZID={key[:40]} is no IANA time zone, such as Europe/Berlin") from None


def _line(name: str, stamp: Stamp) -> str:
    zone = f";TZID={stamp.zone.key}" if stamp.zone is not None and not stamp.is_utc else ""
    return f"{name}{';VALUE=DATE' if stamp.is_date else ''}{zone}:{stamp.value}"
