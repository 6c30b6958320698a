"""`webhooks`: manage endpoints and deliveries, and receive webhooks on this machine."""

from scheduled_actions.cli.group import LazyGroup

webhooks = LazyGroup(
    "webhooks",
    help="Manage webhook endpoints and deliveries, or receive webhooks on this machine.",
    lazy_commands={
        "endpoints": ("scheduled_actions.cli.webhooks.endpoints:endpoints", "Create, change and test endpoints."),
        "deliveries": ("scheduled_actions.cli.webhooks.deliveries:deliveries", "List deliveries, and resend them."),
        "listen": (
            "scheduled_actions.cli.webhooks.listen:listen",
            "Receive, verify and print webhooks on this machine.",
        ),
    },
)
