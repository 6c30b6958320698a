"""`rates:fetch`: each answer of the bank, and the outcome that it leads to."""

from __future__ import annotations

from datetime import timedelta

import pytest
import requests
import responses

from handlers import exchange_rates
from scheduled_actions import schedule_action

URL = "https://bank.example.org/rates"
RATES = {"base": "EUR", "date": "2026-03-04", "rates": {"GBP": "0.8601", "USD": "1.0812"}}


@pytest.fixture
def scheduled_actions_handlers():
    return [exchange_rates.fetch_rates]


@pytest.fixture(autouse=True)
def bank(monkeypatch):
    """Answer in place of the bank; an address without an answer refuses the connection."""
    monkeypatch.setenv("RATES_URL", URL)
    with responses.RequestsMock(assert_all_requests_are_fired=True) as mock:
        yield mock


@pytest.fixture
def fetch(run_due):
    """Return a function that schedules the action and returns it after one tick."""

    def once(**payload):
        schedule_action("rates:fetch", payload)
        (settled,) = run_due()
        return settled

    return once


def test_the_rates_are_the_result_as_text_without_rounding(bank, fetch):
    bank.get(URL, json=RATES, match=[responses.matchers.query_param_matcher({"base": "EUR"})])

    settled = fetch()

    assert (settled.status, settled.result) == ("completed", RATES)


def test_the_payload_selects_the_base_currency(bank, fetch):
    bank.get(URL, json={**RATES, "base": "CHF"}, match=[responses.matchers.query_param_matcher({"base": "CHF"})])

    assert fetch(base="CHF").result["base"] == "CHF"


def test_without_an_address_the_action_is_skipped_with_the_reason(monkeypatch, fetch):
    monkeypatch.delenv("RATES_URL")

    settled = fetch()

    assert (settled.status, settled.error_message) == ("skipped", "RATES_URL is not set")


@pytest.mark.parametrize("status", [429, 503])
def test_the_bank_determines_when_the_next_attempt_starts(bank, fetch, run_due, status):
    bank.get(URL, status=status, headers={"Retry-After": "3600"})
    bank.get(URL, json=RATES)

    first = fetch()

    assert (first.status, first.attempts) == ("pending", 1)
    assert run_due(at=timedelta(minutes=59)) == []
    assert [one.status for one in run_due(at=timedelta(minutes=2))] == ["completed"]


@pytest.mark.parametrize("status", [400, 401, 404])
def test_a_refused_request_is_final(bank, fetch, status):
    bank.get(URL, status=status)

    settled = fetch()

    assert (settled.status, settled.attempts) == ("failed", 1)
    assert settled.error_message == f"the bank refused the request with status {status}"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({"body": requests.ConnectTimeout("no answer")}, "ConnectTimeout"),
        ({"body": requests.ConnectionError("refused")}, "ConnectionError"),
        ({"status": 500}, "HTTPError"),
        ({"status": 429}, "HTTPError"),
        ({"body": "<html>maintenance</html>"}, "ValidationError"),
        ({"json": {"base": "EUR", "rates": {}}}, "ValidationError"),
    ],
)
def test_any_other_answer_is_retried_by_the_policy(bank, fetch, answer, error):
    bank.get(URL, **answer)

    settled = fetch()

    assert (settled.status, settled.attempts) == ("pending", 1)
    assert settled.error_message.startswith(error)
