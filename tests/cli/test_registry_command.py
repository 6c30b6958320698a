"""`registry build` and `registry check`."""

from __future__ import annotations


def test_build_writes_the_registry_and_prints_the_number_of_types(run_anywhere, project):
    (project / "handlers" / "_registry.py").unlink()

    first, second = run_anywhere("registry", "build"), run_anywhere("registry", "build")

    assert (first.exit_code, second.exit_code) == (0, 0)
    assert first.stdout == "handlers/_registry.py: 1 action type, written\n"
    assert second.stdout == "handlers/_registry.py: 1 action type, unchanged\n"
    assert '"greeting:say"' in (project / "handlers" / "_registry.py").read_text(encoding="utf-8")


def test_check_accepts_an_up_to_date_registry(run_anywhere):
    text, as_json = run_anywhere("registry", "check"), run_anywhere("registry", "check", "--json")

    assert (text.exit_code, text.stdout) == (0, "up to date: 1 action type\n")
    assert (as_json.exit_code, as_json.json) == (0, {"is_fresh": True, "action_types": ["greeting:say"]})


def test_check_rejects_a_stale_registry_and_writes_nothing(run_anywhere, project):
    stale = "HANDLERS = {}\n"
    (project / "handlers" / "_registry.py").write_text(stale, encoding="utf-8")

    text, as_json = run_anywhere("registry", "check"), run_anywhere("registry", "check", "--json")

    assert (text.exit_code, as_json.exit_code) == (1, 1)
    assert text.stderr == "error: handlers/_registry.py is stale: run `scheduled-actions registry build`\n"
    assert as_json.json["is_fresh"] is False
    assert (project / "handlers" / "_registry.py").read_text(encoding="utf-8") == stale


def test_check_rejects_a_missing_registry(run_anywhere, project):
    (project / "handlers" / "_registry.py").unlink()

    ran = run_anywhere("registry", "check")

    assert ran.exit_code == 1
    assert ran.stderr == "error: handlers/_registry.py is missing: run `scheduled-actions registry build`\n"


def test_build_rejects_a_duplicate_action_type_and_writes_nothing(run_anywhere, project):
    (project / "handlers" / "again.py").write_text(
        "from scheduled_actions import action\n\n@action('greeting:say')\ndef again(payload: dict): ...\n",
        encoding="utf-8",
    )
    before = (project / "handlers" / "_registry.py").read_text(encoding="utf-8")

    ran = run_anywhere("registry", "build")

    assert ran.exit_code == 1
    assert ran.stderr.startswith("error: handlers/")
    assert '"greeting:say" already has a handler' in ran.stderr
    assert (project / "handlers" / "_registry.py").read_text(encoding="utf-8") == before


def test_an_unknown_subcommand_is_a_usage_error(run_anywhere):
    assert run_anywhere("registry", "destroy").exit_code == 2


LIMITED = """from scheduled_actions import action


@action("crm:sync", limit=["mail", "api:{payload.customer}"])
def sync(payload: dict): ...
"""


def test_check_names_a_handler_whose_limit_matches_no_pattern(run_anywhere, project):
    (project / "handlers" / "crm.py").write_text(LIMITED, encoding="utf-8")
    settings = project / "scheduled_actions.toml"
    settings.write_text('[limits."mail"]\n[limits."apis:*"]\n', encoding="utf-8")
    run_anywhere("registry", "build")

    refused = run_anywhere("registry", "check")
    settings.write_text('[limits."mail"]\n[limits."api:*"]\n', encoding="utf-8")

    assert refused.exit_code == 1
    assert refused.stderr == (
        'error: handlers.crm:sync: the limit "api:{payload.customer}" of "crm:sync" matches no pattern of [limits]: '
        "add one to scheduled_actions.toml, or correct the limit\n"
    )
    assert run_anywhere("registry", "check").exit_code == 0
