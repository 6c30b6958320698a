"""Send a message through a channel: email, a webhook, or an apprise service."""

import json
import logging
import re
import time
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import EmailMessage

from scheduled_actions.core.config import Config
from scheduled_actions.core.errors import (
    ConfigInvalid,
    ExtraMissing,
    InvalidArgument,
    NotConfigured,
    ScheduledActionsError,
    UrlInvalid,
)
from scheduled_actions.core.errors.families import error_class
from scheduled_actions.notifications.channels import mail
from scheduled_actions.notifications.rules.people import Channel, parse_channel
from scheduled_actions.notifications.rules.reminder import Message, Severity
from scheduled_actions.outbound import delivery, network
from scheduled_actions.outbound.reach import Reach

#: Statuses below 500 that are temporary failures.
_TEMPORARY = frozenset({408, 425, 429})
#: The loggers of apprise's HTTP client; at DEBUG they log request paths, which are secrets for many services.
_HTTP_LOGGERS = ("requests", "urllib3.connection", "urllib3.connectionpool", "urllib3.util.retry")
#: A URL path with its query, after a host or alone.
_PATH = re.compile(r"""(https?://[^/\s"']+|(?<=[\s"'(]))/[^\s"')]*""")


@error_class
class ChannelFailed(ScheduledActionsError):
    """A channel did not accept a message. The error masks the address of the channel, because it may be a secret."""

    message = "{channel.kind} {channel.masked} {problem}"
    channel: Channel
    problem: str
    #: Whether the failure is permanent.
    is_final: bool = field(kw_only=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingMessage:
    """A message to one person, with its id, the networks that it may reach, and a time limit."""

    message: Message
    severity: Severity | None
    #: The id of the action, the same for all attempts.
    id: str
    #: The networks that a webhook may reach if a caller gave its address.
    reach: Reach
    #: The networks that a webhook may reach if it is a named channel, whose address is in the environment.
    own_reach: Reach
    #: Maximum seconds for sending.
    timeout: float


def send(channel: Channel, outgoing: OutgoingMessage, config: Config) -> str | None:
    """Send a message through a channel; return the message id, or None if the channel has no ids.

    Raises:
        ChannelFailed: The message was not accepted.
    """
    try:
        named = _named(channel, config) if channel.kind == "named" else channel
        match named.kind:
            case "email":
                return _mail(named.address, outgoing, config)
            case "webhook":
                reach = outgoing.reach if named is channel else outgoing.own_reach
                return _post(channel, named.address, outgoing, reach)
            case _:
                _apprise(channel, named.address, outgoing)
                return None
    except (ConfigInvalid, ExtraMissing, NotConfigured, mail.MailDeferred) as error:
        raise ChannelFailed(channel, f"failed: {error}", is_final=False) from None
    except (InvalidArgument, UrlInvalid, mail.MailRefused, ValueError) as error:
        reason = str(error) if isinstance(error, mail.MailRefused | UrlInvalid) else "its address is invalid"
        raise ChannelFailed(channel, f"failed: {reason}", is_final=True) from None


def _named(channel: Channel, config: Config) -> Channel:
    """Return the channel in the environment variable that the settings declare for a named channel.

    Raises:
        ChannelFailed: The named channel is not declared.
        NotConfigured: The variable does not contain the address of a channel.
    """
    variable = config.settings.notifications.channels.get(channel.address)
    if variable is None:
        known = ", ".join(sorted(config.settings.notifications.channels)) or "none"
        raise ChannelFailed(channel, f"is not declared in [notifications.channels]; declared: {known}", is_final=True)
    address = config.environ.get(variable, "").strip()
    with suppress(InvalidArgument):
        if (named := parse_channel(address)).kind != "named":
            return named
    expected = f'set it to an apprise URL, an https URL or an email address for the channel "{channel.address}"'
    raise NotConfigured(variable, expected, problem="is invalid" if address else "is not configured")


def _mail(address: str, outgoing: OutgoingMessage, config: Config) -> str:
    message = EmailMessage()
    message["To"] = str(mail.parse_address(address))
    message["Subject"] = mail.one_line(outgoing.message.subject)
    message["Auto-Submitted"] = "auto-generated"
    if outgoing.severity == "urgent":
        message["Importance"] = "high"
    message.set_content(outgoing.message.text)
    if outgoing.message.html is not None:
        message.add_alternative(outgoing.message.html, subtype="html")
    return mail.submit(message, config, name=outgoing.id, timeout=outgoing.timeout).message_id


def _post(channel: Channel, url: str, outgoing: OutgoingMessage, reach: Reach) -> str:
    content = {
        "subject": outgoing.message.subject,
        "text": outgoing.message.text,
        "severity": outgoing.severity,
        "id": outgoing.id,
    }
    result = delivery.post(
        url,
        body=json.dumps(content, ensure_ascii=False).encode(),
        headers={
            "content-type": "application/json",
            "webhook-id": outgoing.id,
            "webhook-timestamp": str(int(time.time())),
        },
        reach=reach,
        total_timeout=min(delivery.TOTAL_TIMEOUT, outgoing.timeout),
    )
    if result.status is None:
        raise ChannelFailed(channel, f"did not respond: {result.error}", is_final=result.is_forbidden)
    if not 200 <= result.status < 300:  # noqa: PLR2004 - the class of success
        is_final = result.status < 500 and result.status not in _TEMPORARY  # noqa: PLR2004 - the classes of failure
        raise ChannelFailed(channel, f"answered {result.status}", is_final=is_final)
    return outgoing.id


def _apprise(channel: Channel, url: str, outgoing: OutgoingMessage) -> None:
    """Send a message through apprise, which returns no message id."""
    try:
        import apprise  # noqa: PLC0415 - an extra, loaded with the first notification that needs it
    except ImportError:
        raise ExtraMissing("apprise", "notify") from None
    _hide_addresses()
    service = apprise.Apprise(asset=apprise.AppriseAsset(app_id="Scheduled Actions", async_mode=False))
    if not service.add(url):
        raise ChannelFailed(channel, "is not a valid apprise URL", is_final=True)
    if network.substitute is not None:
        network.substitute.notify(url, outgoing.message.subject, outgoing.message.text)
        return
    kind = {"urgent": apprise.NotifyType.FAILURE, "high": apprise.NotifyType.WARNING}.get(outgoing.severity or "")
    was_accepted = service.notify(
        title=outgoing.message.subject,
        body=outgoing.message.text,
        notify_type=kind or apprise.NotifyType.INFO,
        body_format=apprise.NotifyFormat.TEXT,
    )
    if not was_accepted:
        raise ChannelFailed(channel, "did not accept the message", is_final=False)


def _hide_addresses() -> None:
    """Silence apprise, and mask paths in the logs of its HTTP client; repeated calls change nothing.

    The filters are not removed, and apply to all threads: apprise sends on its own threads, some of which outlive the
    call.
    """
    logging.getLogger("apprise").addFilter(_drop)
    for name in _HTTP_LOGGERS:
        logging.getLogger(name).addFilter(_mask)


def _drop(_record: logging.LogRecord) -> bool:
    return False


def _mask(record: logging.LogRecord) -> bool:
    record.msg, record.args = _PATH.sub(r"\1/…", record.getMessage()), ()
    return True
