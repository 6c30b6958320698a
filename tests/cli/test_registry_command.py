"""`registry build` and `registry check`."""

from __future__ import annotations


def test_build_writes_the_registry_and_says_how_much_it_found(run_anywhere, project):
    (project / "handlers" / "_registry.py").unlink()

    first, second = run_anywhere("registry", "build"), run_anywhere("registry", "build")

    assert (first.exit_code, second.exit_code) == (0, 0)
    assert first.stdout == "handlers/_registry.py: 1 action type, written\n"
    assert second.stdout == "handlers/_registry.py: 1 action type, unchanged\n"
    assert '"greeting:say"' in (project / "handlers" / "_registry.py").read_text(encoding="utf-8")


def test_check_is_content_with_a_fresh_registry(run_anywhere):
    for_people, for_programs = run_anywhere("registry", "check"), run_anywhere("registry", "check", "--json")

    assert (for_people.exit_code, for_people.stdout) == (0, "up to date: 1 action type\n")
    assert (for_programs.exit_code, for_programs.json) == (0, {"is_fresh": True, "action_types": ["greeting:say"]})


def test_check_refuses_a_stale_one_and_writes_nothing(run_anywhere, project):
    stale = "HANDLERS = {}\n"
    (project / "handlers" / "_registry.py").write_text(stale, encoding="utf-8")

    for_people, for_programs = run_anywhere("registry", "check"), run_anywhere("registry", "check", "--json")

    assert (for_people.exit_code, for_programs.exit_code) == (1, 1)
    assert for_people.stderr == "error: handlers/_registry.py is stale: run `scheduled-actions registry build`\n"
    assert for_programs.json["is_fresh"] is False
    assert (project / "handlers" / "_registry.py").read_text(encoding="utf-8") == stale


def test_check_refuses_a_missing_one(run_anywhere, project):
    (project / "handlers" / "_registry.py").unlink()

    ran = run_anywhere("registry", "check")

    assert ran.exit_code == 1
    assert ran.stderr == "error: handlers/_registry.py is missing: run `scheduled-actions registry build`\n"


def test_a_mistake_in_the_handlers_is_named_with_file_and_line_and_nothing_is_written(run_anywhere, project):
    (project / "handlers" / "again.py").write_text(
        "from scheduled_actions import action\n\n@action('greeting:say')\ndef again(payload: dict): ...\n",
        encoding="utf-8",
    )
    before = (project / "handlers" / "_registry.py").read_text(encoding="utf-8")

    ran = run_anywhere("registry", "build")

    assert ran.exit_code == 1
    assert ran.stderr.startswith("error: handlers/")
    assert '"greeting:say" has a handler already' in ran.stderr
    assert (project / "handlers" / "_registry.py").read_text(encoding="utf-8") == before


def test_registry_needs_to_be_told_what_to_do(run_anywhere):
    assert run_anywhere("registry", "destroy").exit_code == 2
