"""`billing:check-renewals` in a real transaction."""

from __future__ import annotations

import logging
import time
from uuid import uuid4

import psycopg
import pytest
from pydantic import ValidationError

from handlers.billing import CheckRenewals, check_renewals
from handlers.email import Email
from scheduled_actions.actions.model import arguments_of
from scheduled_actions.core.action import Action
from scheduled_actions.core.errors import InvalidArgument, PayloadInvalid
from scheduled_actions.registry.handler import OPTIONS_ATTRIBUTE, Context


class Attempt:
    """One start of the handler; `follow_ups` holds the type, payload and options of each action that it scheduled."""

    def __init__(self, connection, **payload):
        self.follow_ups = []
        nothing = dict.fromkeys(Action.__dataclass_fields__)
        context = Context(
            action=Action(**{**nothing, "id": uuid4(), "action_type": "billing:check-renewals"}),
            attempt=1,
            state=None,
            log=logging.LoggerAdapter(logging.getLogger("handlers.billing")),
            _monotonic=time.monotonic,
            _deadline=time.monotonic() + 30,
            _prepare=self._prepare,
            _is_stopped=lambda: False,
            _connection=connection,
        )
        self.result = check_renewals(CheckRenewals(**payload), context)

    def _prepare(self, action_type, payload, /, **options):
        try:
            Email.model_validate(payload)
        except ValidationError:
            raise PayloadInvalid(action_type, []) from None
        given = arguments_of({"action_type": action_type, "payload": payload, **options})
        self.follow_ups.append((given.pop("action_type"), given.pop("payload"), given))
        return {"action_type": action_type, "payload": payload, **given}

    @property
    def reminded(self):
        return sorted(payload["to"] for _, payload, _ in self.follow_ups)


@pytest.fixture
def subscribe(connection):
    """Return a function that adds a subscription that renews in a number of days."""
    Attempt(connection)  # Creates the table.

    def add(name, *, days, email=None, cancelled=False, reminded_days=None):
        row = connection.execute(
            """
            insert into billing_subscriptions (customer_email, plan, renews_on, cancelled, reminded_for)
            values (%s, 'Pro', current_date + %s::integer, %s, current_date + %s::integer)
            returning id, renews_on
            """,
            [email or f"{name}@example.org", days, cancelled, reminded_days],
        )
        return row.fetchone()

    return add


def committed(connection, **payload):
    with connection.transaction():
        return Attempt(connection, **payload)


def counts(reminded=0, *, refused=0, remaining=0):
    return {"reminded": reminded, "refused": refused, "remaining": remaining}


def test_the_first_run_creates_the_table(connection):
    attempt = committed(connection)

    assert attempt.result == counts()


def test_each_renewal_is_reminded_exactly_once(connection, subscribe):
    subscribe("ann", days=3)
    subscribe("bob", days=30)

    first, second = committed(connection), committed(connection)

    assert (first.result, first.reminded) == (counts(2), ["ann@example.org", "bob@example.org"])
    assert (second.result, second.reminded) == (counts(), [])


def test_a_run_that_is_rolled_back_schedules_no_reminder(connection, subscribe):
    subscribe("ann", days=3)

    with connection.transaction(force_rollback=True):
        lost = Attempt(connection)

    assert lost.reminded == ["ann@example.org"]
    assert committed(connection).reminded == ["ann@example.org"]


def test_two_runs_at_the_same_time_share_the_work(connection, database_url, subscribe):
    for name in ("ann", "bob", "carol"):
        subscribe(name, days=3)

    impatient = "-c lock_timeout=2s"
    with psycopg.connect(database_url, options=impatient) as other, connection.transaction():
        one = Attempt(connection, limit=2)
        two = Attempt(other)

    assert (one.reminded, two.reminded) == (["ann@example.org", "bob@example.org"], ["carol@example.org"])
    assert committed(connection).result == counts()


def test_only_subscriptions_that_renew_within_days_ahead_are_reminded(connection, subscribe):
    subscribe("past", days=-1)
    subscribe("today", days=0)
    subscribe("last", days=10)
    subscribe("later", days=11)
    subscribe("gone", days=5, cancelled=True)
    subscribe("reminded", days=5, reminded_days=5)
    subscribe("reminded-last-year", days=5, reminded_days=-360)

    attempt = committed(connection, days_ahead=10)

    assert attempt.reminded == ["last@example.org", "reminded-last-year@example.org", "today@example.org"]


def test_renewals_beyond_the_limit_remain_for_the_next_run_and_the_soonest_come_first(connection, subscribe):
    for days, name in ((9, "ann"), (1, "bob"), (5, "carol")):
        subscribe(name, days=days)

    first, second = committed(connection, limit=2), committed(connection, limit=2)

    assert (first.result, first.reminded) == (
        counts(2, remaining=1),
        ["bob@example.org", "carol@example.org"],
    )
    assert (second.result, second.reminded) == (counts(1), ["ann@example.org"])


def test_the_reminder_is_an_email_about_the_subscription(connection, subscribe):
    subscription_id, renews_on = subscribe("ann", days=3)

    [(action_type, email, options)] = committed(connection).follow_ups

    day = f"{renews_on.day} {renews_on:%B %Y}"
    assert action_type == "email:send"
    assert email["subject"] == f"Your Pro plan renews on {day}"
    assert day in email["text"]
    assert options == {"target": {"type": "subscription", "id": str(subscription_id)}}


def test_an_invalid_address_does_not_prevent_other_reminders(connection, subscribe, caplog):
    broken_id, _ = subscribe("broken", days=1, email="broken")
    subscribe("ann", days=2)

    attempt = committed(connection)

    assert (attempt.result, attempt.reminded) == (counts(1, refused=1), ["ann@example.org"])
    assert caplog.messages == [f"billing.reminder_refused subscription_id={broken_id}"]


@pytest.mark.parametrize(
    "payload", [{"days_ahead": -1}, {"days_ahead": 367}, {"limit": 0}, {"limit": 1001}, {"days": 3}]
)
def test_a_payload_out_of_bounds_is_rejected(payload):
    with pytest.raises(ValidationError):
        CheckRenewals(**payload)


def test_the_handler_is_transactional():
    assert getattr(check_renewals, OPTIONS_ATTRIBUTE).transactional

    with pytest.raises(InvalidArgument, match="transactional=True"):
        Attempt(None)
