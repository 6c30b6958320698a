"""`facts`, and the options of `schedule` that say what an action waits for."""

from __future__ import annotations

import json

import pytest

from tests.factories import row

ANN = ("--payload", '{"name": "Ann"}')
ORDER = ("purchase_order", "42", "state")
APPROVED = json.dumps({"kind": "document_state", "target": {"type": "purchase_order", "id": "42"}, "state": "approved"})


def test_a_fact_is_reported_shown_listed_and_forgotten(run):
    assert run("facts", "list").stdout.startswith("no facts yet")
    assert run("facts", "report", *ORDER, '"draft"').stdout == "reported\n"
    assert run("facts", "report", *ORDER, '"approved"', "--json").json == {"changed": True, "awaited": False}
    assert run("facts", "report", *ORDER, '"approved"').stdout == "it was so already\n"

    shown = run("facts", "show", *ORDER, "--json").json
    assert (shown["value"], [one["value"] for one in shown["history"]]) == ("approved", ["approved", "draft"])
    assert '"draft"' in run("facts", "show", *ORDER).stdout
    (listed,) = run("facts", "list", "--json").json["facts"]
    assert (listed["target_type"], listed["target_id"], listed["name"]) == ORDER
    assert "purchase_order 42" in run("facts", "list").stdout
    assert run("facts", "list", "--name", "other").stdout == "no fact matches\n"

    assert run("facts", "delete", *ORDER).stdout == "forgotten\n"
    gone = run("facts", "show", *ORDER)
    assert (gone.exit_code, gone.stderr) == (1, 'error: no fact "state" is known of purchase_order 42\n')


def test_a_waiting_action_is_scheduled_woken_and_run_from_the_command_line(run, connection):
    follow = json.dumps({"action_type": "greeting:say", "payload": {"name": "Bob"}})
    made = run(
        "schedule", "greeting:say", *ANN, "--condition", APPROVED, "--wait", "--check-interval", "1h",
        "--timeout", "30d", "--on-success", follow, "--json",
    ).json  # fmt: skip
    after = run("schedule", "greeting:say", *ANN, "--after", made["id"], "--json").json
    run("process")
    assert row(connection, made["id"])["status"] == "pending"

    told = run("facts", "report", *ORDER, '"approved"').stdout
    run("process")
    run("process")

    assert told == "reported: what waits for it is due now\n"
    assert row(connection, made["id"])["status"] == row(connection, after["id"])["status"] == "completed"
    assert [one["payload"]["name"] for one in run("list", "--status", "completed", "--json").json["actions"]].count(
        "Bob"
    ) == 1


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--timeout", "1h"), "go with --wait"),
        (("--wait",), "--wait needs a --condition"),
        (("--condition", '{"kind": "magic"}'), "condition.kind: 'magic' is not one of"),
        (("--condition", "{"), "write JSON"),
        (("--after", "7"), "the id of an action"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_scheduled(run, connection, options, problem):
    ran = run("schedule", "greeting:say", *ANN, *options)

    assert ran.exit_code in {1, 2}
    assert problem in ran.stderr
    assert connection.execute("select count(*) from scheduled_actions").fetchone() == (0,)
