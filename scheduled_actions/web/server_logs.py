"""Masks our secrets in the logs of web servers, which repeat the paths of requests: that of a feed holds one."""

from __future__ import annotations

import logging
import re

#: Loggers of gunicorn, and of Flask's development server.
_LOGGERS = ("gunicorn.error", "gunicorn.access", "werkzeug")
#: A token or the secret of a feed: its prefix and first characters are known as its hint.
_SECRET = re.compile(r"\b(sa[tf]_[A-Za-z0-9_-]{4})[A-Za-z0-9_-]{30,}")


def mask_secrets() -> None:
    """Mask tokens and feed secrets in what servers log from now on; doing so again changes nothing."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_masked)


def _masked(record: logging.LogRecord) -> bool:
    text = record.getMessage()
    if _SECRET.search(text):
        record.msg, record.args = _SECRET.sub(r"\1…", text), ()
    return True
