"""Handlers of the demo, a small shop. The demo copies this file into its project's `handlers/`."""

import json
import time
from decimal import Decimal
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field

from scheduled_actions import Context, Delays, action

PROJECT = Path(__file__).parents[1]

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
        """The amount to pay."""
        return self.quantity * self.unit_price


class Charge(BaseModel):
    """A charge for an order."""

    number: str
    amount: Decimal


class Article(BaseModel):
    """A product to order from the supplier, or to count."""

    article: str


@action("invoice:write", description="Write one order's invoice")
def write_invoice(order: Order) -> dict[str, str]:
    """Write the invoice, and return its file name and total."""
    name = f"invoice-{order.number}.txt"
    text = f"{order.customer}, {order.address}\n{order.quantity} x {order.article}: {order.total}\n"
    (PROJECT / name).write_text(text, encoding="utf-8")
    return {"file": name, "total": str(order.total)}


@action("stock:book", description="Deduct the ordered items from stock")
def book_stock(order: Order) -> None:
    """Book the order, with the start and the end of the booking, so that the ledger shows concurrent bookings."""
    began = time.monotonic()
    time.sleep(0.1)  # long enough that concurrent bookings would overlap
    line = {"number": order.number, "article": order.article, "began": began, "ended": time.monotonic()}
    with (PROJECT / "ledger.jsonl").open("a", encoding="utf-8") as ledger:
        ledger.write(json.dumps(line) + "\n")


@action("payment:charge", transactional=True, retry=Delays((1,)), description="Charge an order")
def charge(payload: Charge, context: Context) -> None:
    """Insert the charge and send its event, both or neither; the first attempt fails before the commit."""
    context.connection.execute(_CREATE_CHARGES)
    context.connection.execute("insert into demo_charges values (%(number)s, %(amount)s)", payload.model_dump())
    event = {"event": "order:paid", "entity_type": "order", "entity_id": payload.number}
    context.schedule("webhook:send", {**event, "data": payload.model_dump(mode="json")})
    if context.attempt == 1:
        raise ConnectionError("lost the connection to the bank")


@action("supplier:order", max_attempts=1, description="Order from the supplier")
def order_from_supplier(payload: Article) -> dict[str, str]:
    """Order the product; fail unless the supplier answers."""
    if not (PROJECT / "supplier-is-open").exists():
        raise TimeoutError("the supplier does not answer")
    return {"ordered": payload.article}


@action("stock:count", max_attempts=1, description="Count the remaining stock of a product")
def count_stock(payload: Article, context: Context) -> dict[str, str | None]:
    """Count the product, and return the period that the count covers; fail if the store is locked."""
    if (PROJECT / "store-is-locked").exists():
        raise PermissionError(f"the store is locked: cannot count the {payload.article}s")
    period = {"since": context.previous_occurrence_at, "until": context.occurrence_at}
    return {name: None if at is None else f"{at:%H:%M}" for name, at in period.items()}
