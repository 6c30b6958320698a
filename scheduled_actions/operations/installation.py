"""What `explain`, `doctor` and `/readyz` look at: the parts of one project, as `Runtime` has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from scheduled_actions.core.config import Config
    from scheduled_actions.database.connection import Database
    from scheduled_actions.registry import Registry
    from scheduled_actions.ticks.worker_state import Process
    from scheduled_actions.webhooks.endpoints.registry import EndpointBook


class Installation(Protocol):
    """The parts of one project in this process."""

    config: Config

    @property
    def registry(self) -> Registry:
        """The handlers of this build."""

    @property
    def database(self) -> Database:
        """The way to the project's database."""

    @property
    def endpoint_book(self) -> EndpointBook:
        """The webhook endpoints."""

    @property
    def has_heartbeat(self) -> bool:
        """Whether good ticks are reported to an address."""

    @property
    def heartbeat_url(self) -> str:
        """That address."""

    @property
    def worker_state(self) -> Process | None:
        """What the ticks of this process share; None before the first tick."""
