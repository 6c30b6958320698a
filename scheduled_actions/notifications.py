"""Notices: whom they reach, when, and as which actions of the type `notification:send`."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, field_validator

from scheduled_actions import arguments, delivery, mail, notice_templates
from scheduled_actions.errors import HandlerBroken, InvalidArgument, ScheduledActionsError, UrlInvalid
from scheduled_actions.notices import severity as severities
from scheduled_actions.notices.message import Message, one_line
from scheduled_actions.notices.people import Person, as_json, parse_person, present
from scheduled_actions.notices.quiet import QuietHours
from scheduled_actions.notices.severity import SEVERITIES, Severity, Steps
from scheduled_actions.recurrence.phrases import nearest
from scheduled_actions.scheduler import borrowed_connection
from scheduled_actions.store import schedules as store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import psycopg

    from scheduled_actions.action import Scheduled
    from scheduled_actions.config import Config
    from scheduled_actions.notices.channels import Channel
    from scheduled_actions.notices.reminder import Reminder
    from scheduled_actions.registry import Registry
    from scheduled_actions.scheduler import Scheduler
    from scheduled_actions.store.connection import Database

ACTION_TYPE = "notification:send"
#: People that one call may tell.
PEOPLE_MOST = 1000
#: Characters of a text.
TEXT_MOST = 100_000
#: A resolver may answer with what another one knows, and so on.
_RESOLVED_MOST = 4
#: What waits for longer than this was not gathered, but left behind.
_GATHERED_SECONDS = 2 * 86400.0
_REFERENCE = re.compile(r"([A-Za-z0-9][A-Za-z0-9._\-]{0,99}):(?!//)(.{1,500})")


#: What becomes of an apprise URL that a caller gives.
_KEPT = (
    "one to be kept with an action, where people can read it: give it a name in [notifications.channels], or let a "
    "resolver answer it"
)


class Notice(BaseModel):
    """The payload of `notification:send`: one notice to one person."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: An address, `resolver:name`, or a person as an object.
    to: str | dict[str, Any]
    #: Which of the people that a resolver answers: `Person.key`; None: the first.
    person: str | None = None
    subject: Annotated[str, Field(min_length=1, max_length=998)]
    text: Annotated[str, Field(max_length=TEXT_MOST)]
    html: Annotated[str, Field(max_length=TEXT_MOST)] | None = None
    severity: Severity | None = None
    #: `{"deadline_id", "stage"}`: it is only sent while that holds.
    guard: dict[str, Any] | None = None

    @field_validator("to")
    @classmethod
    def _is_a_person(cls, value: Any) -> Any:  # noqa: ANN401 - any JSON
        if isinstance(value, str) and _REFERENCE.fullmatch(value):
            return value
        try:
            person: Person | str | None = parse_person(value, name="to")
        except InvalidArgument as error:
            message = f"{error.name} should be {error.expected}"
            raise ValueError(message) from None
        while isinstance(person, Person):
            # Whoever may schedule an action could reach with it whatever this machine reaches.
            if any(channel.kind == "apprise" for channel in person.ways):
                message = f"to should not be {_KEPT}"
                raise ValueError(message)
            person = person.deputy
        if person is not None and not _REFERENCE.fullmatch(person):
            cls._is_a_person(person)
        return value


#: What the handler is given: one notice, or those that were gathered.
Notices: TypeAlias = Annotated[
    Annotated[Notice, Tag("notice")] | Annotated[list[Notice], Tag("notices")],
    Discriminator(lambda given: "notices" if isinstance(given, list) else "notice"),
]


class Told(NamedTuple):
    """Who is told of something."""

    people: list[Person]
    #: Who would have been, but is away.
    passed_over: list[Person]


@dataclass(frozen=True, slots=True)
class Addressed:
    """A person whom a notice reaches, and how that was said."""

    person: Person
    #: What the notice keeps: an address, a reference or a person as JSON; never what only a resolver knows.
    to: str | dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the actions of notices have in common; names as in `schedule_action`."""

    severity: Severity | None = None
    #: `{"deadline_id", "stage"}`: a notice is only sent while that holds.
    guard: Mapping[str, Any] | None = None
    #: Whether notices to one person that come together become one message.
    gather: bool = False
    team_id: str | None = None
    #: More arguments of `schedule_action`, the same for each: `target`, `created_by`, `metadata`, `priority`.
    arguments: Mapping[str, Any] = field(default_factory=dict)


class Notifications:
    """Tells people of one project.

    Args:
        config: The settings, and the project's templates.
        registry: Has the resolvers.
        database: Has the present moment.
        scheduler: Schedules the notices of `notify`.
    """

    def __init__(self, config: Config, registry: Registry, database: Database, scheduler: Scheduler) -> None:
        self.config = config
        self._database = database
        self._settings = config.settings.notifications
        self._registry = registry
        self._scheduler = scheduler

    def severity(self, distance: timedelta) -> Severity:
        """Return how urgent something is that is due in `distance`, as the settings have it."""
        of = self._settings
        days = {"urgent": of.urgent_days, "high": of.high_days, "medium": of.medium_days}
        return severities.severity(distance, Steps(**{name: timedelta(days=one) for name, one in days.items()}))

    def zone(self, person: Person) -> ZoneInfo:
        """Return whose wall clock a person lives by."""
        return ZoneInfo(person.timezone or self._settings.timezone)

    # -- whom ----------------------------------------------------------------------------------------------------------

    def resolve(self, recipients: Any, *, team_id: str | None, now: datetime) -> list[Addressed]:  # noqa: ANN401 - it is what is judged
        """Return the people that recipients mean, those who are away replaced; nobody twice.

        Args:
            recipients: One or a list: an address, `resolver:name`, a `Person`, or a mapping of its fields.
            team_id: The tenant that asks; resolvers are told.
            now: Aware: who is away then.

        Raises:
            InvalidArgument: One means nobody, or is no recipient.
            HandlerBroken: A resolver cannot be imported.
        """
        found: dict[str, Addressed] = {}
        for name, given, people in self._listed(recipients, team_id=team_id):
            is_reference = isinstance(given, str) and _REFERENCE.fullmatch(given) is not None
            if not is_reference:
                self._check_given(people[0], name, is_tenants=team_id is not None)
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

    def check(self, recipients: Iterable[Any], *, name: str, team_id: str | None) -> None:
        """Refuse recipients that nobody could be; those of a resolver are asked for when they are told.

        Raises:
            InvalidArgument: One is no recipient, or its resolver is not there.
        """
        for position, one in enumerate(recipients):
            where = f"{name}[{position}]"
            if not isinstance(one, str) or not _REFERENCE.fullmatch(one):
                self._check_given(parse_person(one, name=where), where, is_tenants=team_id is not None)
            elif one.partition(":")[0] not in self._registry.resolvers:
                self._people(one, team_id=team_id, name=where)

    def person_of(self, notice: Notice, *, team_id: str | None, now: datetime) -> Person:
        """Return who gets a notice now: the person it was meant for, or whoever stands there instead.

        Raises:
            InvalidArgument: Nobody does any more.
        """
        people = self._people(notice.to, team_id=team_id, name="to")
        there = self._present(people, team_id=team_id, now=now, name="to")
        return next((one for one in there if one.key == notice.person), there[0])

    def _people(self, given: Any, *, team_id: str | None, name: str, steps: int = _RESOLVED_MOST) -> list[Person]:  # noqa: ANN401 - it is what is judged
        match = _REFERENCE.fullmatch(given) if isinstance(given, str) else None
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

    def _check_given(self, person: Person, name: str, *, is_tenants: bool) -> None:
        """Refuse at the caller's desk what could not be reached; and what would leave a secret in the table."""
        for channel in person.ways:
            problem = self._problem_of(channel, is_tenants=is_tenants)
            if problem is not None:
                raise InvalidArgument(name, channel.masked, problem)
        if isinstance(person.deputy, Person):
            self._check_given(person.deputy, f"{name}.deputy", is_tenants=is_tenants)

    def _problem_of(self, channel: Channel, *, is_tenants: bool) -> str | None:
        """Return what a channel would have to be; None where it is."""
        match channel.kind:
            case "email":
                try:
                    mail.parse_address(channel.address)
                except ValueError as error:
                    return f"an e-mail address: it {error}"
            case "webhook":
                try:
                    check = delivery.check_tenant_url if is_tenants else delivery.check_url
                    check(channel.address)
                except UrlInvalid as error:
                    return f"an address to post to: it {error.problem}"
            case "named" if channel.address not in self._settings.channels:
                near = nearest(channel.address, self._settings.channels)
                hint = f'; did you mean "{near}"?' if near else ""
                return f"an address, or a name of [notifications.channels]{hint}"
            case "apprise":
                return _KEPT
            case _:
                pass
        return None

    # -- when ----------------------------------------------------------------------------------------------------------

    def quiet_until(self, person: Person, *, severity: Severity | None, at: datetime) -> datetime | None:
        """Return when a notice may be sent that must not be sent at `at`; None: it may be."""
        text = self._settings.quiet_hours if person.quiet_hours is None else person.quiet_hours
        if not text or (severity == "urgent" and self._settings.urgent_passes_quiet_hours):
            return None
        return QuietHours.parse(text).ends_after(at, self.zone(person))

    # -- what ----------------------------------------------------------------------------------------------------------

    def planned(
        self,
        recipients: Any,  # noqa: ANN401 - it is what is judged
        message: Message | Callable[[Person], Message],
        options: Options,
        *,
        now: datetime,
        at: datetime | None = None,
    ) -> list[tuple[Person, dict[str, Any]]]:
        """Return the people, each with the arguments of `schedule_action` for the notice.

        Args:
            recipients: As `resolve` takes them.
            message: The words; or a function that has them for each person.
            options: What the actions have in common.
            now: Aware: the database's.
            at: Aware: when to send; None: now. Quiet hours put it off further.

        Raises:
            InvalidArgument: A recipient means nobody, or is none.
        """
        planned = []
        for addressed in self.resolve(recipients, team_id=options.team_id, now=max(now, at or now)):
            words = message if isinstance(message, Message) else message(addressed.person)
            quiet = self.quiet_until(addressed.person, severity=options.severity, at=max(now, at or now))
            notice = Notice(
                to=addressed.to,
                person=addressed.person.key,
                subject=one_line(words.subject),
                text=words.text,
                html=words.html,
                severity=options.severity,
                guard=None if options.guard is None else dict(options.guard),
            )
            arguments = {
                "user_id": addressed.person.id,
                **options.arguments,
                **self._when(addressed.person, options, at=quiet or at),
                "action_type": ACTION_TYPE,
                "payload": notice.model_dump(exclude_none=True),
                "team_id": options.team_id,
            }
            planned.append((addressed.person, arguments))
        return planned

    def _when(self, person: Person, options: Options, *, at: datetime | None) -> dict[str, Any]:
        if not options.gather or not self._settings.gather_seconds:
            return {"scheduled_at": at}
        # Of one person, and to be sent at one time: what may pass quiet hours does not wait for what may not.
        slot = "" if at is None else at.astimezone(UTC).isoformat()
        key = hashlib.sha256(f"{person.key}\n{slot}".encode()).hexdigest()[:32]
        return {
            "scheduled_at": timedelta(seconds=self._settings.gather_seconds) if at is None else at,
            "dedup_key": f"notices:{key}",
            "dedup_mode": "append",
            "dedup_window": _GATHERED_SECONDS,
        }

    # -- telling -------------------------------------------------------------------------------------------------------

    def remind(
        self,
        recipients: Any,  # noqa: ANN401 - it is what is judged
        reminder: Reminder,
        *,
        schedule: Callable[..., object],
        severity: Severity | None = None,
        guard: Mapping[str, Any] | None = None,
        team_id: str | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> Told:
        """Tell people of a deadline, each in words of their own: severity, local time, the next reminder.

        Args:
            recipients: As `resolve` takes them.
            reminder: What there is to say.
            schedule: Takes the action type, the payload and further arguments: `Context.schedule`, say.
            severity: How urgent it is; None: as far as it is away.
            guard: `{"deadline_id", "stage"}`: a notice is only sent while that holds.
            team_id: The tenant.
            arguments: More arguments of `schedule_action`.

        Raises:
            InvalidArgument: A recipient means nobody, or is none.
        """
        level = severity or self.severity(reminder.distance)

        def words(person: Person) -> Message:
            values = reminder.values(self.zone(person), recipient=person.name)
            return notice_templates.render_reminder(level, values, project=self.config.project)

        options = Options(severity=level, guard=guard, gather=True, team_id=team_id, arguments=arguments or {})
        planned = self.planned(recipients, words, options, now=reminder.now)
        for _, one in planned:
            schedule(one.pop("action_type"), one.pop("payload"), **one)
        away = self.away(recipients, team_id=team_id, now=reminder.now)
        return Told([person for person, _ in planned], away)

    def notify(
        self,
        recipients: Any,  # noqa: ANN401 - it is what is judged
        text: str,
        options: Options,
        *,
        subject: str | None = None,
        html: str | None = None,
        at: datetime | timedelta | None = None,
        connection: psycopg.Connection[Any] | None = None,
    ) -> list[Scheduled]:
        """Tell people something; return the action of each.

        Args:
            recipients: As `resolve` takes them.
            text: The words.
            options: What the actions have in common.
            subject: One line; None: the text's first.
            html: The same words for channels that can show them.
            at: When, if not at once; aware, or from now.
            connection: Joins the caller's own transaction.

        Raises:
            RequestError: A recipient means nobody, or an argument cannot be what it is; nothing was scheduled.
        """
        for name, value in (("text", text), ("subject", subject), ("html", html)):
            if not isinstance(value, str) if name == "text" else not isinstance(value, str | None):
                raise InvalidArgument(name, type(value).__name__, "a text")
        if options.severity is not None and options.severity not in SEVERITIES:
            raise InvalidArgument("severity", options.severity, f"one of {', '.join(SEVERITIES)}")
        line = one_line(text.strip().partition("\n")[0] if subject is None else subject)
        if not line:
            raise InvalidArgument(
                "text" if subject is None else "subject", text if subject is None else subject, "words"
            )
        moment, delay = arguments.check_when(at, None)
        with borrowed_connection(self._database, connection) as borrowed:
            now = store.now(borrowed)
            when = moment if delay is None else now + delay
            planned = self.planned(recipients, Message(line, text, html), options, now=now, at=when)
            return self._scheduler.schedule_actions([one for _, one in planned], connection=connection)
