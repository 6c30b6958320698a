"""People who receive notifications: their channels, quiet hours and deputies."""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, time, timedelta
from typing import Any, Literal, TypeAlias
from zoneinfo import ZoneInfo

from scheduled_actions.core import checks as arguments
from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.core.messages import did_you_mean
from scheduled_actions.recurrence.model import resolve
from scheduled_actions.recurrence.phrases import parse_time, time_text, truncate

#: `named`: a channel of [notifications.channels]; an environment variable holds its apprise, https or email address.
ChannelKind: TypeAlias = Literal["email", "webhook", "apprise", "named"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,99}")
_SCHEME = re.compile(r"[a-z][a-z0-9+.\-]{0,40}", re.IGNORECASE)
#: The scheme and the host of a web address, without the login before an @.
_WEB = re.compile(r"(https?)://(?:[^/?#]*@)?([^/?#@]+)", re.IGNORECASE)
_CHANNEL_LONGEST = 2048
_CHANNELS_MOST = 10
_MASK = "…"
_EXPECTED = (
    "an email address, an https:// address, an apprise URL (slack://…), or a channel of [notifications.channels]; "
    "for people by role, write resolver:name"
)
#: Maximum length of a chain of deputies.
_DEPUTIES_MOST = 5


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel through which a person is notified."""

    kind: ChannelKind
    #: May contain secrets.
    address: str

    def __repr__(self) -> str:
        """Return a representation with the masked address."""
        return f"Channel({self.kind}, {self.masked})"

    @property
    def shown(self) -> str:
        """The address as receipts and histories show it: an email address, or the masked address of another channel."""
        return self.address if self.kind == "email" else self.masked

    @property
    def masked(self) -> str:
        """The address as shown in logs, errors and results, without parts that may be secret."""
        match self.kind:
            case "email":
                local, _, domain = self.address.rpartition("@")
                local = local.rpartition("<")[2]
                # A mistyped web address can contain an @, too: its path is cut off.
                return f"{local[:1]}{_MASK}@{re.split('[/?#>]', domain)[0]}"
            case "webhook":
                found = _WEB.match(self.address)
                return f"{found[1].lower()}://{found[2]}/{_MASK}" if found else _MASK
            case "apprise":
                return f"{self.address.partition('://')[0].lower()}://{_MASK}"
            case "named":
                return self.address


def parse_channel(text: object, *, name: str = "channel") -> Channel:
    """Parse the address or the name of a channel.

    Args:
        text: `ann@example.org`, `Ann <ann@example.org>`, `https://…`, an apprise URL, or a channel of
            [notifications.channels].
        name: The name of the argument in errors. An error contains at most the scheme of the value, because the value
            may be a secret.

    Raises:
        InvalidArgument: The value has none of these forms.
    """
    if not isinstance(text, str) or not 0 < len(text) <= _CHANNEL_LONGEST or not text.isprintable():
        raise InvalidArgument(name, problem=f"must be {_EXPECTED}")
    scheme, is_url, rest = text.partition("://")
    if is_url:
        if not _SCHEME.fullmatch(scheme) or not rest:
            raise InvalidArgument(name, problem=f"must be {_EXPECTED}")
        if scheme.lower() not in {"http", "https"}:
            return Channel("apprise", text)
        if not _WEB.match(text):
            raise InvalidArgument(name, f"{scheme}://{_MASK}", "a web address with a host")
        return Channel("webhook", text)
    if "@" not in text and not _NAME.fullmatch(text):
        raise InvalidArgument(name, problem=f"must be {_EXPECTED}")
    return Channel("email" if "@" in text else "named", text)


@dataclass(frozen=True, slots=True)
class QuietHours:
    """A daily period without notifications; it ends on the next day if `end` is before `start`."""

    start: time
    end: time

    @classmethod
    def parse(cls, text: str, *, name: str = "quiet_hours") -> "QuietHours":
        """Parse quiet hours such as `20:00-08:00`.

        Raises:
            InvalidArgument: The string is not two different times of day, joined by a hyphen.
        """
        first, _, second = text.partition("-") if isinstance(text, str) else ("", "", "")
        start, end = parse_time(first.strip()), parse_time(second.strip())
        if start is None or end is None or start == end:
            raise InvalidArgument(name, text, 'a pair of different times of day, such as "20:00-08:00"')
        return cls(start, end)

    def __str__(self) -> str:
        return f"{time_text(self.start)}-{time_text(self.end)}"

    def ends_after(self, moment: datetime, zone: ZoneInfo) -> datetime | None:
        """Return the end of the quiet hours that contain `moment`; None if `moment` is outside them.

        Args:
            moment: Aware.
            zone: The time zone of the wall clock.

        Returns:
            Aware, in UTC. An end in a DST gap moves forward by the gap.
        """
        wall = moment.astimezone(zone).replace(tzinfo=None, fold=0)
        has_begun, has_not_ended = wall.time() >= self.start, wall.time() < self.end
        if not (has_begun and has_not_ended if self.start < self.end else has_begun or has_not_ended):
            return None
        day = wall.date() + timedelta(days=int(self.end < self.start and has_begun))
        end = resolve(datetime.combine(day, self.end), zone).at
        # When clocks are set back, a wall time within the quiet hours can occur again after their end.
        return end if end > moment else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """A person who receives notifications.

    Raises:
        InvalidArgument: A field is invalid; the message never contains an address that may be a secret.
    """

    #: Channels in the order in which they are tried: each an email address, an https address, an apprise URL, or a
    #: channel of `[notifications.channels]`. A single channel can be given as a string.
    channels: tuple[str, ...] | Sequence[str] | str = field(repr=False)
    #: Notifications to people with the same id can be combined into a digest. None: the first channel identifies the
    #: person.
    id: str | None = None
    #: The name used in the salutation of messages; None: no salutation.
    name: str | None = None
    #: The IANA time zone of quiet hours and local times; None: the time zone of the settings.
    timezone: str | None = None
    #: `20:00-08:00` in that time zone; None: the quiet hours of the settings; an empty string: no quiet hours.
    quiet_hours: str | None = None
    #: The start of an absence. None: if `away_until` is set, the absence has already started. Can be given as a
    #: datetime, a date or an ISO 8601 string; without an offset, it is in the person's time zone.
    away_from: datetime | None = None
    #: The end of an absence, in the same forms, but a day means its last second. None: if `away_from` is set, the end
    #: is unknown.
    away_until: datetime | None = None
    #: Who is notified during the absence: a person, an address, or `resolver:name`; None: no deputy.
    deputy: "Person | str | None" = None

    def __post_init__(self) -> None:
        given = [self.channels] if isinstance(self.channels, str) else self.channels
        listed = tuple(given) if isinstance(given, list | tuple) else ()
        object.__setattr__(self, "channels", listed)
        if not 1 <= len(self.ways) <= _CHANNELS_MOST:
            raise InvalidArgument("channels", problem=f"must be a channel, or a list of 1 to {_CHANNELS_MOST} channels")
        for name in ("id", "name"):
            arguments.check_text(name, getattr(self, name), longest=255)
        if self.timezone is not None:
            arguments.check_timezone(self.timezone)
        if self.quiet_hours:
            QuietHours.parse(self.quiet_hours)
        for name in ("away_from", "away_until"):
            check = arguments.check_instant if name == "away_from" else arguments.check_end
            object.__setattr__(self, name, check(name, getattr(self, name), timezone=self.timezone))
        if not isinstance(self.deputy, Person | str | None):
            raise InvalidArgument("deputy", problem="must be a person, an address, or resolver:name")

    @property
    def ways(self) -> tuple[Channel, ...]:
        """The parsed channels."""
        return tuple(
            parse_channel(one, name="channels" if len(self.channels) == 1 else f"channels[{number}]")
            for number, one in enumerate(self.channels)
        )

    @property
    def key(self) -> str:
        """The id of the person; without an id, a hash of the first channel, which does not reveal its address."""
        return self.id or f"#{hashlib.sha256(self.channels[0].encode()).hexdigest()[:24]}"

    def is_away(self, now: datetime) -> bool:
        """Return whether the person is away at `now`, an aware instant."""
        if self.away_from is None:
            return self.away_until is not None and now < self.away_until
        return self.away_from <= now and (self.away_until is None or now < self.away_until)


_FIELDS = frozenset(one.name for one in fields(Person))


def parse_person(given: Any, *, name: str = "recipient") -> Person:  # noqa: ANN401 - validated here
    """Parse a person: a `Person`, a mapping of its fields, or an address.

    In a mapping, instants can be ISO 8601 strings, and `email` is an alias of `channels`.

    Raises:
        InvalidArgument: A field is invalid; the name in the error begins with `name`.
    """
    if isinstance(given, Person):
        return given
    try:
        return Person(channels=given) if isinstance(given, str) else Person(**_arguments(given))
    except InvalidArgument as error:
        raise error.renamed(f"{name}.{error.name}") from None


def _arguments(mapping: Any) -> dict[str, Any]:  # noqa: ANN401 - validated here
    """Return the keyword arguments of `Person` from a mapping."""
    if not isinstance(mapping, Mapping):
        raise InvalidArgument("channels", problem="is missing: a person is an address, or an object with `channels`")
    given = dict(mapping)
    if "email" in given and "channels" not in given:
        given["channels"] = given.pop("email")
    for unknown in given.keys() - _FIELDS:
        hint = did_you_mean(str(unknown), _FIELDS, otherwise=f"use {', '.join(sorted(_FIELDS))}")
        problem = (
            "cannot be combined with channels: add the address to channels"
            if unknown == "email"
            else f"is not a field of a person; {hint}"
        )
        raise InvalidArgument(truncate(str(unknown), 40), problem=problem)
    if "channels" not in given:
        raise InvalidArgument("channels", problem="is missing: a person needs at least one channel")
    for name, value in given.items():
        if name == "deputy" and isinstance(value, Mapping):
            given[name] = parse_person(value, name=name)
    return given


def as_json(person: Person) -> dict[str, Any]:
    """Return a person as the JSON object that `parse_person` parses."""
    values = {name: getattr(person, name) for name in sorted(_FIELDS)} | {"channels": list(person.channels)}
    if isinstance(person.deputy, Person):
        values["deputy"] = as_json(person.deputy)
    given = {name: value for name, value in values.items() if value is not None}
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in given.items()}


def available(
    people: Iterable[Person], *, now: datetime, deputies: Callable[[Person], Sequence[Person]]
) -> list[Person]:
    """Return the people to notify, without duplicates; deputies replace people who are away.

    If everyone is away and no deputy is present, the result is the first person: a notification to an absent person is
    better than none. A chain of deputies is followed for at most five steps.

    Args:
        people: The people in order; the result keeps it.
        now: The instant at which absences are evaluated; aware.
        deputies: Returns the people that a person's `deputy` resolves to; empty without a deputy.
    """
    listed = list(people)
    found: dict[str, Person] = {}
    for person in listed:
        for one in _substitutes(person, now, deputies, _DEPUTIES_MOST):
            found.setdefault(one.key, one)
    return list(found.values()) or listed[:1]


def _substitutes(
    person: Person, now: datetime, deputies: Callable[[Person], Sequence[Person]], steps: int
) -> Iterable[Person]:
    if not person.is_away(now):
        return [person]
    if steps == 0:
        return []
    return [one for deputy in deputies(person) for one in _substitutes(deputy, now, deputies, steps - 1)]
