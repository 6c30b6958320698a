"""Handing a notice over to one channel: e-mail, a webhook, or whatever apprise speaks."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from email.message import EmailMessage
from typing import TYPE_CHECKING

from scheduled_actions.core.errors import (
    ConfigInvalid,
    ExtraMissing,
    InvalidArgument,
    NotConfigured,
    ScheduledActionsError,
    UrlInvalid,
)
from scheduled_actions.notifications.channels import mail
from scheduled_actions.notifications.channels.library_logs import hide_addresses
from scheduled_actions.notifications.rules.channels import Channel, parse_channel
from scheduled_actions.outbound import delivery, network

if TYPE_CHECKING:
    from scheduled_actions.core.config import Config
    from scheduled_actions.notifications.rules.message import Message
    from scheduled_actions.notifications.rules.severity import Severity
    from scheduled_actions.outbound.reach import Reach

#: Statuses of a receiver that may take the same post later.
_PASSING = frozenset({408, 425, 429})


class ChannelFailed(ScheduledActionsError):
    """A channel did not take a notice. Names it masked: its address may be a secret."""

    code = "channel_failed"

    def __init__(self, channel: Channel, problem: str, *, is_final: bool) -> None:
        self.channel = channel
        self.problem = problem
        #: Whether trying again cannot help.
        self.is_final = is_final
        super().__init__(f"{channel.kind} {channel.masked} {problem}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """One message on its way to one person."""

    message: Message
    severity: Severity | None
    #: Stays the same over all attempts.
    id: str
    #: How far a webhook may go that is not of the settings.
    reach: Reach
    #: How far one of the settings may go.
    own_reach: Reach
    #: Seconds at most.
    timeout: float


def hand_over(channel: Channel, sending: Sending, config: Config) -> str | None:
    """Hand a message over to a channel; return the id that it has there, where it has one.

    Raises:
        ChannelFailed: It was not taken.
    """
    try:
        match channel.kind:
            case "email":
                return _mail(channel, sending, config)
            case "webhook":
                return _post(channel, channel.address, sending, sending.reach)
            case "apprise":
                _apprise(channel, channel.address, sending)
                return None
            case "named":
                return _named(channel, sending, config)
    except (ConfigInvalid, ExtraMissing, NotConfigured, mail.MailDeferred) as error:
        raise ChannelFailed(channel, f"failed: {error}", is_final=False) from None
    except (InvalidArgument, UrlInvalid, mail.MailRefused, ValueError) as error:
        told = str(error) if isinstance(error, mail.MailRefused | UrlInvalid) else "has an address that cannot be one"
        raise ChannelFailed(channel, f"failed: {told}", is_final=True) from None


def _mail(channel: Channel, sending: Sending, config: Config) -> str:
    message = EmailMessage()
    message["To"] = str(mail.parse_address(channel.address))
    message["Subject"] = mail.one_line(sending.message.subject)
    message["Auto-Submitted"] = "auto-generated"
    if sending.severity == "urgent":
        message["Importance"] = "high"
    message.set_content(sending.message.text)
    if sending.message.html is not None:
        message.add_alternative(sending.message.html, subtype="html")
    return mail.submit(message, config, name=sending.id, timeout=sending.timeout).message_id


def _post(channel: Channel, url: str, sending: Sending, reach: Reach) -> str:
    content = {
        "subject": sending.message.subject,
        "text": sending.message.text,
        "severity": sending.severity,
        "id": sending.id,
    }
    answer = delivery.post(
        url,
        body=json.dumps(content, ensure_ascii=False).encode(),
        headers={
            "content-type": "application/json",
            "webhook-id": sending.id,
            "webhook-timestamp": str(int(time.time())),
        },
        reach=reach,
        total_timeout=min(delivery.TOTAL_TIMEOUT, sending.timeout),
    )
    if answer.status is None:
        raise ChannelFailed(channel, f"got nothing: {answer.error}", is_final=answer.is_forbidden)
    if not 200 <= answer.status < 300:  # noqa: PLR2004 - the class of success
        is_final = answer.status < 500 and answer.status not in _PASSING  # noqa: PLR2004 - the classes of refusal
        raise ChannelFailed(channel, f"answered {answer.status}", is_final=is_final)
    return sending.id


def _apprise(channel: Channel, url: str, sending: Sending) -> None:
    """Hand over to one of a hundred services; they tell no id."""
    try:
        import apprise  # noqa: PLC0415 - an extra, loaded with the first notice that needs it
    except ImportError:
        raise ExtraMissing("apprise", "notify") from None
    hide_addresses()
    service = apprise.Apprise(asset=apprise.AppriseAsset(app_id="Scheduled Actions", async_mode=False))
    if not service.add(url):
        raise ChannelFailed(channel, "is no address that apprise knows", is_final=True)
    if (instead := network.substitute()) is not None:
        instead.notify(url, sending.message.subject, sending.message.text)
        return
    kind = {"urgent": apprise.NotifyType.FAILURE, "high": apprise.NotifyType.WARNING}.get(sending.severity or "")
    was_taken = service.notify(
        title=sending.message.subject,
        body=sending.message.text,
        notify_type=kind or apprise.NotifyType.INFO,
        body_format=apprise.NotifyFormat.TEXT,
    )
    if not was_taken:
        raise ChannelFailed(channel, "did not take it", is_final=False)


def _named(channel: Channel, sending: Sending, config: Config) -> str | None:
    """Hand over to a channel of the settings, whose address the environment holds."""
    variable = config.settings.notifications.channels.get(channel.address)
    if variable is None:
        known = ", ".join(sorted(config.settings.notifications.channels)) or "none are"
        raise ChannelFailed(channel, f"is not declared in [notifications.channels]; known: {known}", is_final=True)
    expected = f'the address of the channel "{channel.address}": an apprise URL, an https address or an e-mail address'
    address = config.environ.get(variable, "").strip()
    if not address:
        raise NotConfigured(variable, expected)
    try:
        meant = parse_channel(address)
    except InvalidArgument:
        raise NotConfigured(variable, expected) from None
    match meant.kind:
        case "apprise":
            _apprise(channel, address, sending)
            return None
        case "webhook":
            return _post(channel, address, sending, sending.own_reach)
        case "email":
            return _mail(Channel("email", address), sending, config)
        case "named":
            raise NotConfigured(variable, expected)
