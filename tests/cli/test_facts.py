"""`facts`, and the options of `schedule` for conditions and predecessors."""

from __future__ import annotations

import json

import pytest

from tests.factories import row

ANN = ("--payload", '{"name": "Ann"}')
ORDER = ("purchase_order", "42", "state")
APPROVED = json.dumps({"kind": "document_state", "target": {"type": "purchase_order", "id": "42"}, "state": "approved"})


def test_a_fact_is_reported_shown_listed_and_deleted(run):
    assert run("facts", "list").stdout.startswith("no facts yet")
    assert run("facts", "report", *ORDER, '"draft"').stdout == "recorded\n"
    assert run("facts", "report", *ORDER, '"approved"', "--json").json == {"changed": True, "has_waiters": False}
    assert run("facts", "report", *ORDER, '"approved"').stdout == "unchanged: the fact already has this value\n"

    shown = run("facts", "show", *ORDER, "--json").json
    assert (shown["value"], [entry["value"] for entry in shown["history"]]) == ("approved", ["approved", "draft"])
    assert '"draft"' in run("facts", "show", *ORDER).stdout
    (listed,) = run("facts", "list", "--json").json["facts"]
    assert (listed["target_type"], listed["target_id"], listed["name"]) == ORDER
    assert "purchase_order 42" in run("facts", "list").stdout
    assert run("facts", "list", "--name", "other").stdout == "no fact matches\n"

    assert run("facts", "delete", *ORDER).stdout == "deleted\n"
    gone = run("facts", "show", *ORDER)
    assert (gone.exit_code, gone.stderr) == (1, 'error: no fact "state" about purchase_order 42 is stored\n')


def test_a_reported_fact_makes_the_waiting_action_due(run, connection):
    on_success = json.dumps({"action_type": "greeting:say", "payload": {"name": "Bob"}})
    waiting = run(
        "schedule", "greeting:say", *ANN, "--condition", APPROVED, "--wait", "--check-interval", "1h",
        "--timeout", "30d", "--on-success", on_success, "--json",
    ).json  # fmt: skip
    successor = run("schedule", "greeting:say", *ANN, "--after", waiting["id"], "--json").json
    run("process")
    assert row(connection, waiting["id"])["status"] == "pending"

    reported = run("facts", "report", *ORDER, '"approved"').stdout
    run("process")
    run("process")

    assert reported == "recorded; actions that wait for the fact are due\n"
    assert row(connection, waiting["id"])["status"] == row(connection, successor["id"])["status"] == "completed"
    assert [
        action["payload"]["name"]
        for action in run("actions", "list", "--status", "completed", "--json").json["actions"]
    ].count("Bob") == 1


def test_the_wait_for_another_action_is_limited(run, connection):
    first = run("schedule", "greeting:say", *ANN, "--json").json["id"]

    second = run("schedule", "greeting:say", *ANN, "--after", first, "--timeout", "2h", "--json").json["id"]

    assert row(connection, second)["condition"] == {"after": [first], "condition": {"timeout": 7200}}


def test_an_update_limits_the_wait_for_the_stored_actions(run, connection):
    first = run("schedule", "greeting:say", *ANN, "--json").json["id"]
    second = run("schedule", "greeting:say", *ANN, "--after", first, "--json").json["id"]

    assert run("actions", "update", second, "--timeout", "1h", "--force").exit_code == 0

    assert row(connection, second)["condition"] == {"after": [first], "condition": {"timeout": 3600}}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--timeout", "1h"), "condition limits a wait, but there is nothing to wait for"),
        (
            ("--timeout", "1h", "--condition", APPROVED, "--after", "7"),
            "require --wait if --condition is given",
        ),
        (("--wait",), "--wait requires --condition"),
        (("--condition", '{"kind": "magic"}'), "condition.kind: 'magic' is not one of"),
        (("--condition", "{"), "write JSON"),
        (("--after", "7"), "after: '7' is not the id of an action (a UUID)"),
    ],
)
def test_invalid_wait_options_are_rejected_and_nothing_is_scheduled(run, connection, options, problem):
    ran = run("schedule", "greeting:say", *ANN, *options)

    assert ran.exit_code in {1, 2}
    assert problem in ran.stderr
    assert connection.execute("select count(*) from scheduled_actions").fetchone() == (0,)
