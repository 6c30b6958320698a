"""Sample data for the browser tests and the screenshots: a small company after a busy day."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, Field

from handlers import deadline
from scheduled_actions import action
from scheduled_actions.registry import Registry

if TYPE_CHECKING:
    import psycopg

#: The invoice that has a history.
STORY = "0197a000-0000-7000-8000-0000000004d2"


class Line(BaseModel):
    article: str
    amount: int = 1


class Invoice(BaseModel):
    """The payload of an invoice."""

    number: str = Field(description="As it is printed: 2026-0041.", min_length=1)
    customer: str
    total: float = Field(ge=0, description="In the invoice's currency.")
    currency: Literal["EUR", "USD", "GBP"] = "EUR"
    due_on: date | None = None
    reminders: bool = True
    lines: list[Line] = []
    notes: list[str] = []


class Welcome(BaseModel):
    user_id: str
    email: str
    trial_ends_at: datetime | None = None


@action("invoice:send", max_attempts=5, timeout_seconds=20, description="Render an invoice and mail it.")
def send_invoice(payload: Invoice): ...


@action("email:welcome", description="Greet a new user.")
def welcome(payload: Welcome): ...


@action("payment:charge", max_attempts=4, transactional=True, description="Charge a card, exactly once.")
def charge(payload: dict, context): ...


@action("report:build", timeout_seconds=55, description="Build a team's weekly report, piece by piece.")
def report(payload: dict): ...


@action("search:index", description="Bring one document up to date.")
def index(payload: dict): ...


def registry() -> Registry:
    """Return the company's handlers."""
    deadlines = (deadline.send_reminder, deadline.send_escalation, deadline.mark_missed, deadline.create_next)
    return Registry.of(send_invoice, welcome, charge, report, index, *deadlines)


def insert_sample_data(connection: psycopg.Connection[Any]) -> None:
    """Insert a week of ticks and a day of actions."""
    for name in (
        "sample_data",
        "sample_data_schedules",
        "sample_data_calendar",
        "sample_data_webhooks",
        "sample_data_deadlines",
    ):
        connection.execute(Path(__file__).with_name(f"{name}.sql").read_text(encoding="utf-8"))
