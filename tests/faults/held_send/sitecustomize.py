"""Let a process with this on its path stop between the claim, which is committed, and the message with the tickets."""

from __future__ import annotations

import time

from scheduled_actions.executors.carriers import celery

celery.CeleryCarrier.send = lambda *_: time.sleep(3600)  # type: ignore[method-assign,return-value]
