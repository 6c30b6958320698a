"""`email:send`: send one email through the configured SMTP server.

    schedule_action("email:send", {"to": "ann@example.org", "subject": "Welcome", "text": "Hello Ann!"})
    schedule_action("email:send", {"to": "ann@example.org", "template": "welcome", "data": {"name": "Ann"}})

The second mail is `templates/welcome.txt`, whose first line is `Subject: …`, and the HTML part `templates/welcome.html`
if it exists. Templates have the values `data` and `parent`, the action that this one follows.

Set the server under `[email]` in `scheduled_actions.toml`, the login in the environment variables `SMTP_USERNAME` and
`SMTP_PASSWORD`, and the file of a private certificate authority in `SMTP_CA_FILE`.

A typical handler: a model defines the valid payload, `@action` names the type, and the outcome determines what happens
next.

- The server accepted the message for at least one recipient: the action completes. The result lists the refused
  recipients with the server's replies; they are not tried again, so that no recipient gets the message twice.
- The server refused it permanently (a wrong login, only unknown recipients), or the template cannot be rendered:
  `Fail`, without another attempt.
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
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticKnownError

from scheduled_actions import Context, Fail, action, runtime
from scheduled_actions.notifications.channels import mail, templates
from scheduled_actions.notifications.rules.reminder import Message

if TYPE_CHECKING:
    from scheduled_actions.core.config import Config


def _as_list(given: object) -> object:
    return [given] if isinstance(given, str) else given


def _known_template(name: str) -> str:
    known = templates.mail_templates(runtime.current().config.project)
    if name not in known:
        # Errors of payloads name no values, so this one names what would be valid.
        raise PydanticKnownError("literal_error", {"expected": templates.describe_mail_templates(known)})
    return name


def _has_no_template(info: ValidationInfo) -> bool:
    """Return whether the payload has no template; False if it has one that was refused."""
    return "template" in info.data and info.data["template"] is None


def _unless_template(given: str | None, info: ValidationInfo) -> str | None:
    if given is None and _has_no_template(info):
        raise PydanticKnownError("missing")
    return given


def _without_template(given: str | None, info: ValidationInfo) -> str | None:
    if given is not None and info.data.get("template") is not None:
        raise ValueError("is part of the template: leave it out, or leave the template out")
    return given


def _for_template(given: dict[str, Any] | None, info: ValidationInfo) -> dict[str, Any] | None:
    if given is not None and _has_no_template(info):
        raise ValueError("is for a template: name one, or leave the data out")
    return given


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
    #: `welcome` for `templates/welcome.txt` and, if it exists, `templates/welcome.html`; instead of `text` and `html`.
    template: Annotated[
        Annotated[str, AfterValidator(_known_template)] | None,
        Field(description="Name of a file in templates/ without its ending, instead of text and HTML"),
    ] = None
    #: The values that the template reads as `data`.
    data: Annotated[dict[str, Any] | None, AfterValidator(_for_template)] = None
    #: Replaces the subject of the template; required without a template.
    subject: Annotated[Line | None, AfterValidator(_unless_template), Field(validate_default=True)] = None
    #: The plain-text body for clients that do not show HTML; required without a template.
    text: Annotated[
        Annotated[str, Field(json_schema_extra={"contentMediaType": "text/plain"})] | None,
        AfterValidator(_unless_template),
        AfterValidator(_without_template),
        Field(validate_default=True),
    ] = None
    html: Annotated[
        Annotated[str, Field(json_schema_extra={"contentMediaType": "text/html"})] | None,
        AfterValidator(_without_template),
    ] = None
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
        Fail: The server refused the email permanently, or the template cannot be rendered.
        MailDeferred: The server is unavailable, or refused the email temporarily.
        DatabaseUnavailable: The parent of the action cannot be read for the template.
        NotConfigured, ConfigInvalid, InvalidArgument: The server, the sender or the login is missing or invalid.
    """
    try:
        content = content_of(payload, context, config)
    except templates.TemplateBroken as error:
        raise Fail(error.details) from error
    try:
        sent = mail.submit(compose(payload, content), config, name=str(context.id), timeout=context.seconds_left)
    except mail.MailRefused as error:
        raise Fail(str(error)) from error
    return asdict(sent)


def content_of(payload: Email, context: Context, config: Config) -> Message:
    """Return the subject, the text and the HTML of a payload.

    Raises:
        TemplateBroken: The template cannot be rendered.
        DatabaseUnavailable: The parent of the action cannot be read.
    """
    if payload.template is None:
        return Message(payload.subject or "", payload.text or "", payload.html)
    values = {"data": payload.data or {}, "parent": context.parent}
    return templates.render_mail(payload.template, values, project=config.project, subject=payload.subject)


def compose(payload: Email, content: Message) -> EmailMessage:
    """Build the email message of a payload with this content."""
    message = EmailMessage()
    for name, addresses in (("To", payload.to), ("Cc", payload.cc), ("Bcc", payload.bcc)):
        if addresses:
            message[name] = ", ".join(addresses)
    message["Subject"] = content.subject
    if payload.reply_to:
        message["Reply-To"] = payload.reply_to
    for name, value in payload.headers.items():
        message[name] = value
    message.set_content(content.text)
    if content.html is not None:
        message.add_alternative(content.html, subtype="html")
    return message
