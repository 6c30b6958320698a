"""`tokens create`, `tokens list`, `tokens revoke`."""

from __future__ import annotations

from scheduled_actions.core.token_generation import digest_of
from scheduled_actions.operations import tokens


def test_create_prints_only_the_token_on_stdout(run, connection):
    ran = run("tokens", "create", "ci", "--role", "operator", "--team", "red", "--expires-in", "P30D")

    assert ran.exit_code == 0
    found = tokens.find_digest(connection, digest_of(ran.stdout.strip()))
    assert (found.name, found.role, found.team_id) == ("ci", "operator", "red")
    assert found.created_by.startswith("cli:")
    assert 29 < (found.expires_at - found.created_at).days <= 30
    assert ran.stderr.startswith("operator for team red, until ")
    assert "not shown again" in ran.stderr


def test_by_default_a_token_is_a_viewer_of_all_teams_and_does_not_expire(run, connection):
    ran = run("tokens", "create", "ci", "--json")

    assert (ran.json["role"], ran.json["team_id"], ran.json["expires_at"]) == ("viewer", None, None)
    assert str(tokens.find_digest(connection, digest_of(ran.json["token"])).id) == ran.json["id"]


def test_the_expiry_can_be_an_instant(run):
    ran = run("tokens", "create", "ci", "--expires-at", "2031-01-01T00:00:00Z", "--json")

    assert ran.json["expires_at"] == "2031-01-01T00:00:00+00:00"


def test_tokens_are_listed_without_their_secrets(run):
    empty = run("tokens", "list")
    secret = run("tokens", "create", "ci", "--team", "red").stdout.strip()

    as_text, as_json = run("tokens", "list"), run("tokens", "list", "--json")

    assert empty.stdout == "no tokens: `scheduled-actions tokens create NAME` creates one\n"
    heading, line = as_text.stdout.splitlines()
    assert heading.split()[:2] == ["ID", "NAME"]
    assert line.split()[1:] == ["ci", f"{secret[:8]}…", "viewer", "red", "never", "does", "not", "expire"]
    assert [one["name"] for one in as_json.json["tokens"]] == ["ci"]
    assert secret not in as_text.stdout + as_json.stdout


def test_a_revoked_token_stays_on_the_list(run, connection):
    created = run("tokens", "create", "ci", "--json").json

    ran, as_json = run("tokens", "revoke", created["id"]), run("tokens", "revoke", created["id"], "--json")

    assert (ran.exit_code, ran.stdout) == (0, f"ci ({created['hint']}…) revoked\n")
    assert as_json.json["revoked_at"] is not None
    assert tokens.find_digest(connection, digest_of(created["token"])).revoked_at is not None
    assert "revoked 20" in run("tokens", "list").stdout


def test_an_expired_token_is_listed_as_expired(run):
    run("tokens", "create", "ci", "--expires-at", "2020-01-01T00:00:00Z")

    assert run("tokens", "list").stdout.rstrip().endswith("expired")


def test_invalid_arguments_are_rejected(run, connection):
    for arguments, code, message in [
        (["create"], 2, "Missing argument 'NAME'"),
        (["create", "x" * 101], 1, "name: "),
        (["create", "ci", "--role", "root"], 2, "'root' is not one of"),
        (["create", "ci", "--expires-in", "soon"], 2, "is not a duration"),
        (["create", "ci", "--expires-in", "P200000D"], 1, "between zero and a hundred years"),
        (["create", "ci", "--expires-in", "1h", "--expires-at", "2031-01-01"], 2, "are mutually exclusive"),
        (["revoke", "x"], 1, "no token has the id x"),
        (["revoke", "0197a000-0000-7000-8000-00000000ffff"], 1, "no token has the id 0197a000"),
    ]:
        ran = run("tokens", *arguments)
        assert ran.exit_code == code, arguments
        assert message in ran.stderr, arguments

    assert connection.execute("select count(*) from scheduled_action_tokens").fetchone() == (0,)
