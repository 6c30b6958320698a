"""`--reset` of the update commands: an option cannot be set and reset by the same command."""

from __future__ import annotations

import pytest

CLOSED = '{"kind": "document_state", "target": {"type": "books", "id": "2026"}, "state": "closed"}'
ACTION = ("actions", "update", "00000000-0000-0000-0000-000000000001")
SCHEDULE = ("schedules", "update", "greet", "--timezone", "UTC")
DEADLINE = ("deadlines", "update", "renewal")
ENDPOINT = ("webhooks", "endpoints", "update", "partner")


@pytest.mark.parametrize(
    ("command", "option", "value", "reset"),
    [
        (ACTION, "--after", "00000000-0000-0000-0000-000000000002", "after"),
        (ACTION, "--condition", CLOSED, "condition"),
        (ACTION, "--expires-at", "2030-01-01", "expires-at"),
        (ACTION, "--limit", "api:acme", "limit"),
        (ACTION, "--on-success", '{"action_type": "greeting:say"}', "on-success"),
        (SCHEDULE, "--at", "2030-01-01", "at"),
        (SCHEDULE, "--in", "5m", "at"),
        (SCHEDULE, "--max-attempts", "0", "max-attempts"),
        (SCHEDULE, "--name", "salute", "name"),
        (SCHEDULE, "--skip-weekends", None, "skip"),
        (SCHEDULE, "--skip-date", "2030-01-01", "skip"),
        (SCHEDULE, "--adjustment", "drop", "skip"),
        (DEADLINE, "--reminder", "10 days before", "reminder"),
        (DEADLINE, "--escalate", "2 days after: cfo@example.org", "escalate"),
        (DEADLINE, "--action", '{"offset": "1 day before", "action_type": "greeting:say"}', "action"),
        (DEADLINE, "--recipient", "ann@example.org", "recipient"),
        (DEADLINE, "--metadata", "{}", "metadata"),
        (ENDPOINT, "--filter", '{"data.state": "done"}', "filter"),
        (ENDPOINT, "--rate-limit", "5", "rate-limit"),
        (ENDPOINT, "--header", "X-Tenant:blue", "header"),
        (ENDPOINT, "--retry", "5,300", "retry"),
    ],
)
def test_an_option_and_its_reset_are_mutually_exclusive(run_anywhere, command, option, value, reset):
    values = [] if value is None else [value]

    ran = run_anywhere(*command, "--reset", reset, option, *values)

    assert (ran.exit_code, ran.stdout) == (2, "")
    assert f"{option} and --reset {reset} are mutually exclusive" in " ".join(ran.stderr.split())
