"""`rates:fetch`: fetch the exchange rates of the day from the bank at `RATES_URL`.

    schedule_recurring_action("rates:fetch", {}, "30 16 * * 1-5", name="exchange-rates", timezone="Europe/Berlin")

An example of a handler that calls an HTTP API. The answer of the API determines what happens next.

- 200 with rates: the action completes, with the rates as its result.
- 429 or 503 with Retry-After: the next attempt starts when the bank allows it.
- Another 4xx: the request is wrong, and another attempt would be refused, too: `Fail`.
- No answer in time, another 5xx, or a body that is not the expected JSON: an exception, and the action is retried.
- `RATES_URL` is unset: `Skip`, so that the project runs without a bank.
"""

from __future__ import annotations

import os
from datetime import UTC, date, datetime
from decimal import Decimal
from http import HTTPStatus
from typing import Any

import requests
from pydantic import BaseModel

from scheduled_actions import Context, Fail, RetryAfter, Skip, action
from scheduled_actions.outbound.delivery import retry_after


class FetchRates(BaseModel):
    """The payload of `rates:fetch`."""

    #: Currency that the rates are relative to, as the API names it.
    base: str = "EUR"


class Rates(BaseModel):
    """The JSON document that the API returns."""

    base: str
    date: date
    #: Units of each currency for one unit of `base`.
    rates: dict[str, Decimal]


@action("rates:fetch", timeout_seconds=15, max_attempts=8, description="Fetch the exchange rates of the day")
def fetch_rates(payload: FetchRates, context: Context) -> Skip | dict[str, Any]:
    """Return `{"base", "date", "rates": {currency: rate as text}}`.

    Raises:
        Fail: The API refused the request.
        RetryAfter: The API allows the next request only later.
        requests.RequestException, pydantic.ValidationError: The API did not answer as expected.
    """
    url = os.environ.get("RATES_URL")
    if not url:
        return Skip("RATES_URL is not set")
    answer = requests.get(url, params={"base": payload.base}, timeout=context.seconds_left / 2)
    is_temporary = answer.status_code in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}
    if is_temporary and (wait := retry_after(answer.headers, now=datetime.now(UTC))) is not None:
        raise RetryAfter(wait, f"the bank answered with status {answer.status_code}")
    if HTTPStatus.BAD_REQUEST <= answer.status_code < HTTPStatus.INTERNAL_SERVER_ERROR and not is_temporary:
        raise Fail(f"the bank refused the request with status {answer.status_code}")
    answer.raise_for_status()
    return Rates.model_validate_json(answer.content).model_dump(mode="json")
