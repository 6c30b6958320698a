"""List executors from application code, with the runtime of the process."""

from scheduled_actions import runtime
from scheduled_actions.core.messages import suggests_keywords
from scheduled_actions.executors.model import ExecutorState


@suggests_keywords
def list_executors() -> list[ExecutorState]:
    """Return the executors in the database, by name, with their queues and the workers seen lately."""
    return runtime.current().executors.find()
