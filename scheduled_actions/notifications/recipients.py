"""Recipients: whom an address, a reference or a person means, and who stands in for somebody who is away."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scheduled_actions.core.errors import HandlerBroken, InvalidArgument, ScheduledActionsError, UrlInvalid
from scheduled_actions.notifications.channels import mail
from scheduled_actions.notifications.rules.people import Person, as_json, parse_person, present
from scheduled_actions.outbound import delivery
from scheduled_actions.recurrence.phrases import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from datetime import datetime

    from scheduled_actions.core.config import Notifications as Settings
    from scheduled_actions.core.requester import AddressReach
    from scheduled_actions.notifications.rules.channels import Channel
    from scheduled_actions.registry import Registry

#: People that one call may tell.
PEOPLE_MOST = 1000
#: A resolver may answer with what another one knows, and so on.
_RESOLVED_MOST = 4
#: `resolver:name`, which is no address of the web.
REFERENCE = re.compile(r"([A-Za-z0-9][A-Za-z0-9._\-]{0,99}):(?!//)(.{1,500})")
#: What becomes of an apprise URL that a caller gives.
KEPT = (
    "one to be kept with an action, where people can read it: give it a name in [notifications.channels], or let a "
    "resolver answer it"
)


@dataclass(frozen=True, slots=True)
class Addressed:
    """A person whom a notice reaches, and how that was said."""

    person: Person
    #: What the notice keeps: an address, a reference or a person as JSON; never what only a resolver knows.
    to: str | dict[str, Any]


class Recipients:
    """Knows the people of one project.

    Args:
        settings: The names of channels.
        registry: Has the resolvers.
    """

    def __init__(self, settings: Settings, registry: Registry) -> None:
        self._settings = settings
        self._registry = registry

    def resolve(
        self,
        recipients: Any,  # noqa: ANN401 - it is what is judged
        *,
        team_id: str | None,
        now: datetime,
        reach: AddressReach | None = None,
    ) -> list[Addressed]:
        """Return the people that recipients mean, those who are away replaced; nobody twice.

        Args:
            recipients: One or a list: an address, `resolver:name`, a `Person`, or a mapping of its fields.
            team_id: The tenant that asks; resolvers are told.
            now: Aware: who is away then.
            reach: Of the caller who gave them; None: application code.

        Raises:
            InvalidArgument: One resolves to no person, is not a recipient, or is out of reach.
            HandlerBroken: A resolver cannot be imported.
        """
        found: dict[str, Addressed] = {}
        for name, given, people in self._listed(recipients, team_id=team_id):
            is_reference = isinstance(given, str) and REFERENCE.fullmatch(given) is not None
            if not is_reference:
                self._check_given(people[0], name, team_id=team_id, reach=reach)
            to = given if isinstance(given, str) else as_json(people[0])
            for person in self._present(people, team_id=team_id, now=now, name=name):
                found.setdefault(person.key, Addressed(person, to))
        if len(found) > PEOPLE_MOST:
            raise InvalidArgument("recipients", len(found), f"at most {PEOPLE_MOST} people")
        return list(found.values())

    def _listed(self, recipients: Any, *, team_id: str | None) -> Iterator[tuple[str, Any, list[Person]]]:  # noqa: ANN401 - it is what is judged
        """Yield each recipient: what it is called in errors, itself, and the people it means, whether there or away."""
        listed = list(recipients) if isinstance(recipients, list | tuple | set | frozenset) else [recipients]
        if not 1 <= len(listed) <= PEOPLE_MOST:
            raise InvalidArgument("recipients", len(listed), f"1 to {PEOPLE_MOST} recipients")
        for position, one in enumerate(listed):
            name = "recipients" if len(listed) == 1 else f"recipients[{position}]"
            yield name, one, self._people(one, team_id=team_id, name=name)

    def away(self, recipients: Any, *, team_id: str | None, now: datetime) -> list[Person]:  # noqa: ANN401 - it is what is judged
        """Return the people whom recipients mean and who are away, so that somebody else is told instead."""
        people = (person for _, _, some in self._listed(recipients, team_id=team_id) for person in some)
        return list({person.key: person for person in people if person.is_away(now)}.values())

    def check(
        self, recipients: Iterable[Any], *, name: str, team_id: str | None, reach: AddressReach | None = None
    ) -> None:
        """Refuse recipients that nobody could be; those of a resolver are asked for when they are told.

        Args:
            recipients: As `resolve` takes them.
            name: What they are called in errors.
            team_id: The tenant that asks.
            reach: Of the caller who gave them; None: application code.

        Raises:
            InvalidArgument: One is no recipient, is out of reach, or its resolver is not there.
        """
        for position, one in enumerate(recipients):
            self._check_one(one, f"{name}[{position}]", team_id=team_id, reach=reach)

    def _check_one(self, given: Any, name: str, *, team_id: str | None, reach: AddressReach | None) -> None:  # noqa: ANN401 - it is what is judged
        if not isinstance(given, str) or not REFERENCE.fullmatch(given):
            self._check_given(parse_person(given, name=name), name, team_id=team_id, reach=reach)
        elif given.partition(":")[0] not in self._registry.resolvers:
            self._people(given, team_id=team_id, name=name)

    def person_of(self, to: str | dict[str, Any], key: str | None, *, team_id: str | None, now: datetime) -> Person:
        """Return who gets a notice now: the person it was meant for, or whoever stands there instead.

        Args:
            to: An address, `resolver:name`, or a person as an object.
            key: Which of the people that a resolver answers; None: the first.
            team_id: The tenant; resolvers are told.
            now: Aware: who is away then.

        Raises:
            InvalidArgument: Nobody does any more.
        """
        people = self._people(to, team_id=team_id, name="to")
        there = self._present(people, team_id=team_id, now=now, name="to")
        return next((one for one in there if one.key == key), there[0])

    def _people(self, given: Any, *, team_id: str | None, name: str, steps: int = _RESOLVED_MOST) -> list[Person]:  # noqa: ANN401 - it is what is judged
        match = REFERENCE.fullmatch(given) if isinstance(given, str) else None
        if match is None:
            return [parse_person(given, name=name)]
        resolver = self._registry.resolvers.get(match[1])
        if resolver is None or steps == 0:
            near = nearest(match[1], self._registry.resolvers)
            known = ", ".join(sorted(self._registry.resolvers)) or "none is registered"
            hint = f'did you mean "{near}:{match[2]}"? ' if near else ""
            raise InvalidArgument(name, given, f"known to a resolver: {hint}write @resolve_recipients; known: {known}")
        people = [
            person
            for one in self._answered(resolver, match[1], match[2], team_id)
            for person in self._people(one, team_id=team_id, name=name, steps=steps - 1)
        ]
        if not people:
            raise InvalidArgument(name, given, f'somebody: the resolver "{match[1]}" answers no people for it')
        return people

    @staticmethod
    def _answered(resolver: Callable[..., Any], kind: str, name: str, team_id: str | None) -> list[Any]:
        try:
            answered = resolver(name, team_id)
            return [answered] if isinstance(answered, str | Person | dict) else list(answered or ())
        except ScheduledActionsError:
            raise
        except Exception as error:
            # What it raises may be anything, and may tell anything.
            raise HandlerBroken(f"recipients:{kind}", kind, f"the resolver raised {type(error).__name__}") from error

    def _present(self, people: list[Person], *, team_id: str | None, now: datetime, name: str) -> list[Person]:
        def deputies(person: Person) -> list[Person]:
            if person.deputy is None:
                return []
            return self._people(person.deputy, team_id=team_id, name=f"{name}.deputy")

        return present(people, now=now, deputies=deputies)

    def _check_given(self, person: Person, name: str, *, team_id: str | None, reach: AddressReach | None) -> None:
        """Refuse at the caller's desk what could not be reached; and what would leave a secret in the table."""
        for channel in person.ways:
            problem = self._problem_of(channel, is_public=team_id is not None or reach is not None, reach=reach)
            if problem is not None:
                raise InvalidArgument(name, channel.masked, problem)
        if person.deputy is not None:
            self._check_one(person.deputy, f"{name}.deputy", team_id=team_id, reach=reach)

    def _problem_of(self, channel: Channel, *, is_public: bool, reach: AddressReach | None) -> str | None:
        """Return what a channel would have to be; None where it is."""
        match channel.kind:
            case "email":
                try:
                    mail.parse_address(channel.address)
                except ValueError as error:
                    return f"an e-mail address: it {error}"
            case "webhook":
                try:
                    check = delivery.check_tenant_url if is_public else delivery.check_url
                    check(channel.address)
                except UrlInvalid as error:
                    return f"an address to post to: it {error.problem}"
            case "named" if channel.address not in (known := self._named(reach)):
                near = nearest(channel.address, known)
                hint = f'; did you mean "{near}"?' if near else ""
                which = " that is open to teams" if reach == "team" else ""
                return f"an address, or a name of [notifications.channels]{which}{hint}"
            case "apprise":
                return KEPT
            case _:
                pass
        return None

    def _named(self, reach: AddressReach | None) -> Collection[str]:
        """Return the names of the channels that may be used."""
        channels = self._settings.channels
        return channels.keys() & set(self._settings.channels_open_to_teams) if reach == "team" else channels
