"""Schedule notifications as actions of the type `notification:send`."""

import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, TypeAlias
from zoneinfo import ZoneInfo

import psycopg
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError, field_validator

from scheduled_actions.actions.service import Scheduler
from scheduled_actions.core import checks as arguments
from scheduled_actions.core.action import Scheduled
from scheduled_actions.core.config import Config
from scheduled_actions.core.errors import InvalidArgument, PayloadInvalid
from scheduled_actions.core.requester import AddressReach
from scheduled_actions.database import clock
from scheduled_actions.database.connection import Database
from scheduled_actions.database.transactions import borrowed_connection
from scheduled_actions.notifications.channels import templates
from scheduled_actions.notifications.recipients import APPRISE_PROBLEM, REFERENCE, Recipients
from scheduled_actions.notifications.rules import reminder as rules
from scheduled_actions.notifications.rules.people import Person, QuietHours, parse_person
from scheduled_actions.notifications.rules.reminder import SEVERITIES, Message, Reminder, Severity, one_line
from scheduled_actions.registry import Registry
from scheduled_actions.registry.payloads import field_problems_of

ACTION_TYPE = "notification:send"
#: The longest text, in characters.
TEXT_MOST = 100_000
#: The dedup window of digests, in seconds.
_DIGEST_WINDOW_SECONDS = 2 * 86400.0


class Notice(BaseModel):
    """A notification to one person: the payload of `notification:send`, or an element of it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: An address, `resolver:name`, or a person as an object.
    to: str | dict[str, Any]
    #: The `Person.key` of the person to notify if `to` resolves to several people; None: the first.
    person: str | None = None
    subject: Annotated[str, Field(min_length=1, max_length=998)]
    text: Annotated[str, Field(max_length=TEXT_MOST)]
    html: Annotated[str, Field(max_length=TEXT_MOST)] | None = None
    severity: Severity | None = None
    #: `{"deadline_id", "stage"}`: the notification is sent only while the stage is valid; None: always.
    guard: dict[str, Any] | None = None
    #: Which addresses the caller may use, if `to` was given with a token; None: any, for application code.
    reach: AddressReach | None = None

    @field_validator("to")
    @classmethod
    def _is_a_person(cls, value: Any) -> Any:  # noqa: ANN401 - any JSON
        if isinstance(value, str) and REFERENCE.fullmatch(value):
            return value
        try:
            person: Person | str | None = parse_person(value, name="to")
        except InvalidArgument as error:
            raise ValueError(str(error.renamed(error.name.removeprefix("to.")))) from None
        while isinstance(person, Person):
            # Apprise does not check networks: with such an address, every caller who may schedule this type could reach
            # the private network of this machine.
            if any(channel.kind == "apprise" for channel in person.ways):
                raise ValueError(APPRISE_PROBLEM)
            person = person.deputy
        if person is not None and not REFERENCE.fullmatch(person):
            cls._is_a_person(person)
        return value


#: The handler's payload: one notification, or a list of those that a digest combines.
Notices: TypeAlias = Annotated[
    Annotated[Notice, Tag("notice")] | Annotated[list[Notice], Tag("notices")],
    Discriminator(lambda given: "notices" if isinstance(given, list) else "notice"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeOptions:
    """Options that all notifications of one call share."""

    severity: Severity | None = None
    #: `{"deadline_id", "stage"}`: a notification is sent only while the stage is valid; None: always.
    guard: Mapping[str, Any] | None = None
    #: Whether the notifications to one person may be combined into one message.
    digest: bool = False
    team_id: str | None = None
    #: Which addresses the caller who gave the recipients may use; None: any, for application code.
    reach: AddressReach | None = None
    #: Further arguments of `schedule_action`: `target`, `created_by`, `metadata`, `priority`.
    arguments: Mapping[str, Any] = field(default_factory=dict)


class Notifications:
    """Schedules the notifications of one project.

    Args:
        config: The settings, and the project directory, which may contain templates.
        registry: Contains the resolvers.
        database: Provides the current time.
        scheduler: Schedules the notifications of `notify`.
    """

    def __init__(self, config: Config, registry: Registry, database: Database, scheduler: Scheduler) -> None:
        self.config = config
        self._database = database
        self._settings = config.settings.notifications
        self.recipients = Recipients(self._settings, registry)
        self._scheduler = scheduler

    def severity(self, distance: timedelta) -> Severity:
        """Return the severity of a deadline that is due in `distance`, according to the settings."""
        thresholds: dict[Severity, timedelta] = {
            "urgent": timedelta(days=self._settings.urgent_days),
            "high": timedelta(days=self._settings.high_days),
            "medium": timedelta(days=self._settings.medium_days),
        }
        return rules.severity(distance, thresholds)

    def zone(self, person: Person, *, deadline_timezone: str = "UTC") -> ZoneInfo:
        """Return the time zone of a person; by default that of the deadline or, if that is UTC, of the settings."""
        default = self._settings.timezone if deadline_timezone == "UTC" else deadline_timezone
        return ZoneInfo(person.timezone or default)

    # -- quiet hours ---------------------------------------------------------------------------------------------------

    def quiet_until(self, person: Person, *, severity: Severity | None, at: datetime) -> datetime | None:
        """Return the end of a person's quiet hours if they contain `at`; otherwise None.

        Args:
            person: The person to notify.
            severity: The severity of the notification, if any. By default, quiet hours do not apply to urgent
                notifications.
            at: Aware.
        """
        text = self._settings.quiet_hours if person.quiet_hours is None else person.quiet_hours
        if not text or (severity == "urgent" and self._settings.urgent_passes_quiet_hours):
            return None
        return QuietHours.parse(text).ends_after(at, self.zone(person))

    # -- planning ------------------------------------------------------------------------------------------------------

    def planned(
        self,
        recipients: Any,  # noqa: ANN401 - validated here
        message: Message | Callable[[Person], Message],
        options: NoticeOptions,
        *,
        now: datetime,
        at: datetime | None = None,
    ) -> list[tuple[Person, dict[str, Any]]]:
        """Return the people to notify, each with the arguments of `schedule_action` for the notification.

        Args:
            recipients: As `Recipients.resolve` takes them.
            message: The message, or a function that returns the message for a person.
            options: The options that all notifications share.
            now: The database's current time; aware.
            at: When to send, aware; None: now. Quiet hours defer the notification.

        Raises:
            InvalidArgument: A recipient is invalid, or resolves to no person.
            HandlerBroken: A resolver cannot be imported, or raised an exception.
            PayloadInvalid: A notification is invalid, for example because its text is too long.
        """
        planned = []
        when = max(now, at or now)
        for person, to in self.recipients.resolve(recipients, team_id=options.team_id, now=when, reach=options.reach):
            words = message if isinstance(message, Message) else message(person)
            quiet = self.quiet_until(person, severity=options.severity, at=when)
            try:
                notice = Notice(
                    to=to,
                    person=person.key,
                    subject=one_line(words.subject),
                    text=words.text,
                    html=words.html,
                    severity=options.severity,
                    guard=None if options.guard is None else dict(options.guard),
                    reach=options.reach,
                )
            except ValidationError as error:
                raise PayloadInvalid(ACTION_TYPE, field_problems_of(error)) from None
            arguments = {
                "user_id": person.id,
                **options.arguments,
                **self._when(person, options, at=quiet or at),
                "action_type": ACTION_TYPE,
                "payload": notice.model_dump(exclude_none=True),
                "team_id": options.team_id,
            }
            planned.append((person, arguments))
        return planned

    def _when(self, person: Person, options: NoticeOptions, *, at: datetime | None) -> dict[str, Any]:
        if not options.digest or not self._settings.digest_seconds:
            return {"scheduled_at": at}
        # One digest per person and instant, so that urgent notifications do not wait for the end of quiet hours.
        slot = "" if at is None else at.astimezone(UTC).isoformat()
        # Separate digests per reach, because the reach of a token must not apply to notifications of application code.
        reach = "" if options.reach is None else f"\n{options.reach}"
        key = hashlib.sha256(f"{person.key}\n{slot}{reach}".encode()).hexdigest()[:32]
        return {
            "scheduled_at": timedelta(seconds=self._settings.digest_seconds) if at is None else at,
            "dedup_key": f"notices:{key}",
            "dedup_mode": "append",
            "dedup_window": _DIGEST_WINDOW_SECONDS,
        }

    # -- sending -------------------------------------------------------------------------------------------------------

    def remind(
        self,
        recipients: Any,  # noqa: ANN401 - validated here
        reminder: Reminder,
        *,
        schedule: Callable[..., object],
        severity: Severity,
        guard: Mapping[str, Any] | None = None,
        received: Collection[str] = (),
        team_id: str | None = None,
        reach: AddressReach | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> tuple[list[Person], list[Person]]:
        """Schedule the notifications of a deadline, rendered for each person.

        Args:
            recipients: As `Recipients.resolve` takes them.
            reminder: The values that describe the deadline.
            schedule: Takes the action type, the payload and further arguments, like `Context.schedule`.
            severity: The severity of the notifications.
            guard: `{"deadline_id", "stage"}`: the notifications are sent only while the stage is valid; None: always.
            received: The `Person.key` of people who are not notified, because they have a receipt.
            team_id: The team of the deadline.
            reach: Which addresses the caller who gave the recipients may use; None: any, for application code.
            arguments: Further arguments of `schedule_action`.

        Returns:
            The people to notify, and the recipients who are away, whether or not a deputy replaces them.

        Raises:
            InvalidArgument: A recipient is invalid, or resolves to no person.
            HandlerBroken: A resolver cannot be imported, or raised an exception.
            PayloadInvalid: A notification is invalid, for example because its text is too long.
        """

        def words(person: Person) -> Message:
            zone = self.zone(person, deadline_timezone=reminder.timezone)
            values = reminder.values(zone, recipient=person.name)
            return templates.render_reminder(severity, values, project=self.config.project)

        options = NoticeOptions(
            severity=severity, guard=guard, digest=True, team_id=team_id, reach=reach, arguments=arguments or {}
        )
        planned = [
            (person, one)
            for person, one in self.planned(recipients, words, options, now=reminder.now)
            if person.key not in received
        ]
        for _, one in planned:
            schedule(one.pop("action_type"), one.pop("payload"), **one)
        return [person for person, _ in planned], self.recipients.away(recipients, team_id=team_id, now=reminder.now)

    def notify(
        self,
        recipients: Any,  # noqa: ANN401 - validated here
        text: str,
        options: NoticeOptions,
        *,
        subject: str | None = None,
        html: str | None = None,
        at: datetime | date | str | timedelta | None = None,
        connection: psycopg.Connection[Any] | None = None,
    ) -> list[Scheduled]:
        """Schedule a notification to each recipient; return the actions.

        Args:
            recipients: As `Recipients.resolve` takes them.
            text: The message.
            options: The options that all notifications share.
            subject: One line; None: the first line of the text.
            html: The message for channels that support HTML.
            at: When to send: as `scheduled_at` of `notify`; None: now. Quiet hours defer the notification.
            connection: Joins the caller's transaction.

        Raises:
            RequestError: A recipient or an argument is invalid; nothing was scheduled.
            HandlerBroken: A resolver cannot be imported, or raised an exception; nothing was scheduled.
            DatabaseUnavailable: The database cannot be reached; nothing was scheduled.
        """
        for name, value in (("text", text), ("subject", subject), ("html", html)):
            if not isinstance(value, str) if name == "text" else not isinstance(value, str | None):
                raise InvalidArgument(name, value, "a string")
        if options.severity is not None and options.severity not in SEVERITIES:
            raise InvalidArgument("severity", options.severity, f"one of {', '.join(SEVERITIES)}")
        line = one_line(text.strip().partition("\n")[0] if subject is None else subject)
        if not line:
            raise InvalidArgument("text" if subject is None else "subject", problem="must not be empty")
        moment, delay = arguments.check_scheduled_at(at)
        with borrowed_connection(self._database, connection) as borrowed:
            now = clock.now(borrowed)
            when = moment if delay is None else now + delay
            planned = self.planned(recipients, Message(line, text, html), options, now=now, at=when)
            return self._scheduler.schedule_actions([one for _, one in planned], connection=connection)
