"""Keeps secret addresses out of the logs of the libraries that are given them."""

from __future__ import annotations

import logging
import re

#: What apprise posts with; at DEBUG it logs the path of each request, which for many services is the secret.
_CLIENTS = ("requests", "urllib3.connection", "urllib3.connectionpool", "urllib3.util.retry")
#: A path and its query: behind a host, or on its own.
_PATH = re.compile(r"""(https?://[^/\s"']+|(?<=[\s"'(]))/[^\s"')]*""")


def hide_addresses() -> None:
    """Silence apprise, and mask paths in what its HTTP client logs, from now on; doing so again changes nothing.

    For good and on every thread: apprise sends on threads of its own, some of which outlive the call.
    """
    logging.getLogger("apprise").addFilter(_is_dropped)
    for name in _CLIENTS:
        logging.getLogger(name).addFilter(_masked)


def _is_dropped(_record: logging.LogRecord) -> bool:
    return False


def _masked(record: logging.LogRecord) -> bool:
    record.msg, record.args = _PATH.sub(r"\1/…", record.getMessage()), ()
    return True
