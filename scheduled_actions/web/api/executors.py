"""List the executors and their workers."""

from http import HTTPStatus

from scheduled_actions.executors.model import WORKERS_MOST, ExecutorState, SeenWorker
from scheduled_actions.web.api.models import EmptyRequest, ResponseModel, shares_fields
from scheduled_actions.web.api.routing import Answer, Call, Route


@shares_fields(
    SeenWorker,
    name="Host and process id.",
    concurrency="Number of actions that it runs at the same time.",
    running="Number of actions that it runs now.",
    started_at=None,
    seen_at="When it last wrote to the database: when it takes actions over, and at least once a minute.",
    last_taken_at="When it last took actions over; null: never.",
)
class SeenWorkerDocument(ResponseModel):
    """A worker that was seen within the last two minutes and has not ended."""


@shares_fields(
    ExecutorState,
    name=None,
    types="Action types, and prefixes of types followed by `*`. Empty: the executor was removed, and its queue returns "
    "to the ticks.",
    carrier="How actions reach the workers: `postgres`, `celery` or `sqs`.",
    untaken="Number of claimed actions that no worker has taken over, counted up to 10,000; with a broker, its untaken "
    "tickets.",
    oldest_untaken_at="When the oldest of them was claimed; null without any.",
    due="Number of due actions that are not claimed, counted up to 10,000.",
    queued="Number of due actions that are in the queues of limit keys, counted up to 10,000.",
    oldest_due_at="When the oldest due action became due; null without due actions.",
    running="Number of actions that its workers run.",
    workers="Number of workers that were seen within the last two minutes and have not ended.",
    is_attended="Whether a worker was seen within the last two minutes, also one that has ended, such as that of a "
    "ping.",
    last_taken_at="When a worker last took actions over; null if none of the last day's workers did.",
    last_seen_at="When a worker was last seen; null: not within the last day.",
)
class ExecutorDocument(ResponseModel):
    """An executor and its workers."""

    seen_workers: list[SeenWorkerDocument]


class ExecutorList(ResponseModel):
    """The executors in the database, by name."""

    executors: list[ExecutorDocument]


def list_executors(call: Call[EmptyRequest, EmptyRequest]) -> Answer:
    """Return the executors, by name."""
    call.caller.must_have_no_team("executors belong to no team")
    return Answer(ExecutorList.model_validate({"executors": call.runtime.executors.find()}))


ROUTES = (
    Route(
        "GET", "/executors", list_executors, "List executors and their workers", tag="Installation",
        description=f"Lists at most {WORKERS_MOST} workers of each executor, the oldest first. The token must not be "
        "bound to a team.",
        answers={HTTPStatus.OK: (ExecutorList, "The executors.")},
    ),
)  # fmt: skip
