"""What a notice says, as a value."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: The longest subject kept, in characters.
SUBJECT_LIMIT = 200
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


@dataclass(frozen=True, slots=True)
class Message:
    """Words for one person."""

    #: One line.
    subject: str
    #: For every channel.
    text: str
    #: For channels that can show it; None: the text alone.
    html: str | None = None


def one_line(text: str) -> str:
    """Return a text as a subject may hold it: one line, no encoded word, no longer than the limit."""
    line = " ".join(_UNPRINTABLE.sub(" ", text).split()).replace("=?", "= ?")
    return line if len(line) <= SUBJECT_LIMIT else f"{line[: SUBJECT_LIMIT - 1]}…"
