"""What `notification:send` does: one message to one person, through the first of their channels that works."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

import psycopg

from scheduled_actions.core.errors import InvalidArgument, ScheduledActionsError
from scheduled_actions.database import clock
from scheduled_actions.notifications.channels import sending as channels
from scheduled_actions.notifications.channels import templates
from scheduled_actions.notifications.rules.message import Message
from scheduled_actions.notifications.rules.progress import Failure, Progress
from scheduled_actions.notifications.rules.severity import SEVERITIES, most_urgent
from scheduled_actions.outbound.reach import reach_of
from scheduled_actions.registry.handler import Fail, Skip, Snooze

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from scheduled_actions.database.connection import Connection, Database
    from scheduled_actions.notifications.planning import Notice, Notifications
    from scheduled_actions.notifications.rules.channels import Channel
    from scheduled_actions.notifications.rules.people import Person
    from scheduled_actions.registry.handler import Context

    class Holding(Protocol):
        """Returns which guards hold; what they stand on stays locked until the transaction ends."""

        def __call__(
            self, connection: Connection, guards: Sequence[Mapping[str, Any]], /, *, team_id: str | None
        ) -> Sequence[bool]:
            """Return an answer for each guard, in their order; those of other teams do not hold."""

    class Prove(Protocol):
        """Stores what was sent."""

        def __call__(
            self, connection: Connection, notices: Sequence[Mapping[str, Any]], /, *, team_id: str | None
        ) -> None:
            """Store it with the deadlines of the team."""


#: Seconds that an attempt keeps for its settlement, and that a channel needs at least.
_SETTLE_SECONDS = 1.0
_CHANNEL_SECONDS = 3.0


class NoChannelYet(ScheduledActionsError):
    """The last channel of a person did not take a notice for now; it is tried again as the policy says."""

    code = "no_channel_yet"


class Sender:
    """Sends the notices of one project.

    Args:
        notifications: Knows people and settings.
        database: Has the present moment, and what notices depend on.
        holding: Says which guards hold; None: all do.
        prove: Keeps what was sent of what has a guard, or was not taken, beside what the guard stands on.
    """

    def __init__(
        self,
        notifications: Notifications,
        database: Database,
        *,
        holding: Holding | None = None,
        prove: Prove | None = None,
    ) -> None:
        self._prove = prove
        self._notifications = notifications
        self._database = database
        #: Can be changed: what is sent later is asked of the new one.
        self.holding = holding

    def send(self, given: Notice | list[Notice], context: Context) -> Skip | Snooze | dict[str, Any]:
        """Send what was gathered for one person; the result says when, through which channel, and what it is called.

        Raises:
            Fail: No channel is left that could take it.
            NoChannelYet: The last channel did not take it for now.
            InvalidArgument: The person it was meant for is nobody any more.
        """
        notices = given if isinstance(given, list) else [given]
        with self._database.connection() as connection:
            now = clock.now(connection)
        self._check_reach(notices[0], context)
        person = self._notifications.recipients.person_of(
            notices[0].to, notices[0].person, team_id=context.action.team_id, now=now
        )
        severity = most_urgent(notice.severity for notice in notices)
        quiet = self._notifications.quiet_until(person, severity=severity, at=now)
        if quiet is not None:
            return Snooze(quiet - now)
        return self._through_channels(notices, person, Progress.of(context.state), context)

    def _check_reach(self, notice: Notice, context: Context) -> None:
        """Refuse a recipient of a token that is out of reach by now: the settings may have changed."""
        if notice.reach is None:
            return
        team_id = context.action.team_id
        try:
            self._notifications.recipients.check([notice.to], name="to", team_id=team_id, reach=notice.reach)
        except InvalidArgument as error:
            raise Fail(str(error)) from None

    def _through_channels(
        self, notices: Sequence[Notice], person: Person, progress: Progress, context: Context
    ) -> Skip | Snooze | dict[str, Any]:
        ways = person.ways
        while progress.channel < len(ways):
            channel = ways[progress.channel]
            if progress.tried and context.seconds_left < _CHANNEL_SECONDS + _SETTLE_SECONDS:
                return Snooze(0, progress.as_json())
            # What a notice stands on is locked until it has been handed over: whoever completes a deadline waits for
            # the message that is just going out, and none begins to go out after that.
            with self._kept(notices, context.action.team_id) as (kept, connection):
                if not kept:
                    return Skip("the reason for this notice no longer holds")
                handed_over = self._hand_over(channel, kept, person, context)
                if connection is not None:
                    self._keep_proof(connection, kept, _passage(handed_over, channel, person), context)
            if not isinstance(handed_over, Failure):
                context.log.info("notice.sent channel=%s notices=%d", channel.kind, len(kept))
                return {
                    "sent": {**handed_over, "to": person.name or person.id, "channel": channel.kind},
                    "notices": [_proof(notice) for notice in kept],
                    "left_out": [_proof(notice) for notice in notices if notice not in kept],
                    "tried": list(progress.tried),
                }
            context.log.warning("notice.channel_failed channel=%s final=%s", channel.kind, handed_over.is_final)
            verdict, progress = progress.after(handed_over, channels=len(ways))
            match verdict:
                case "again":
                    return Snooze(progress.delay, progress.as_json())
                case "retry":
                    raise NoChannelYet(_told(progress))
                case "next" | "over":
                    pass
        raise Fail(_told(progress))

    @contextmanager
    def _kept(self, notices: Sequence[Notice], team_id: str | None) -> Iterator[tuple[list[Notice], Connection | None]]:
        """Give those whose guards hold, and the connection that keeps them so, where there is any."""
        guarded = [notice for notice in notices if notice.guard is not None]
        if not guarded or self.holding is None:
            yield list(notices), None
            return
        with self._database.connection() as connection, connection.transaction():
            guards = [{**(notice.guard or {}), "to": notice.to} for notice in guarded]
            answers = self.holding(connection, guards, team_id=team_id)
            gone = [notice for notice, holds in zip(guarded, answers, strict=True) if not holds]
            yield [notice for notice in notices if notice not in gone], connection

    def _keep_proof(
        self, connection: Connection, notices: Sequence[Notice], proof: Mapping[str, Any], context: Context
    ) -> None:
        """Keep what became of the notices with what they tell of, in the transaction that holds it."""
        guarded = [(notice.guard, notice.subject) for notice in notices if notice.guard is not None]
        if self._prove is None or not guarded:
            return
        rows = [{**guard, "subject": subject, "action_id": context.id, **proof} for guard, subject in guarded]
        try:
            with connection.transaction():
                self._prove(connection, rows, team_id=context.action.team_id)
        except psycopg.Error as error:
            # What has gone out must not go out once more for want of a line about it.
            context.log.warning("notice.unproven error=%s", type(error).__name__)

    def _hand_over(
        self, channel: Channel, notices: Sequence[Notice], person: Person, context: Context
    ) -> dict[str, str | None] | Failure:
        """Return when a channel took a message and what it is called there, or why it did not."""
        config = self._notifications.config
        webhooks = config.settings.webhooks
        sending = channels.Sending(
            message=self._message(notices, person),
            severity=most_urgent(notice.severity for notice in notices),
            id=str(context.id),
            reach=reach_of(webhooks, is_tenants=_is_public(notices, context)),
            own_reach=reach_of(webhooks, is_tenants=False),
            timeout=max(0.0, context.seconds_left - _SETTLE_SECONDS),
        )
        try:
            message_id = channels.hand_over(channel, sending, config)
        except channels.ChannelFailed as error:
            return Failure(
                kind=channel.kind,
                address=channel.masked,
                problem=error.problem,
                at=_instant(),
                is_final=error.is_final,
            )
        return {"address": channel.masked, "message_id": message_id, "at": _instant()}

    def _message(self, notices: Sequence[Notice], person: Person) -> Message:
        if len(notices) == 1:
            [notice] = notices
            return Message(notice.subject, notice.text, notice.html)
        ordered = sorted(notices, key=lambda notice: SEVERITIES.index(notice.severity or "low"))
        values = {"recipient": person.name, "urgent": sum(notice.severity == "urgent" for notice in notices)}
        shown = [{"subject": one.subject, "text": one.text, "severity": one.severity} for one in ordered]
        return templates.render_digest(shown, values, project=self._notifications.config.project)


def _is_public(notices: Sequence[Notice], context: Context) -> bool:
    """Return whether addresses reach the public internet only: a team's, and those that a token gave."""
    return context.action.team_id is not None or any(notice.reach is not None for notice in notices)


def _passage(handed_over: dict[str, str | None] | Failure, channel: Channel, person: Person) -> dict[str, str | None]:
    """Return who was to be told through what, and what came of it."""
    # A deadline's history names mail addresses, too; those of other channels may be secrets.
    address = channel.address if channel.kind == "email" else channel.masked
    said = {"recipient": person.name or person.id, "channel": channel.kind, "address": address}
    if isinstance(handed_over, Failure):
        return {**said, "problem": handed_over.problem}
    return {**said, "message_id": handed_over["message_id"]}


def _proof(notice: Notice) -> dict[str, Any]:
    """Return what tells later which notice it was."""
    return {"subject": notice.subject, **({"guard": notice.guard} if notice.guard else {})}


def _told(progress: Progress) -> str:
    tried = [f"{one.get('channel')} {one.get('address')} {one.get('problem')}" for one in progress.tried]
    return f"no channel took it: {'; '.join(tried[-10:])}"


def _instant() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
