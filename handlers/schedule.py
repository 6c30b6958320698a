"""`schedule:apply`: apply a call of the SQL function `schedule_recurring_action`.

The SQL function schedules it; do not schedule it yourself.
"""

from __future__ import annotations

from typing import Any

from scheduled_actions import Exponential, Skip, action, runtime
from scheduled_actions.schedules.handlers import AppliedSchedule, apply


@action(
    "schedule:apply", max_attempts=10, retry=Exponential(5, 3600), description="Apply a schedule that SQL has requested"
)
def apply_schedule(payload: AppliedSchedule) -> Skip | dict[str, Any]:
    """Create or update the schedule, and return `{"schedule_id"}`.

    Returns `Skip` if the schedule was deleted, or if the call has been applied already.
    """
    return apply(runtime.current().schedules, payload.schedule_id)
