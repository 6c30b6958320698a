"""Testing: the test kit behind the pytest plugin.

`docs/how-to/test-your-application.md` shows how to use it. The fixtures are in `pytest_scheduled_actions`, outside this
package, so that a test run without the fixtures does not import the package.
"""

from scheduled_actions.testing.clock import Clock
from scheduled_actions.testing.kit import Kit
from scheduled_actions.testing.network import CapturedNotice, CapturedWebhook, CapturedWebhooks

__all__ = ["CapturedNotice", "CapturedWebhook", "CapturedWebhooks", "Clock", "Kit"]
