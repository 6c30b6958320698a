"""`billing:check-renewals`: remind customers exactly once that their subscription renews soon.

    schedule_action("billing:check-renewals", {"days_ahead": 14})

An example of `transactional=True`: the mark in `billing_subscriptions`, the emails as scheduled actions and the
settlement of this action commit in one transaction. A crash at any instant loses no reminder and schedules none twice,
and two concurrent runs share the work.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Annotated

from psycopg.rows import class_row, scalar_row
from pydantic import BaseModel, ConfigDict, Field

from scheduled_actions import Context, action
from scheduled_actions.core.errors import PayloadInvalid

# The example creates its own table; an application does so in its migrations. If two first runs collide, one of them
# fails and is retried.
_CREATE_TABLE = """
create table if not exists billing_subscriptions (
    id bigint generated always as identity primary key,
    customer_email text not null,
    plan text not null,
    renews_on date not null,
    reminded_for date,
    cancelled boolean not null default false
)
"""

# Marks the subscriptions whose customers are to be reminded, except those that a concurrent run has locked.
_MARK_REMINDED = """
with due as materialized (
    select id
    from billing_subscriptions
    where not cancelled
      and renews_on between current_date and current_date + %(days_ahead)s::integer
      and reminded_for is distinct from renews_on
    order by renews_on, id
    limit %(limit)s
    for update skip locked
)
update billing_subscriptions as subscription
set reminded_for = renews_on
from due
where subscription.id = due.id
returning subscription.id, customer_email, plan, renews_on
"""

_COUNT_REMAINING = """
select count(*)
from billing_subscriptions
where not cancelled
  and renews_on between current_date and current_date + %(days_ahead)s::integer
  and reminded_for is distinct from renews_on
"""


class CheckRenewals(BaseModel):
    """The payload of `billing:check-renewals`."""

    model_config = ConfigDict(extra="forbid")

    #: Renewals within this number of days from the database's date, today included.
    days_ahead: Annotated[int, Field(ge=0, le=366)] = 30
    #: Maximum number of reminders in this run; the next run schedules further ones.
    limit: Annotated[int, Field(ge=1, le=1000)] = 500


@dataclass(frozen=True, slots=True)
class Renewal:
    """A subscription that renews soon."""

    id: int
    customer_email: str
    plan: str
    renews_on: date


@action("billing:check-renewals", transactional=True, description="Remind customers of upcoming renewals")
def check_renewals(payload: CheckRenewals, context: Context) -> dict[str, int]:
    """Schedule the due reminders.

    Returns:
        `{"reminded", "refused", "remaining"}`: the numbers of reminders that were scheduled, that have an invalid
        address, and that are left for the next run.
    """
    connection, bounds = context.connection, payload.model_dump()
    connection.execute(_CREATE_TABLE)
    with connection.cursor(row_factory=class_row(Renewal)) as cursor:
        renewals = cursor.execute(_MARK_REMINDED, bounds).fetchall()
    reminded = sum(_remind(renewal, context) for renewal in renewals)
    with connection.cursor(row_factory=scalar_row) as cursor:
        remaining = cursor.execute(_COUNT_REMAINING, bounds).fetchone()
    return {"reminded": reminded, "refused": len(renewals) - reminded, "remaining": remaining or 0}


def _remind(renewal: Renewal, context: Context) -> bool:
    day = f"{renewal.renews_on.day} {renewal.renews_on:%B %Y}"
    email = {
        "to": renewal.customer_email,
        "subject": f"Your {renewal.plan} plan renews on {day}",
        "text": f"Your {renewal.plan} plan renews on {day}. You do not need to do anything to keep it.\n",
    }
    try:
        context.schedule("email:send", email, target={"type": "subscription", "id": str(renewal.id)})
    except PayloadInvalid:
        # An invalid address must not prevent the other reminders.
        context.log.warning("billing.reminder_refused subscription_id=%s", renewal.id)
        return False
    return True
