"""The people that notices reach, and who stands in for those who are away."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from scheduled_actions.core import checks as arguments
from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.notifications.rules.channels import Channel, parse_channels
from scheduled_actions.notifications.rules.quiet_hours import QuietHours

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

#: Deputies of deputies that are asked before somebody who is away is told all the same.
_DEPUTIES_MOST = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Somebody whom notices reach.

    Raises:
        InvalidArgument: A field is not what it must be; no address that may hold a secret is repeated.
    """

    #: Ways to the person, in the order in which they are tried: each an e-mail address, an https address, an apprise
    #: URL, or a name of `[notifications.channels]`. One may be given as a text.
    channels: tuple[str, ...] | Sequence[str] | str = field(repr=False)
    #: Yours: notices of one id gather in one digest. None: the first channel stands for it.
    id: str | None = None
    #: How the person is addressed.
    name: str | None = None
    #: IANA name: whose wall clock quiet hours and local times follow; None: the setting.
    timezone: str | None = None
    #: `20:00-08:00` on that clock; None: the setting; an empty text: never quiet.
    quiet_hours: str | None = None
    #: Away from this instant on (aware); None with `away_until`: already.
    away_from: datetime | None = None
    #: Back at this instant (aware); None with `away_from`: not for now.
    away_until: datetime | None = None
    #: Who is told instead while the person is away: a person, an address, or `resolver:name`.
    deputy: Person | str | None = None

    def __post_init__(self) -> None:
        given = [self.channels] if isinstance(self.channels, str) else self.channels
        listed = tuple(given) if isinstance(given, list | tuple) else ()
        parse_channels(listed, name="channels")
        object.__setattr__(self, "channels", listed)
        for name in ("id", "name"):
            arguments.check_text(name, getattr(self, name), longest=255)
        if self.timezone is not None:
            arguments.check_timezone(self.timezone)
        if self.quiet_hours:
            QuietHours.parse(self.quiet_hours)
        for name in ("away_from", "away_until"):
            arguments.check_aware(name, getattr(self, name))
        if not isinstance(self.deputy, Person | str | None):
            raise InvalidArgument("deputy", type(self.deputy).__name__, "a person, an address, or resolver:name")

    @property
    def ways(self) -> tuple[Channel, ...]:
        """The channels as what they are."""
        return parse_channels(self.channels, name="channels")

    @property
    def key(self) -> str:
        """What tells the person from others, and shows no address."""
        return self.id or f"#{hashlib.sha256(self.channels[0].encode()).hexdigest()[:24]}"

    def is_away(self, now: datetime) -> bool:
        """Whether the person is away at an instant."""
        if self.away_from is None and self.away_until is None:
            return False
        has_left = self.away_from is None or self.away_from <= now
        return has_left and (self.away_until is None or now < self.away_until)


_FIELDS = frozenset(one.name for one in fields(Person))


def parse_person(given: Any, *, name: str = "recipient") -> Person:  # noqa: ANN401 - it is what is judged
    """Return the person that a resolver or a caller describes: a `Person`, a mapping of its fields, or an address.

    In a mapping instants may be ISO 8601 texts, and `email` may stand for `channels`.

    Raises:
        InvalidArgument: It is no person; `name` says where.
    """
    if isinstance(given, Person):
        return given
    try:
        return Person(channels=given) if isinstance(given, str) else Person(**_of_mapping(given))
    except InvalidArgument as error:
        raise InvalidArgument(f"{name}.{error.name}", error.value, error.expected) from None


def _of_mapping(mapping: Any) -> dict[str, Any]:  # noqa: ANN401 - it is what is judged
    """Return the arguments of a person."""
    if not isinstance(mapping, Mapping):
        raise InvalidArgument("channels", type(mapping).__name__, "an address, or an object that has channels")
    given = dict(mapping)
    if "email" in given and "channels" not in given:
        given["channels"] = given.pop("email")
    for unknown in given.keys() - _FIELDS:
        near = difflib.get_close_matches(str(unknown), _FIELDS, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise InvalidArgument("field", str(unknown), f"a field of a person ({', '.join(sorted(_FIELDS))}){hint}")
    if "channels" not in given:
        raise InvalidArgument("channels", None, "there: a person is reached by at least one")
    for instant in ("away_from", "away_until"):
        if isinstance(given.get(instant), str):
            given[instant] = _instant(instant, given[instant])
    if isinstance(given.get("deputy"), Mapping):
        given["deputy"] = parse_person(given["deputy"], name="deputy")
    return given


def _instant(name: str, text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text.strip().upper())
        # One without an offset may be any instant.
        return moment.astimezone(UTC) if moment.tzinfo is not None else moment
    except (ValueError, OverflowError):
        expected = 'an ISO 8601 time with its offset, such as "2026-12-24T18:00:00+01:00"'
        raise InvalidArgument(name, text, expected) from None


def as_json(person: Person) -> dict[str, Any]:
    """Return a person as JSON that `parse_person` takes."""
    values = {name: getattr(person, name) for name in sorted(_FIELDS)}
    if isinstance(person.deputy, Person):
        values["deputy"] = as_json(person.deputy)
    shown = {name: value.isoformat() if isinstance(value, datetime) else value for name, value in values.items()}
    shown["channels"] = list(person.channels)
    return {name: value for name, value in shown.items() if value is not None}


def present(people: Iterable[Person], *, now: datetime, deputies: Callable[[Person], Sequence[Person]]) -> list[Person]:
    """Return who is told: those who are there, and for each who is away the deputy, or else the others of the list.

    Nobody is told twice. When all are away, and no deputy is there, the first of them is told all the same: a notice
    that nobody gets would be worse than one that waits in an inbox.

    Args:
        people: In their order.
        now: Aware.
        deputies: Answers the people that a person's `deputy` means; none where there is no deputy.
    """
    listed = list(people)
    found: dict[str, Person] = {}
    for person in listed:
        for one in _standing_in(person, now, deputies, _DEPUTIES_MOST):
            found.setdefault(one.key, one)
    return list(found.values()) or listed[:1]


def _standing_in(
    person: Person, now: datetime, deputies: Callable[[Person], Sequence[Person]], steps: int
) -> Iterable[Person]:
    if not person.is_away(now):
        return [person]
    if steps == 0:
        return []
    return [one for deputy in deputies(person) for one in _standing_in(deputy, now, deputies, steps - 1)]
