"""A project that delivers webhooks, for tests: its handler, its database, and the bodies that its receivers got."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cryptography.fernet import Fernet

from handlers import webhook
from scheduled_actions import runtime
from scheduled_actions.core import config
from scheduled_actions.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from scheduled_actions.runtime import Runtime
    from tests.webhooks.wire import Wire

#: The encryption key of every project in these tests.
ENCRYPTION_KEY = Fernet.generate_key().decode()
#: The URL of the default receiver.
URL = "https://receiver.example/hook"


@contextmanager
def webhook_project(
    directory: Path, database_url: str, *handlers: Callable[..., Any], toml: str = "", **environ: str
) -> Iterator[Runtime]:
    """Yield the runtime of a project with the handler `webhook:send`, and make it the runtime of this process."""
    (directory / "scheduled_actions.toml").write_text(f"concurrency = 2\n{toml}", encoding="utf-8")
    values = {"DATABASE_URL": database_url, "SCHEDULED_ACTIONS_ENCRYPTION_KEY": ENCRYPTION_KEY, **environ}
    made = runtime.Runtime(config.load(directory, values), registry=Registry.of(webhook.send, *handlers))
    before = runtime.use(made)
    try:
        yield made
    finally:
        runtime.use(before)
        made.close()


def bodies(wire: Wire, url: str = URL) -> list[dict[str, Any]]:
    """Return the JSON bodies that were posted to a URL, in order."""
    return [json.loads(call.body) for call in wire.calls if call.url == url]
