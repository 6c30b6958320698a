"""Handle `notification:send`: send one message to one person through the first channel that accepts it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypeAlias

import psycopg

from scheduled_actions.core.errors import InvalidArgument, ScheduledActionsError
from scheduled_actions.database import clock
from scheduled_actions.database.connection import Connection, Database
from scheduled_actions.notifications.channels import sending as channels, templates
from scheduled_actions.notifications.planning import Notice, Notifications
from scheduled_actions.notifications.rules.people import Channel, Person
from scheduled_actions.notifications.rules.reminder import SEVERITIES, Message, most_urgent
from scheduled_actions.outbound.reach import reach_of
from scheduled_actions.registry.handler import Context, Fail, Skip, Snooze

#: Seconds of an attempt that are reserved for its settlement.
_SETTLE_SECONDS = 1.0
#: Seconds that must be left, without those for the settlement, to try another channel in the same attempt.
_CHANNEL_SECONDS = 3.0
#: The delay until a notification is checked again whose deadline is locked by another transaction.
_LOCKED_SECONDS = 1
#: Delays before a channel is tried again after a temporary failure; after the last delay, the next channel is tried.
#: The last channel of a person is retried as long as the action has attempts left.
DELAYS = (timedelta(minutes=1), timedelta(minutes=5))

#: `again`: try this channel after the delay; `next`: try the next channel immediately; `retry`: try this channel by
#: the retry policy of the action; `over`: fail, because no channel is left.
NextStep: TypeAlias = Literal["again", "next", "retry", "over"]
#: Takes a connection, guards and `team_id`; returns whether each guard is valid until the transaction ends.
CheckGuards: TypeAlias = Callable[..., Sequence[bool]]
#: Takes a connection, receipts and `team_id`; stores those for deadlines of the team.
InsertReceipts: TypeAlias = Callable[..., None]
#: Takes a connection, a guard and `team_id`.
PlanAgain: TypeAlias = Callable[..., None]


@dataclass(frozen=True, slots=True)
class ChannelProgress:
    """The progress through a person's channels; stored as the state of a snooze."""

    #: The index of the next channel.
    channel: int = 0
    #: The number of temporary failures of that channel.
    failures: int = 0
    #: All failures so far, as JSON.
    tried: tuple[dict[str, Any], ...] = ()

    @classmethod
    def of(cls, state: Any) -> "ChannelProgress":  # noqa: ANN401 - any JSON
        """Return the progress stored in `state`; if `state` has another form, the progress of a first attempt."""
        match state:
            case {"channel": int(channel), "failures": int(failures), "tried": list(tried)}:
                return cls(channel, failures, tuple(tried))
            case _:
                return cls()

    def as_json(self) -> dict[str, Any]:
        """Return the progress as the state of a snooze."""
        return {"channel": self.channel, "failures": self.failures, "tried": list(self.tried)}

    def after(self, failure: dict[str, Any], *, is_final: bool, channels: int) -> "tuple[NextStep, ChannelProgress]":
        """Return the next step after a failure of the current channel, and the progress to store.

        Args:
            failure: The failure, as JSON.
            is_final: Whether the failure is permanent.
            channels: The number of the person's channels.
        """
        tried = (*self.tried, failure)
        is_last = self.channel + 1 >= channels
        if not is_final and is_last:
            return "retry", replace(self, tried=tried)
        if not is_final and self.failures < len(DELAYS):
            return "again", replace(self, failures=self.failures + 1, tried=tried)
        return "over" if is_last else "next", ChannelProgress(self.channel + 1, 0, tried)

    @property
    def delay(self) -> timedelta:
        """The delay before the current channel is tried again; zero if that channel has not failed."""
        return DELAYS[self.failures - 1] if self.failures else timedelta(0)


class NoChannelYet(ScheduledActionsError):
    """The last channel of a person failed temporarily; the action is retried according to its retry policy."""

    code = "no_channel_yet"


@dataclass(slots=True)
class Sender:
    """Sends the notifications of one project."""

    notifications: Notifications
    database: Database
    #: Checks guards before sending; None: every guard is valid.
    valid_guards: CheckGuards | None = None
    #: Stores receipts of notifications with a guard; None: they are not stored.
    insert_receipts: InsertReceipts | None = None
    #: Plans the stage of a notification with an invalid guard again; None: it is not planned again.
    plan_again: PlanAgain | None = None

    def send(self, given: Notice | list[Notice], context: Context) -> Skip | Snooze | dict[str, Any]:
        """Send the notifications to one person as a single message.

        Returns:
            `sent` (the channel, the instant, the message id and the recipient), the `notices` of the message, those
            `left_out` because they are no longer valid, and the failures `tried` before; Skip if no notification is
            still valid; Snooze in quiet hours, and before a channel is tried in a later attempt.

        Raises:
            Fail: All channels failed, the last one permanently; or the caller may no longer use the address.
            NoChannelYet: The last channel failed temporarily.
            InvalidArgument: The recipient no longer resolves to a person.
            HandlerBroken: A resolver cannot be imported, or raised an exception.
        """
        notices = given if isinstance(given, list) else [given]
        first, team_id, recipients = notices[0], context.action.team_id, self.notifications.recipients
        with self.database.connection() as connection:
            now = clock.now(connection)
        if first.reach is not None:
            # The settings may have changed since the address was given with a token.
            try:
                recipients.check([first.to], name="to", team_id=team_id, reach=first.reach)
            except InvalidArgument as error:
                raise Fail(str(error)) from None
        person = recipients.person_of(first.to, first.person, team_id=team_id, now=now)
        severity = most_urgent(notice.severity for notice in notices)
        quiet = self.notifications.quiet_until(person, severity=severity, at=now)
        if quiet is not None:
            return Snooze(quiet - now)
        return self._try_channels(notices, person, ChannelProgress.of(context.state), context)

    def _try_channels(
        self, given: Sequence[Notice], person: Person, progress: ChannelProgress, context: Context
    ) -> Skip | Snooze | dict[str, Any]:
        ways, notices = person.ways, list(given)
        while progress.channel < len(ways):
            channel = ways[progress.channel]
            if progress.tried and context.seconds_left < _CHANNEL_SECONDS + _SETTLE_SECONDS:
                return Snooze(0, progress.as_json())
            valid, message_id, failure = self._send_if_valid(channel, notices, person, context)
            if len(valid) < len(notices):
                # The stages of the others are planned again before the valid ones are sent: if that failed afterwards,
                # a retry would send the message twice.
                try:
                    self._plan_again([notice for notice in notices if notice not in valid], context.action.team_id)
                except psycopg.errors.LockNotAvailable:
                    return Snooze(_LOCKED_SECONDS, progress.as_json())
                if not valid:
                    return Skip("its deadline does not exist, was changed, or is closed, paused or acknowledged")
                notices = valid
                continue
            attempt = {
                "channel": channel.kind,
                "address": channel.masked,
                "at": datetime.now(UTC).isoformat(timespec="seconds"),
            }
            if failure is None:
                context.log.info("notice.sent channel=%s notices=%d", channel.kind, len(valid))
                return {
                    "sent": {**attempt, "message_id": message_id, "to": person.name or person.id},
                    "notices": [_summary(notice) for notice in valid],
                    "left_out": [_summary(notice) for notice in given if notice not in valid],
                    "tried": list(progress.tried),
                }
            context.log.warning("notice.channel_failed channel=%s final=%s", channel.kind, failure.is_final)
            next_step, progress = progress.after(
                {**attempt, "problem": failure.problem}, is_final=failure.is_final, channels=len(ways)
            )
            if next_step == "again":
                return Snooze(progress.delay, progress.as_json())
            if next_step == "retry":
                raise NoChannelYet(_failures(progress))
        raise Fail(_failures(progress))

    def _send_if_valid(
        self, channel: Channel, notices: Sequence[Notice], person: Person, context: Context
    ) -> tuple[list[Notice], str | None, channels.ChannelFailed | None]:
        """Send a message if all its notifications are valid; return the valid ones, the message id and the failure."""
        # The deadlines of the guards are locked while the message is sent. The completion of a deadline waits until
        # then, so no message is sent after the deadline is completed.
        with self._valid(notices, context.action.team_id) as (valid, connection):
            if len(valid) < len(notices):
                return valid, None, None
            message_id, failure = self._send(channel, valid, person, context)
            # A receipt shows email addresses in full; addresses of other channels may be secrets.
            receipt = {
                "recipient": person.name or person.id,
                "person_key": person.key,
                "channel": channel.kind,
                "address": channel.shown,
                "message_id": message_id,
                "problem": None if failure is None else failure.problem,
            }
            self._store_receipts(connection, valid, receipt, context)
            return valid, message_id, failure

    @contextmanager
    def _valid(
        self, notices: Sequence[Notice], team_id: str | None
    ) -> Iterator[tuple[list[Notice], Connection | None]]:
        """Yield the notifications without a guard or with a valid one, and the connection whose locks keep them valid.

        The connection is None if no notification has a guard.
        """
        guarded = [notice for notice in notices if notice.guard is not None]
        if not guarded or self.valid_guards is None:
            yield list(notices), None
            return
        with self.database.connection() as connection, connection.transaction():
            guards = [{**(notice.guard or {}), "to": notice.to} for notice in guarded]
            answers = self.valid_guards(connection, guards, team_id=team_id)
            invalid = [notice for notice, is_valid in zip(guarded, answers, strict=True) if not is_valid]
            yield [notice for notice in notices if notice not in invalid], connection

    def _plan_again(self, notices: Sequence[Notice], team_id: str | None) -> None:
        """Plan the stages of invalid notifications again; each stage at most once.

        Raises:
            LockNotAvailable: A deadline is being changed, or one of its notifications is being sent.
        """
        if self.plan_again is None:
            return
        for notice in notices:
            with self.database.connection() as connection, connection.transaction():
                self.plan_again(connection, notice.guard, team_id=team_id)

    def _store_receipts(
        self, connection: Connection | None, notices: Sequence[Notice], receipt: Mapping[str, Any], context: Context
    ) -> None:
        rows = [
            {**notice.guard, "subject": notice.subject, "action_id": context.id, **receipt}
            for notice in notices
            if notice.guard is not None
        ]
        if connection is None or self.insert_receipts is None or not rows:
            return
        try:
            with connection.transaction():
                self.insert_receipts(connection, rows, team_id=context.action.team_id)
        except psycopg.Error as error:
            # An exception would make the retry send the message again, so the receipt is left out.
            context.log.warning("notice.receipt_not_stored error=%s", type(error).__name__)

    def _send(
        self, channel: Channel, notices: Sequence[Notice], person: Person, context: Context
    ) -> tuple[str | None, channels.ChannelFailed | None]:
        """Send a message; return its id (None if the channel has none) and the failure (None if it was sent)."""
        config = self.notifications.config
        webhooks = config.settings.webhooks
        # Addresses of a team, and addresses given with a token, may only reach the public internet.
        is_public = context.action.team_id is not None or any(notice.reach is not None for notice in notices)
        message = channels.OutgoingMessage(
            message=self._message(notices, person),
            severity=most_urgent(notice.severity for notice in notices),
            id=str(context.id),
            reach=reach_of(webhooks, is_tenants=is_public),
            own_reach=reach_of(webhooks, is_tenants=False),
            timeout=max(0.0, context.seconds_left - _SETTLE_SECONDS),
        )
        try:
            return channels.send(channel, message, config), None
        except channels.ChannelFailed as error:
            return None, error

    def _message(self, notices: Sequence[Notice], person: Person) -> Message:
        if len(notices) == 1:
            [notice] = notices
            return Message(notice.subject, notice.text, notice.html)
        ordered = sorted(notices, key=lambda notice: SEVERITIES.index(notice.severity or "low"))
        values = {"recipient": person.name, "urgent": sum(notice.severity == "urgent" for notice in notices)}
        shown = [{"subject": one.subject, "text": one.text, "severity": one.severity} for one in ordered]
        return templates.render_digest(shown, values, project=self.notifications.config.project)


def _summary(notice: Notice) -> dict[str, Any]:
    return {"subject": notice.subject, **({"guard": notice.guard} if notice.guard else {})}


def _failures(progress: ChannelProgress) -> str:
    tried = [f"{one.get('channel')} {one.get('address')} {one.get('problem')}" for one in progress.tried]
    return f"every channel failed: {'; '.join(tried[-10:])}"
