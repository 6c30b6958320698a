"""`email:send`: send one email through the configured SMTP server.

    schedule_action("email:send", {"to": "ann@example.org", "subject": "Welcome", "text": "Hello Ann!"})

Set the server under `[email]` in `scheduled_actions.toml`, the login in the environment variables `SMTP_USERNAME` and
`SMTP_PASSWORD`, and the file of a private certificate authority in `SMTP_CA_FILE`.

A typical handler: a model defines the valid payload, `@action` names the type, and the outcome determines what happens
next.

- The server accepted the message for at least one recipient: the action completes. The result lists the refused
  recipients with the server's replies; they are not tried again, so that no recipient gets the message twice.
- The server refused it permanently (a wrong login, only unknown recipients): `Fail`, without another attempt.
- The server is unavailable: the exception propagates, and the action is retried.

All attempts have the same Message-ID, made from the action's id, so that mail servers can recognize duplicates.
"""

from __future__ import annotations

from dataclasses import asdict
from email.message import EmailMessage
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)

from scheduled_actions import Context, Fail, action, runtime
from scheduled_actions.notifications.channels import mail

if TYPE_CHECKING:
    from scheduled_actions.core.config import Config


def _as_list(given: object) -> object:
    return [given] if isinstance(given, str) else given


#: Header text without line breaks.
Line = Annotated[
    str,
    Field(min_length=1, max_length=998, json_schema_extra={"pattern": r"^[^\r\n]+$"}),
    AfterValidator(mail.one_line),
]
#: `ann@example.org` or `Ann <ann@example.org>`.
Address = Annotated[str, AfterValidator(lambda text: str(mail.parse_address(text)))]
#: One address, or a list of them.
Addresses = Annotated[
    list[Address],
    BeforeValidator(_as_list),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
#: Name of a custom header, or of one that relates the message to a list or a thread.
HeaderName = Annotated[
    str, Field(pattern=r"^((X|List)-[A-Za-z0-9-]{1,70}|Auto-Submitted|In-Reply-To|Precedence|References)$")
]

#: The number of recipients that every server accepts (RFC 5321 §4.5.3.1.8).
MOST_RECIPIENTS = 100


class Email(BaseModel):
    """The payload of `email:send`."""

    model_config = ConfigDict(extra="forbid")

    to: Annotated[Addresses, Field(min_length=1)]
    subject: Line
    #: The plain-text body; required, for clients that do not show HTML.
    text: Annotated[str, Field(json_schema_extra={"contentMediaType": "text/plain"})]
    html: Annotated[str, Field(json_schema_extra={"contentMediaType": "text/html"})] | None = None
    cc: Addresses = []
    bcc: Addresses = []
    reply_to: Address | None = None
    headers: Annotated[dict[HeaderName, Line], Field(max_length=20)] = {}

    @model_validator(mode="after")
    def _few_enough(self) -> Self:
        if len(self.to) + len(self.cc) + len(self.bcc) > MOST_RECIPIENTS:
            message = f"to, cc and bcc contain more than {MOST_RECIPIENTS} recipients in total"
            raise ValueError(message)
        return self


@action("email:send", timeout_seconds=15, max_attempts=5, description="Send one email")
def send_email(payload: Email, context: Context) -> dict[str, Any]:
    """Send the email; return `{"message_id", "accepted": number of recipients, "refused": {address: reply}}`."""
    return deliver(payload, context, runtime.current().config)


def deliver(payload: Email, context: Context, config: Config) -> dict[str, Any]:
    """Send the email through the configured server, within the remaining time of the attempt.

    Raises:
        Fail: The server refused the email permanently.
        MailDeferred: The server is unavailable, or refused the email temporarily.
        NotConfigured, ConfigInvalid, InvalidArgument: The server, the sender or the login is missing or invalid.
    """
    try:
        sent = mail.submit(compose(payload), config, name=str(context.id), timeout=context.seconds_left)
    except mail.MailRefused as error:
        raise Fail(str(error)) from error
    return asdict(sent)


def compose(payload: Email) -> EmailMessage:
    """Convert a payload to an email message."""
    message = EmailMessage()
    for name, addresses in (("To", payload.to), ("Cc", payload.cc), ("Bcc", payload.bcc)):
        if addresses:
            message[name] = ", ".join(addresses)
    message["Subject"] = payload.subject
    if payload.reply_to:
        message["Reply-To"] = payload.reply_to
    for name, value in payload.headers.items():
        message[name] = value
    message.set_content(payload.text)
    if payload.html is not None:
        message.add_alternative(payload.html, subtype="html")
    return message
