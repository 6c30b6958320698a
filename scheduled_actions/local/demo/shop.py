"""A small shop's work: the handlers of the demo. The demo copies this file into its project's `handlers/`."""

from __future__ import annotations

import json
import time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, Field

from scheduled_actions import Context, Delays, action

if TYPE_CHECKING:
    from datetime import datetime

PROJECT = Path(__file__).parents[1]
#: While it does not exist, the supplier does not answer.
SUPPLIER_OPEN = PROJECT / "supplier-is-open"
#: While it exists, nobody can count the stock.
STORE_LOCKED = PROJECT / "store-is-locked"
#: A line for each booking, written when it ends.
LEDGER = PROJECT / "ledger.jsonl"
#: Long enough that bookings beside each other would overlap.
_BOOKING_SECONDS = 0.1

_CREATE_CHARGES = """
create table if not exists demo_charges (
    order_number text not null,
    amount numeric(12, 2) not null
)
"""


class Order(BaseModel):
    """One line of `orders.csv`."""

    number: str
    customer: str
    address: str
    article: str
    quantity: Annotated[int, Field(gt=0)]
    unit_price: Annotated[Decimal, Field(gt=0, decimal_places=2)]

    @property
    def total(self) -> Decimal:
        """What is to be paid."""
        return self.quantity * self.unit_price


class Charge(BaseModel):
    """Who pays what."""

    number: str
    amount: Decimal


class Restock(BaseModel):
    """What is to be ordered from the supplier."""

    article: str


class Count(BaseModel):
    """What is to be counted."""

    article: str


@action("invoice:write", description="Write one order's invoice")
def write_invoice(order: Order) -> dict[str, str]:
    """Write it; the result is the file's name and the total."""
    name = f"invoice-{order.number}.txt"
    text = f"{order.customer}, {order.address}\n{order.quantity} x {order.article}: {order.total}\n"
    (PROJECT / name).write_text(text, encoding="utf-8")
    return {"file": name, "total": str(order.total)}


@action("stock:book", description="Take what was ordered out of the stock")
def book_stock(order: Order) -> None:
    """Book it; two bookings of one article side by side would be a mistake, which the ledger would show."""
    began = time.monotonic()
    time.sleep(_BOOKING_SECONDS)
    line = {"number": order.number, "article": order.article, "began": began, "ended": time.monotonic()}
    with LEDGER.open("a", encoding="utf-8") as ledger:
        ledger.write(json.dumps(line) + "\n")


@action("payment:charge", transactional=True, retry=Delays((1,)), description="Charge an order")
def charge(payload: Charge, context: Context) -> None:
    """Note the charge and announce it, both or neither; the first attempt breaks off half-way."""
    context.connection.execute(_CREATE_CHARGES)
    context.connection.execute("insert into demo_charges values (%(number)s, %(amount)s)", payload.model_dump())
    event = {"event": "order:paid", "entity_type": "order", "entity_id": payload.number}
    context.schedule("webhook:send", {**event, "data": payload.model_dump(mode="json")})
    if context.attempt == 1:
        message = "the connection to the bank broke off"
        raise ConnectionError(message)


@action("supplier:order", max_attempts=1, description="Order from the supplier")
def order_from_supplier(payload: Restock) -> dict[str, str]:
    """Order it, if the supplier answers."""
    if not SUPPLIER_OPEN.exists():
        message = "the supplier does not answer"
        raise TimeoutError(message)
    return {"ordered": payload.article}


@action("stock:count", max_attempts=1, description="Count what is left of an article")
def count_stock(payload: Count, context: Context) -> dict[str, str | None]:
    """Count it, unless the store is locked; the result says for which stretch of time it stands."""
    if STORE_LOCKED.exists():
        message = f"the store is locked: nobody can count the {payload.article}s"
        raise PermissionError(message)
    since, until = context.previous_occurrence_at, context.occurrence_at
    return {"since": _time(since), "until": _time(until)}


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else f"{moment:%H:%M}"
