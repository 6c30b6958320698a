"""`for_each:run`: schedule an action for each row of a query, once per row or per period.

    schedule_recurring_action(
        "for_each:run",
        {"query": "open_carts", "action_type": "email:send", "key": "cart", "again_after_seconds": 604800},
        "every hour",
    )

The query is one of `[queries]` in scheduled_actions.toml, and its columns are the payload of each action:

    [queries.open_carts]
    sql = '''select id as cart, email as "to", 'open_cart' as template from carts where not ordered'''

The key is left out of the payload if the handler's model forbids it: `email:send` has no field `cart`. The handled rows
and the actions are stored in one transaction: a crash at any instant neither loses nor repeats an action.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from scheduled_actions import Context, Fail, action, runtime
from scheduled_actions.actions.for_each import schedule_rows
from scheduled_actions.core.errors import RequestError
from scheduled_actions.core.requester import AddressReach


class ForEachPayload(BaseModel):
    """The payload of `for_each:run`."""

    model_config = ConfigDict(extra="forbid")

    #: Name of a query in `[queries]`.
    query: str
    #: Type of the actions; the payload of each is a row, with its columns as fields.
    action_type: str
    #: The column that identifies a row; not part of the payload if the handler's model forbids it.
    key: str
    #: Parameters of the query.
    parameters: dict[str, str | int | float | bool | None] = {}
    #: Maximum number of rows in this run; the next run continues with the remaining rows.
    limit: Annotated[int, Field(ge=1, le=10_000)] = 1_000
    #: Seconds after which a row with the same key is scheduled again; None: never.
    again_after_seconds: Annotated[float, Field(gt=0, le=366 * 86400)] | None = None
    #: Scope of the keys; None: the query and the action type.
    name: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    #: Arguments of `schedule_action` for each action, such as `priority` or `lock_group`.
    options: dict[str, Any] = {}
    #: Which addresses the actions may use if an API token scheduled this one; None: application code scheduled it.
    reach: AddressReach | None = None


@action("for_each:run", transactional=True, description="Schedule an action for each row of a query, once")
def run(payload: ForEachPayload, context: Context) -> dict[str, Any]:
    """Schedule the actions; return `{"scheduled": count, "refused": count, "more": whether rows may be left}`.

    The first `reasons` are added if rows were refused.

    Raises:
        Fail: The query, the action type or another argument is invalid.
        HandlerBroken: The handler of the actions cannot be loaded.
        TimeoutError: The query exceeded its time limit.
        psycopg.Error: The database rejected the query.
    """
    try:
        return schedule_rows(
            runtime.current().scheduler,
            **payload.model_dump(),
            team_id=context.action.team_id,
            connection=context.connection,
        )
    except RequestError as error:
        raise Fail(str(error)) from error
