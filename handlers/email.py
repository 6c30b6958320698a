"""`email:send`: one email through the SMTP server of the settings.

    schedule_action("email:send", {"to": "ann@example.org", "subject": "Welcome", "text": "Hello Ann!"})

The server is set in `scheduled_actions.toml` under `[email]`; the login comes from `SMTP_USERNAME` and
`SMTP_PASSWORD`, the file of a private certificate authority from `SMTP_CA_FILE`.

A handler like most: a model says what is valid, `@action` names the type, and what the function answers
decides how it goes on.

- The server took the message for at least one recipient: done. The result lists those it refused, and its
  words; they are not tried again, so that nobody gets the message twice.
- It refused for good (a wrong login, only unknown recipients): `Fail`, and no further attempt.
- Not now, or no connection: the exception is left alone, and the action is retried.

Every attempt carries the same Message-ID, made of the action's id, so that a second copy can be told as one.
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


#: Text that can stand in a header and cannot begin another one.
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
#: A header of one's own, or one that says how the message belongs to a list or a thread.
HeaderName = Annotated[
    str, Field(pattern=r"^((X|List)-[A-Za-z0-9-]{1,70}|Auto-Submitted|In-Reply-To|Precedence|References)$")
]

#: What every server takes for one message (RFC 5321 §4.5.3.1.8).
MOST_RECIPIENTS = 100


class Email(BaseModel):
    """What is sent, and to whom."""

    model_config = ConfigDict(extra="forbid")

    to: Annotated[Addresses, Field(min_length=1)]
    subject: Line
    #: The body; always there, for those who cannot or will not read HTML.
    text: Annotated[str, Field(json_schema_extra={"contentMediaType": "text/plain"})]
    html: Annotated[str, Field(json_schema_extra={"contentMediaType": "text/html"})] | None = None
    cc: Addresses = []
    bcc: Addresses = []
    reply_to: Address | None = None
    headers: Annotated[dict[HeaderName, Line], Field(max_length=20)] = {}

    @model_validator(mode="after")
    def _few_enough(self) -> Self:
        if len(self.to) + len(self.cc) + len(self.bcc) > MOST_RECIPIENTS:
            message = f"to, cc and bcc name more than {MOST_RECIPIENTS} recipients"
            raise ValueError(message)
        return self


@action("email:send", timeout_seconds=15, max_attempts=5, description="Send one email")
def send_email(payload: Email, context: Context) -> dict[str, Any]:
    """Send it; the result is `{"message_id", "accepted": how many, "refused": {address: the reply}}`."""
    return deliver(payload, context, runtime.current().config)


def deliver(payload: Email, context: Context, config: Config) -> dict[str, Any]:
    """Send it as `config` says, within the time that is left to the attempt."""
    try:
        sent = mail.submit(compose(payload), config, name=str(context.id), timeout=context.seconds_left)
    except mail.MailRefused as error:
        raise Fail(str(error)) from error
    return asdict(sent)


def compose(payload: Email) -> EmailMessage:
    """Return the message as far as the payload says it."""
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
