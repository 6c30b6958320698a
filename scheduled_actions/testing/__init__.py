"""Testing: the test kit behind the pytest plugin.

`docs/how-to/test-your-application.md` shows it at work. The fixtures themselves stand in `pytest_scheduled_actions`,
outside this package, so that a pytest that does not use them imports nothing of it.
"""

from __future__ import annotations

from scheduled_actions.testing.captured import CapturedWebhook, CapturedWebhooks
from scheduled_actions.testing.clock import Clock
from scheduled_actions.testing.kit import Kit
from scheduled_actions.testing.network import CapturedNotice

__all__ = ["CapturedNotice", "CapturedWebhook", "CapturedWebhooks", "Clock", "Kit"]
