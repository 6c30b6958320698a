"""Give a process with this on its path a wrong clock: `PROOF_CLOCK_WRONG_BY` seconds ahead; negative: behind.

The monotonic clock (`time.monotonic`) stays right, as on a machine with a wrong clock.
"""

from __future__ import annotations

import datetime as dt
import os
import time
from typing import Any

WRONG_BY = float(os.environ["PROOF_CLOCK_WRONG_BY"])
_time, _time_ns = time.time, time.time_ns
_Datetime = dt.datetime


class _Type(type):
    """Treats every datetime as an instance, because libraries written in C still create real ones."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _Datetime)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, _Datetime)


class _WrongDatetime(dt.datetime, metaclass=_Type):
    @classmethod
    def now(cls, tz: dt.tzinfo | None = None) -> Any:
        return _Datetime.fromtimestamp(time.time(), tz)

    @classmethod
    def utcnow(cls) -> Any:
        return cls.now(dt.UTC).replace(tzinfo=None)


time.time = lambda: _time() + WRONG_BY
time.time_ns = lambda: _time_ns() + round(WRONG_BY * 1e9)
dt.datetime = _WrongDatetime  # type: ignore[misc]  # the point of it
