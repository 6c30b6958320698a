"""Record which modules of the package run code, in the order of their first call, on all threads."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_PACKAGE = "scheduled_actions"


class ModuleTrace:
    """Record the modules that run code between `start` and `stop`."""

    def __init__(self) -> None:
        self._is_recording = False
        self._last_statement: str | None = None
        #: In the order of their first call.
        self._modules: dict[str, None] = {}

    def start(self, *, last_statement: str | None = None) -> None:
        """Clear the recorded modules and start recording.

        Args:
            last_statement: Stop recording after a statement that contains this text was executed.
        """
        self._modules.clear()
        self._last_statement = last_statement
        self._is_recording = True

    def stop(self) -> list[str]:
        """Return the names of the modules, in the order of their first call."""
        self._is_recording = False
        return list(self._modules)

    def record(self, frame: FrameType, event: str, _argument: object) -> None:
        """Handle an event of the interpreter's profiler."""
        if not self._is_recording:
            return
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.partition(".")[0] == _PACKAGE:
            self._modules.setdefault(module)
        elif event == "return" and self._is_last(frame, module):
            self._is_recording = False

    def _is_last(self, frame: FrameType, module: str) -> bool:
        if self._last_statement is None or (module, frame.f_code.co_name) != ("psycopg.cursor", "execute"):
            return False
        return self._last_statement in str(frame.f_locals["query"])


@contextmanager
def module_trace() -> Iterator[ModuleTrace]:
    """Yield a trace of this thread and of all threads started within the block."""
    trace, before = ModuleTrace(), sys.getprofile()
    threading.setprofile(trace.record)
    sys.setprofile(trace.record)
    try:
        yield trace
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
