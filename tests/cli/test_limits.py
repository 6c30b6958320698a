"""`limits`: the list of limit keys."""

from __future__ import annotations

from tests.limits.test_claims import claim, limits, schedule


def test_limit_keys_are_listed_with_their_slots_and_queues(run, connection):
    assert run("limits", "list").stdout.startswith("no limit keys in use: ")
    limits(connection, {"api:*": {"at_once": 1}, "mail": {"rate": "1 per hour", "across_teams": True}})
    schedule(connection, "api:acme", count=3, team_id="blue")
    schedule(connection, "mail", count=2, team_id="blue")
    claim(connection)

    heading, api, mail = run("limits", "list").stdout.splitlines()
    found = run("limits", "list", "--json").json
    (own,) = run("limits", "list", "--prefix", "mail", "--team", "blue", "--json").json["limits"]

    assert heading.split("  ")[0] == "KEY"
    assert api.split()[:6] == ["api:acme", "blue", "api:*", "1", "of", "1"]
    assert mail.split()[:7] == ["mail", "(all)", "mail", "1", "1", "per", "hour"]
    assert [(one["limit_key"], one["in_use"], one["waiting"]) for one in found["limits"]] == [
        ("api:acme", 1, 2), ("mail", 1, 1),
    ]  # fmt: skip
    assert (own["waiting"], own["in_use"], found["next_cursor"]) == (1, None, None)
    assert run("limits", "list", "--prefix", "x").stdout == "no key matches\n"


def test_a_page_of_limit_keys_names_the_cursor_of_the_next_page(run, connection):
    for key in ("a", "b"):
        schedule(connection, key)

    first = run("limits", "list", "--limit", "1").stdout
    cursor = run("limits", "list", "--limit", "1", "--json").json["next_cursor"]

    assert first.splitlines()[-1] == f"more results: --cursor {cursor}"
    assert "none" in run("limits", "list", "--cursor", cursor).stdout
    refused = run("limits", "list", "--cursor", "x")
    assert (refused.exit_code, "cursor" in refused.stderr) == (1, True)
