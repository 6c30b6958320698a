"""Notices: whom they reach, when, and as which actions of the type `notification:send`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError, field_validator

from scheduled_actions.core import checks as arguments
from scheduled_actions.core.errors import InvalidArgument, PayloadInvalid
from scheduled_actions.core.requester import AddressReach
from scheduled_actions.database import clock
from scheduled_actions.database.transactions import borrowed_connection
from scheduled_actions.notifications.channels import templates
from scheduled_actions.notifications.recipients import KEPT, REFERENCE, Recipients
from scheduled_actions.notifications.rules import severity as severities
from scheduled_actions.notifications.rules.message import Message, one_line
from scheduled_actions.notifications.rules.people import Person, parse_person
from scheduled_actions.notifications.rules.quiet_hours import QuietHours
from scheduled_actions.notifications.rules.severity import SEVERITIES, Severity, Steps
from scheduled_actions.registry.payloads import problems_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import psycopg

    from scheduled_actions.actions.service import Scheduler
    from scheduled_actions.core.action import Scheduled
    from scheduled_actions.core.config import Config
    from scheduled_actions.database.connection import Database
    from scheduled_actions.notifications.rules.reminder import Reminder
    from scheduled_actions.registry import Registry

ACTION_TYPE = "notification:send"
#: Characters of a text.
TEXT_MOST = 100_000
#: What waits for longer than this was not gathered, but left behind.
_GATHERED_SECONDS = 2 * 86400.0


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
    #: How far `to` reaches where a token gave it; None: application code.
    reach: AddressReach | None = None

    @field_validator("to")
    @classmethod
    def _is_a_person(cls, value: Any) -> Any:  # noqa: ANN401 - any JSON
        if isinstance(value, str) and REFERENCE.fullmatch(value):
            return value
        try:
            person: Person | str | None = parse_person(value, name="to")
        except InvalidArgument as error:
            message = f"{error.name} should be {error.expected}"
            raise ValueError(message) from None
        while isinstance(person, Person):
            # Whoever may schedule an action could reach with it whatever this machine reaches.
            if any(channel.kind == "apprise" for channel in person.ways):
                message = f"to should not be {KEPT}"
                raise ValueError(message)
            person = person.deputy
        if person is not None and not REFERENCE.fullmatch(person):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the actions of notices have in common; names as in `schedule_action`."""

    severity: Severity | None = None
    #: `{"deadline_id", "stage"}`: a notice is only sent while that holds.
    guard: Mapping[str, Any] | None = None
    #: Whether notices to one person that come together become one message.
    gather: bool = False
    team_id: str | None = None
    #: Of the caller who gave the recipients; None: application code.
    reach: AddressReach | None = None
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
        self.recipients = Recipients(self._settings, registry)
        self._scheduler = scheduler

    def severity(self, distance: timedelta) -> Severity:
        """Return how urgent something is that is due in `distance`, as the settings have it."""
        of = self._settings
        days = {"urgent": of.urgent_days, "high": of.high_days, "medium": of.medium_days}
        return severities.severity(distance, Steps(**{name: timedelta(days=one) for name, one in days.items()}))

    def zone(self, person: Person) -> ZoneInfo:
        """Return whose wall clock a person lives by."""
        return ZoneInfo(person.timezone or self._settings.timezone)

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
        people = self.recipients.resolve(
            recipients, team_id=options.team_id, now=max(now, at or now), reach=options.reach
        )
        for addressed in people:
            words = message if isinstance(message, Message) else message(addressed.person)
            quiet = self.quiet_until(addressed.person, severity=options.severity, at=max(now, at or now))
            try:
                notice = Notice(
                    to=addressed.to,
                    person=addressed.person.key,
                    subject=one_line(words.subject),
                    text=words.text,
                    html=words.html,
                    severity=options.severity,
                    guard=None if options.guard is None else dict(options.guard),
                    reach=options.reach,
                )
            except ValidationError as error:
                raise PayloadInvalid(ACTION_TYPE, problems_of(error)) from None
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
        # What a token asked for does not lend its reach to what the application tells the same person.
        reach = "" if options.reach is None else f"\n{options.reach}"
        key = hashlib.sha256(f"{person.key}\n{slot}{reach}".encode()).hexdigest()[:32]
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
        reach: AddressReach | None = None,
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
            reach: Of the caller who gave the recipients; None: application code.
            arguments: More arguments of `schedule_action`.

        Raises:
            InvalidArgument: A recipient means nobody, or is none.
        """
        level = severity or self.severity(reminder.distance)

        def words(person: Person) -> Message:
            values = reminder.values(self.zone(person), recipient=person.name)
            return templates.render_reminder(level, values, project=self.config.project)

        options = Options(
            severity=level, guard=guard, gather=True, team_id=team_id, reach=reach, arguments=arguments or {}
        )
        planned = self.planned(recipients, words, options, now=reminder.now)
        for _, one in planned:
            schedule(one.pop("action_type"), one.pop("payload"), **one)
        away = self.recipients.away(recipients, team_id=team_id, now=reminder.now)
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
            now = clock.now(borrowed)
            when = moment if delay is None else now + delay
            planned = self.planned(recipients, Message(line, text, html), options, now=now, at=when)
            return self._scheduler.schedule_actions([one for _, one in planned], connection=connection)
