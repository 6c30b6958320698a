"""What the ticks of one process share."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scheduled_actions.tick_plan import Pace

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduled_actions.config import Settings
    from scheduled_actions.handler import Prepare
    from scheduled_actions.maintenance import Maintenance
    from scheduled_actions.registry import Registry
    from scheduled_actions.runner import Runner
    from scheduled_actions.store.connection import Database


@dataclass(slots=True, kw_only=True, eq=False)
class Process:
    """What the ticks of one process share."""

    database: Database
    registry: Registry
    settings: Settings
    maintenance: Maintenance
    #: Validates follow-ups.
    prepare: Prepare
    #: Seconds that never go back.
    monotonic: Callable[[], float]
    runner: Runner
    pace: Pace = field(default_factory=Pace)
    #: Set once nothing more is to be started.
    is_stopping: threading.Event = field(default_factory=threading.Event)
    had_first_tick: bool = False

    @property
    def is_exhausted(self) -> bool:
        """Whether handlers that never returned hold every thread: only a new process can work again."""
        return self.runner.capacity <= 0
