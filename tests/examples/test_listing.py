"""Each task has an example, which is listed and no longer than the task needs."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import examples

FOLDER = Path(examples.__file__).parent
#: Maximum number of lines, and the example. 24 lines if the task has no limit of its own.
EXAMPLES = {
    "send_the_welcome_mail.py": 7,
    "check_renewals_daily.py": 3,
    "emit_task_created.py": 6,
    "add_up_an_invoice.py": 6,
    "refresh_access_tokens.py": 5,
    "renew_licenses.py": 23,
    "renew_certificates.py": 11,
    "escalate_to_the_cfo.py": 20,
    "build_the_compliance_report.py": 20,
    "plan_performance_reviews.py": 13,
    "build_the_financial_report.py": 10,
    "renew_contracts.py": 17,
    "submit_purchase_orders.py": 10,
    "remind_of_the_stand_up.py": 10,
    "announce_a_webinar.py": 13,
    "send_late_payment_sms.py": 12,
    "downgrade_subscriptions.py": 24,
    "fetch_exchange_rates.py": 24,
    "remind_of_open_carts.py": 24,
    "catch_forgotten_work.py": 24,
}


def lines_of(file):
    """Return the lines after the docstring and the imports, blank ones included."""
    text = file.read_text(encoding="utf-8")
    _docstring, *body = ast.parse(text).body
    imports = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
    return "\n".join(text.splitlines()[imports[-1].end_lineno :]).strip().splitlines()


def test_each_task_has_an_example():
    assert {file.name for file in FOLDER.glob("*.py")} - {"__init__.py"} == EXAMPLES.keys()


@pytest.mark.parametrize(("name", "limit"), EXAMPLES.items(), ids=EXAMPLES)
def test_an_example_has_no_more_lines_than_its_task_needs(name, limit):
    assert len(lines_of(FOLDER / name)) <= limit


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_listed_with_its_task(name):
    assert f"]({name})" in (FOLDER / "README.md").read_text(encoding="utf-8")
