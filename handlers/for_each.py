"""`for_each:run`: an action for each row of a query, once.

    schedule_recurring_action(
        "for_each:run",
        {"query": "open_carts", "action_type": "email:send", "key": "cart", "again_after_seconds": 604800},
        "every hour",
    )

The query is one of `[queries]` in scheduled_actions.toml; its columns are the payload of each action. What has become
an action and the actions themselves are written in one transaction: a crash at any instant makes none twice and loses
none.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from scheduled_actions import Context, Fail, action, runtime
from scheduled_actions.core.errors import RequestError
from scheduled_actions.core.requester import AddressReach


class ForEach(BaseModel):
    """Which rows, and what becomes of each."""

    model_config = ConfigDict(extra="forbid")

    #: A name of `[queries]`.
    query: str
    #: Of the actions; each payload is a row, by column.
    action_type: str
    #: The column that tells the rows apart.
    key: str
    #: Of the query.
    parameters: dict[str, str | int | float | bool | None] = {}
    #: Rows at most; the others wait for the next run.
    limit: Annotated[int, Field(ge=1, le=10_000)] = 1_000
    #: When a row of the same key may become an action again; None: never.
    again_after_seconds: Annotated[float, Field(gt=0, le=366 * 86400)] | None = None
    #: Whose rows they are; None: the query's and the action type's.
    name: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    #: Arguments of `schedule_action` for each of them, such as `priority` or `lock_group`.
    options: dict[str, Any] = {}
    #: How far what a token asked for reaches; None: application code.
    reach: AddressReach | None = None


@action("for_each:run", transactional=True, description="Make an action of each row of a query, once")
def run(payload: ForEach, context: Context) -> dict[str, Any]:
    """Make them; the result is `{"scheduled", "refused", "more"}`."""
    try:
        return runtime.current().for_each.schedule(
            **payload.model_dump(), team_id=context.action.team_id, connection=context.connection
        )
    except RequestError as error:
        raise Fail(str(error)) from error
