"""Store and read the mails that `scheduled-actions dev` catches, as `.eml` files in the project's directory.

Their number and their size together are limited; the newest are kept.
"""

import email.policy
import os
import re
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.message import EmailMessage, MIMEPart
from email.parser import BytesParser
from pathlib import Path

from scheduled_actions.core.config import Config

#: The directory of the mails in the project.
DIRECTORY = ".scheduled_actions/mail"
#: The largest mail in bytes; the server refuses larger ones.
MAIL_BYTES = 10_000_000
#: Maximum number of mails that are kept, and of their bytes together.
_MAILS_MOST, _BYTES_MOST = 200, 100_000_000
#: The header in which the recipients of the envelope are stored, because Bcc is not sent as a header.
_RECIPIENTS = "X-Envelope-To"
#: When a mail was caught, in UTC, and random digits.
_ID = re.compile(r"([0-9]{8}T[0-9]{12})-[0-9a-f]{8}")
_TIME = "%Y%m%dT%H%M%S%f"
#: Maximum number of characters of a part or a header that is shown.
_TEXT_MOST, _HEADER_MOST = 200_000, 2_000
#: How much of a mail is read for its headers.
_HEADERS_BYTES = 16_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CaughtMail:
    """A mail that was caught."""

    id: str
    caught_at: datetime
    sender: str
    #: The recipients of the envelope, Bcc included.
    recipients: str
    subject: str
    #: All headers of the mail, in order.
    headers: tuple[tuple[str, str], ...] = ()
    #: The plain text and the HTML; None without such a part.
    text: str | None = None
    html: str | None = None
    #: The names of the other parts.
    attachments: tuple[str, ...] = ()


def directory_of(config: Config) -> Path | None:
    """Return the directory of the caught mails; None if mails are not caught here, and always in production."""
    path = config.project / DIRECTORY
    return None if config.is_production or config.settings.email.host or not path.is_dir() else path


def store(directory: Path, content: bytes, recipients: Sequence[str], *, now: datetime) -> CaughtMail:
    """Store a mail, delete the oldest beyond the limits, and return the mail without its parts.

    Raises:
        OSError: The mail cannot be written.
    """
    mail_id = f"{now.astimezone(UTC).strftime(_TIME)}-{secrets.token_hex(4)}"
    unfinished, path = directory / f"{mail_id}.new", directory / f"{mail_id}.eml"
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(f"{_RECIPIENTS}: {', '.join(recipients)}\r\n".encode(errors="replace") + content)
    unfinished.replace(path)
    total = 0
    for number, one in enumerate(_newest_first(directory)):
        total += one.stat().st_size
        if number and (number >= _MAILS_MOST or total > _BYTES_MOST):
            one.unlink()
    return _summary(mail_id, _parsed(path.read_bytes()))


def newest(directory: Path) -> list[CaughtMail]:
    """Return the mails without their parts, the newest first."""
    found = []
    for path in _newest_first(directory):
        with suppress(FileNotFoundError), path.open("rb") as file:  # `dev` may have deleted it meanwhile.
            found.append(_summary(path.stem, _parsed(file.read(_HEADERS_BYTES))))
    return found


def read(directory: Path, mail_id: str) -> CaughtMail | None:
    """Return a mail with its headers and parts; None if there is none with this id."""
    if not _ID.fullmatch(mail_id):
        return None
    try:
        message = _parsed((directory / f"{mail_id}.eml").read_bytes())
    except FileNotFoundError:
        return None
    parts = [part for part in message.walk() if not part.is_multipart()]
    text, html = (message.get_body((kind,)) for kind in ("plain", "html"))
    return replace(
        _summary(mail_id, message),
        headers=tuple((name, _header(message, name)) for name in dict.fromkeys(message.keys()) if name != _RECIPIENTS),
        text=None if text is None else _content(text),
        html=None if html is None else _content(html),
        attachments=tuple(
            str(part.get_filename() or part.get_content_type()) for part in parts if part not in {text, html}
        ),
    )


def _newest_first(directory: Path) -> list[Path]:
    return sorted((path for path in directory.glob("*.eml") if _ID.fullmatch(path.stem)), reverse=True)


def _parsed(content: bytes) -> EmailMessage:
    return BytesParser(EmailMessage, policy=email.policy.default).parsebytes(content)


def _summary(mail_id: str, message: EmailMessage) -> CaughtMail:
    return CaughtMail(
        id=mail_id,
        caught_at=datetime.strptime(mail_id.partition("-")[0], _TIME).replace(tzinfo=UTC),
        sender=_header(message, "From"),
        recipients=_header(message, _RECIPIENTS),
        subject=_header(message, "Subject"),
    )


def _header(message: EmailMessage, name: str) -> str:
    """Return a header on one line; empty if the mail has none."""
    try:
        text = str(message.get(name, ""))
    except Exception:  # noqa: BLE001 - the library's parser raises various errors for malformed headers
        text = "(malformed)"
    return " ".join(text.split())[:_HEADER_MOST]


def _content(part: MIMEPart) -> str:
    """Return the text of a part, whatever its charset."""
    content = part.get_payload(decode=True)
    content = content if isinstance(content, bytes) else b""
    try:
        text = content.decode(part.get_content_charset("utf-8"), "replace")
    except LookupError:
        text = content.decode("utf-8", "replace")
    return text.replace("\r\n", "\n")[:_TEXT_MOST]
