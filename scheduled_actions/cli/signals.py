"""How commands that go on for a while end."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType


@contextmanager
def stopping_early(stop: Callable[[], object]) -> Iterator[None]:
    """Let the first signal to end stop the work in order, and the second one have its usual way."""
    if threading.current_thread() is not threading.main_thread():
        # Signals are the main thread's; whoever runs commands in another one sees to them.
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def on_signal(number: int, frame: FrameType | None) -> None:
        del number, frame
        # First: the next signal may follow at once upon what this one tells.
        restore()
        stop()

    for number in numbers:
        signal.signal(number, on_signal)
    try:
        yield
    finally:
        restore()
