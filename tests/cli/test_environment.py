"""Commands read the secrets of a project from the program that replaces its `.env`."""

from __future__ import annotations


def test_a_command_reads_the_output_of_the_program_and_runs_it_once(run, project):
    (project / "give").write_text("#!/bin/sh\necho run >> runs\necho 'CRON_SECRET=of-the-program-and-long-enough'\n")
    (project / "give").chmod(0o755)

    shown = run(
        "cron-setup", "crontab", "--url", "https://app.example.com", "--show-secret",
        SCHEDULED_ACTIONS_ENV_COMMAND="./give", CRON_SECRET=None,
    )  # fmt: skip

    assert "of-the-program-and-long-enough" in shown.stdout
    assert (project / "runs").read_text() == "run\n"


def test_doctor_reports_a_failure_of_the_program(run):
    ran = run("doctor", SCHEDULED_ACTIONS_ENV_COMMAND="false")

    assert ran.exit_code == 1
    assert "SCHEDULED_ACTIONS_ENV_COMMAND: false failed with exit code 1" in ran.stdout


def test_each_command_reports_a_name_with_two_values_on_one_line(run, project):
    (project / ".env").write_text("A=1\n\nKEY=hunter2\n\nKEY=hunter3\n")
    error = ".env: line 5 sets KEY again, to another value than line 3: remove one of them"

    for command in (["process"], ["actions", "list"], ["schedule", "greeting:say"], ["migrate"], ["psql"]):
        ran = run(*command)

        assert (ran.exit_code, ran.stdout, ran.stderr) == (1, "", f"error: {error}\n")
    assert error in run("doctor").stdout
