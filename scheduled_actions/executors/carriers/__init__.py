"""Carriers: the brokers that carry tickets to workers; a module is imported only if an executor uses its broker."""

from collections.abc import Mapping, Sequence
from enum import Enum
from importlib import import_module
from typing import Any, Protocol

from scheduled_actions.core.config import Executor
from scheduled_actions.executors.tickets import TicketMessage

#: Maximum time of a connection attempt, and of one answer of the broker, in seconds.
CONNECT_SECONDS, ANSWER_SECONDS = 3.0, 5.0


class SendOutcome(Enum):
    """What became of a message."""

    #: The broker has confirmed it.
    SENT = "sent"
    #: The broker certainly does not have it: its actions are released at once.
    REFUSED = "refused"
    #: The broker may have it: its actions are released when their leases end, unless a worker takes them over.
    UNKNOWN = "unknown"


class CarrierUnavailable(Exception):
    """The broker cannot be reached, or is not configured; the message says why, without a password."""


class Carrier(Protocol):
    """Sends messages to the workers of one executor. Used by one thread at a time."""

    def open(self) -> None:
        """Connect to the broker unless connected, within `CONNECT_SECONDS`.

        Raises:
            CarrierUnavailable: The broker cannot be reached or is not configured; nothing can be sent.
        """

    def send(self, messages: Sequence[TicketMessage]) -> Sequence[SendOutcome]:
        """Send messages; return what became of each, in the same order. Called after `open`; raises nothing.

        Args:
            messages: At least one.
        """

    def close(self) -> None:
        """Close the connection; `open` connects again."""


def build_carrier(name: str, executor: Executor, environ: Mapping[str, str]) -> Carrier:
    """Return the carrier of an executor that uses a broker.

    Args:
        name: The name of the executor.
        executor: Its settings.
        environ: Contains the address of the broker.

    Raises:
        ExtraMissing: The library of the broker is not installed.
    """
    carrier: Any = import_module(f"{__name__}.{executor.carrier}")
    built: Carrier = carrier.build(name, executor, environ)
    return built
