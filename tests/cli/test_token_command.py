"""`tokens create`, `tokens list`, `tokens revoke`."""

from __future__ import annotations

from scheduled_actions.core.token_generation import digest_of
from scheduled_actions.operations import tokens


def test_a_token_is_printed_alone_so_that_a_script_can_keep_it(run, connection):
    ran = run("tokens", "create", "ci", "--role", "operator", "--team", "red", "--expires-in", "P30D")

    assert ran.exit_code == 0
    found = tokens.find_digest(connection, digest_of(ran.stdout.strip()))
    assert (found.name, found.role, found.team_id) == ("ci", "operator", "red")
    assert found.created_by.startswith("cli:")
    assert 29 < (found.expires_at - found.created_at).days <= 30
    assert ran.stderr.startswith("operator for team red, until ")
    assert "not shown again" in ran.stderr


def test_without_a_word_about_it_a_token_reads_all_teams_for_ever(run, connection):
    ran = run("tokens", "create", "ci", "--json")

    assert (ran.json["role"], ran.json["team_id"], ran.json["expires_at"]) == ("viewer", None, None)
    assert str(tokens.find_digest(connection, digest_of(ran.json["token"])).id) == ran.json["id"]


def test_an_end_can_be_an_instant(run):
    ran = run("tokens", "create", "ci", "--expires-at", "2031-01-01T00:00:00Z", "--json")

    assert ran.json["expires_at"] == "2031-01-01T00:00:00+00:00"


def test_tokens_are_listed_without_themselves(run):
    none = run("tokens", "list")
    secret = run("tokens", "create", "ci", "--team", "red").stdout.strip()

    for_people, for_programs = run("tokens", "list"), run("tokens", "list", "--json")

    assert none.stdout == "no tokens: `scheduled-actions tokens create NAME` creates one\n"
    heading, line = for_people.stdout.splitlines()
    assert heading.split()[:2] == ["ID", "NAME"]
    assert line.split()[1:] == ["ci", f"{secret[:8]}…", "viewer", "red", "never", "does", "not", "expire"]
    assert [one["name"] for one in for_programs.json["tokens"]] == ["ci"]
    assert secret not in for_people.stdout + for_programs.stdout


def test_a_revoked_token_opens_nothing_and_stays_on_the_list(run, connection):
    made = run("tokens", "create", "ci", "--json").json

    ran, as_json = run("tokens", "revoke", made["id"]), run("tokens", "revoke", made["id"], "--json")

    assert (ran.exit_code, ran.stdout) == (0, f"ci ({made['hint']}…) revoked\n")
    assert as_json.json["revoked_at"] is not None
    assert tokens.find_digest(connection, digest_of(made["token"])).revoked_at is not None
    assert "revoked 20" in run("tokens", "list").stdout


def test_an_expired_token_is_listed_as_such(run):
    run("tokens", "create", "ci", "--expires-at", "2020-01-01T00:00:00Z")

    assert run("tokens", "list").stdout.rstrip().endswith("expired")


def test_what_cannot_be_is_refused(run, connection):
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
