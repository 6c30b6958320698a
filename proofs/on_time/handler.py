"""Handler of the proof: records each run on a separate connection."""

from __future__ import annotations

import os
import threading
from typing import Any

import psycopg

from scheduled_actions import Context, action

_own = threading.local()


@action("proof:run")
def run(payload: dict[str, Any], context: Context) -> None:
    """Insert a row for each run."""
    del payload
    if not hasattr(_own, "connection"):
        _own.connection = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)
    _own.connection.execute("insert into runs (action_id) values (%s)", [context.id])
