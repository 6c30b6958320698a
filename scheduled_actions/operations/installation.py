"""The parts of an installation that `explain`, `doctor` and `/readyz` need; `Runtime` provides them."""

from typing import Protocol

from scheduled_actions.core.config import Config
from scheduled_actions.database.connection import Database
from scheduled_actions.registry import Registry
from scheduled_actions.ticks.worker_state import WorkerState
from scheduled_actions.webhooks.endpoints.directory import EndpointDirectory


class Installation(Protocol):
    """One project in this process."""

    config: Config

    @property
    def registry(self) -> Registry:
        """The handlers of this build."""

    @property
    def database(self) -> Database:
        """Connections to the project's database."""

    @property
    def endpoint_directory(self) -> EndpointDirectory:
        """The webhook endpoints in scheduled_actions.toml and in the database."""

    @property
    def heartbeat_url(self) -> str:
        """Address that heartbeats are sent to; empty if none are sent."""

    @property
    def worker_state(self) -> WorkerState | None:
        """State shared by the ticks of this process; None before the first tick."""
