"""Resolve recipients to people, and replace people who are away with their deputies."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scheduled_actions.core.config import NotificationSettings as Settings
from scheduled_actions.core.errors import FunctionBroken, InvalidArgument, ScheduledActionsError, UrlInvalid
from scheduled_actions.core.messages import nearest
from scheduled_actions.core.requester import AddressReach
from scheduled_actions.notifications.channels import mail
from scheduled_actions.notifications.rules.people import Channel, Person, as_json, available, parse_person
from scheduled_actions.outbound import delivery
from scheduled_actions.recurrence.phrases import quoted
from scheduled_actions.registry import Registry

#: Maximum number of people per call.
PEOPLE_MOST = 1000
#: Maximum length of a chain of resolvers, in which one returns references to another.
_RESOLVED_MOST = 4
#: A role, `resolver:name`; web addresses do not match.
REFERENCE = re.compile(r"([A-Za-z0-9][A-Za-z0-9._\-]{0,99}):(?!//)(.{1,500})")
APPRISE_PROBLEM = (
    "must not be stored with an action, where users can read it: declare a named channel in "
    "[notifications.channels], or let a resolver return the URL"
)


@dataclass(frozen=True, slots=True)
class Recipients:
    """Resolves and checks the recipients of one project."""

    #: Contains the named channels.
    settings: Settings
    #: Holds the resolvers.
    registry: Registry

    def resolve(
        self,
        recipients: Any,  # noqa: ANN401 - validated here
        *,
        team_id: str | None,
        now: datetime,
        reach: AddressReach | None = None,
    ) -> list[tuple[Person, str | dict[str, Any]]]:
        """Return the people to notify, without duplicates; deputies replace people who are away.

        If all people of a recipient and their deputies are away, the first of the people is returned.

        Args:
            recipients: One or a list, each an address, `resolver:name`, a `Person`, or a mapping of its fields.
            team_id: The team of the notification; passed to resolvers.
            now: The instant at which absences are evaluated; aware.
            reach: Which addresses the caller may use; None: any, for application code.

        Returns:
            Each person, and the recipient to store, which is never the result of a resolver: an address,
            `resolver:name`, or a person as JSON.

        Raises:
            InvalidArgument: A recipient is invalid, resolves to no person, or has an address that the caller may not
                use; or there are no recipients, or too many.
            HandlerBroken: A resolver cannot be imported, or raised an exception.
        """
        found: dict[str, tuple[Person, str | dict[str, Any]]] = {}
        for name, given, people in self._listed(recipients, team_id=team_id):
            if not isinstance(given, str) or not REFERENCE.fullmatch(given):
                self._check_given(people[0], name, team_id=team_id, reach=reach)
            to = given if isinstance(given, str) else as_json(people[0])
            for person in self._present(people, team_id=team_id, now=now, name=name):
                found.setdefault(person.key, (person, to))
        if len(found) > PEOPLE_MOST:
            raise InvalidArgument(
                "recipients", len(found), problem=f"resolves to {len(found):,} people; the maximum is {PEOPLE_MOST:,}"
            )
        return list(found.values())

    def _listed(self, recipients: Any, *, team_id: str | None) -> Iterator[tuple[str, Any, list[Person]]]:  # noqa: ANN401 - validated here
        """Yield, for each recipient, its name in errors, its value, and its people, whether present or away."""
        listed = list(recipients) if isinstance(recipients, list | tuple | set | frozenset) else [recipients]
        if not 1 <= len(listed) <= PEOPLE_MOST:
            raise InvalidArgument(
                "recipients", len(listed), problem=f"has {len(listed):,} entries; 1 to {PEOPLE_MOST:,} are allowed"
            )
        for position, one in enumerate(listed):
            name = "recipients" if len(listed) == 1 else f"recipients[{position}]"
            yield name, one, self._people(one, team_id=team_id, name=name)

    def away(self, recipients: Any, *, team_id: str | None, now: datetime) -> list[Person]:  # noqa: ANN401 - validated here
        """Return the people among the recipients who are away, without duplicates; deputies are not included."""
        people = (person for _, _, some in self._listed(recipients, team_id=team_id) for person in some)
        return list({person.key: person for person in people if person.is_away(now)}.values())

    def check(
        self, recipients: Iterable[Any], *, name: str, team_id: str | None, reach: AddressReach | None = None
    ) -> None:
        """Check recipients without calling resolvers, which run when a notification is planned and sent.

        Args:
            recipients: A list, as `resolve` takes it.
            name: The name of the list in errors.
            team_id: The team of the notifications; None: no team.
            reach: Which addresses the caller may use; None: any, for application code.

        Raises:
            InvalidArgument: A recipient is invalid or has an address that the caller may not use, or its resolver is
                not registered.
        """
        for position, one in enumerate(recipients):
            self._check_one(one, f"{name}[{position}]", team_id=team_id, reach=reach)

    def _check_one(self, given: Any, name: str, *, team_id: str | None, reach: AddressReach | None) -> None:  # noqa: ANN401 - validated here
        if not isinstance(given, str) or not REFERENCE.fullmatch(given):
            self._check_given(parse_person(given, name=name), name, team_id=team_id, reach=reach)
        elif given.partition(":")[0] not in self.registry.resolvers:
            self._people(given, team_id=team_id, name=name)

    def person_of(self, to: str | dict[str, Any], key: str | None, *, team_id: str | None, now: datetime) -> Person:
        """Return the person who receives a notification now; deputies replace people who are away.

        Args:
            to: An address, `resolver:name`, or a person as an object.
            key: The `Person.key` of the person to return if `to` resolves to several people. If it is None, or if no
                person has it, the first person is returned.
            team_id: The team of the notification; passed to resolvers.
            now: The instant at which absences are evaluated; aware.

        Raises:
            InvalidArgument: The recipient no longer resolves to a person.
            HandlerBroken: A resolver cannot be imported, or raised an exception.
        """
        there = self._present(self._people(to, team_id=team_id, name="to"), team_id=team_id, now=now, name="to")
        return next((one for one in there if one.key == key), there[0])

    def _people(self, given: Any, *, team_id: str | None, name: str, steps: int = _RESOLVED_MOST) -> list[Person]:  # noqa: ANN401 - validated here
        match = REFERENCE.fullmatch(given) if isinstance(given, str) else None
        if match is None:
            return [parse_person(given, name=name)]
        resolver = self.registry.resolvers.get(match[1])
        if resolver is None or steps == 0:
            near = nearest(match[1], self.registry.resolvers)
            known = ", ".join(sorted(self.registry.resolvers)) or "none"
            hint = f'did you mean "{near}:{match[2]}"? Otherwise, ' if near else ""
            raise InvalidArgument(
                name,
                given,
                problem=f"has no resolver for {quoted(str(given))}: {hint}register one with "
                f'@resolve_recipients("{match[1]}"); registered: {known}'
                if resolver is None
                else f"needs more than {_RESOLVED_MOST} resolvers in a chain, the last for {quoted(str(given))}: let "
                f'the resolver "{match[1]}" return people or addresses',
            )
        people = [
            person
            for one in self._answered(resolver, match[1], match[2], team_id)
            for person in self._people(one, team_id=team_id, name=name, steps=steps - 1)
        ]
        if not people:
            raise InvalidArgument(name, given, f'a known recipient: the resolver "{match[1]}" returned no people')
        return people

    @staticmethod
    def _answered(resolver: Callable[..., Any], kind: str, name: str, team_id: str | None) -> list[Any]:
        try:
            answered = resolver(name, team_id)
            return [answered] if isinstance(answered, str | Person | dict) else list(answered or ())
        except ScheduledActionsError:
            raise
        except Exception as error:
            # The message of a project's exception may contain secrets.
            raise FunctionBroken(
                f"recipients:{kind}", "@resolve_recipients", f"the resolver raised {type(error).__name__}"
            ) from error

    def _present(self, people: list[Person], *, team_id: str | None, now: datetime, name: str) -> list[Person]:
        def deputies(person: Person) -> list[Person]:
            if person.deputy is None:
                return []
            return self._people(person.deputy, team_id=team_id, name=f"{name}.deputy")

        return available(people, now=now, deputies=deputies)

    def _check_given(self, person: Person, name: str, *, team_id: str | None, reach: AddressReach | None) -> None:
        """Check that the addresses of a person can be used, and that storing them would not store a secret.

        Raises:
            InvalidArgument: An address, or the deputy, does not pass the check.
        """
        for channel in person.ways:
            self._check_channel(channel, name, is_public=team_id is not None or reach is not None, reach=reach)
        if person.deputy is not None:
            self._check_one(person.deputy, f"{name}.deputy", team_id=team_id, reach=reach)

    def _check_channel(self, channel: Channel, name: str, *, is_public: bool, reach: AddressReach | None) -> None:
        problem = None
        match channel.kind:
            case "email":
                try:
                    mail.parse_address(channel.address)
                except ValueError as error:
                    problem = str(error)
            case "webhook":
                try:
                    (delivery.check_tenant_url if is_public else delivery.check_url)(channel.address)
                except UrlInvalid as error:
                    problem = error.problem
            case "named":
                known: Collection[str] = self.settings.channels.keys()
                if reach == "team":
                    known = self.settings.channels.keys() & set(self.settings.channels_open_to_teams)
                if channel.address not in known:
                    near = nearest(channel.address, known)
                    hint = f'; did you mean "{near}"?' if near else ""
                    which = " that is open to teams" if reach == "team" else ""
                    problem = f"is neither an address nor a channel of [notifications.channels]{which}{hint}"
            case "apprise":
                problem = APPRISE_PROBLEM
        if problem is not None:
            raise InvalidArgument(name, channel.masked, problem=f'is "{channel.masked}", which {problem}')
