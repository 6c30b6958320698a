"""`webhooks`: the endpoints, what was delivered to them, and a receiver to try things with."""

from __future__ import annotations

import click

from scheduled_actions.cli.group import LazyGroup

_COMMANDS = {
    "endpoints": ("scheduled_actions.cli.webhooks.endpoints:endpoints", "List, make and change endpoints."),
    "deliveries": ("scheduled_actions.cli.webhooks.deliveries:deliveries", "See deliveries, and send them again."),
    "listen": ("scheduled_actions.cli.webhooks.listen:listen", "Receive, verify and print webhooks on this machine."),
}


@click.group(cls=LazyGroup, later=_COMMANDS)
def webhooks() -> None:
    """See to webhooks: who gets which events, what became of each delivery, and a receiver to try things with."""
