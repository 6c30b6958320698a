"""What pages call an endpoint, and how it does."""

from __future__ import annotations

from typing import Any


def name_of(endpoint: Any) -> str:  # noqa: ANN401 - an endpoint as the API tells it
    """Return how people know an endpoint: by its name in the file, or by its host."""
    if endpoint.source == "file" or endpoint.place is None:
        return str(endpoint.id)
    return str(endpoint.place).removesuffix(":443")


def state_of(endpoint: Any) -> str:  # noqa: ANN401 - as above
    """Return how an endpoint does: `disabled`, `off`, `failing` or `healthy`."""
    if endpoint.disabled_at is not None:
        return "disabled"
    if not endpoint.enabled:
        return "off"
    return "healthy" if endpoint.failing_since is None else "failing"
