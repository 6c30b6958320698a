"""Commands find the secrets of a project where its `.env`, or the program in its place, gives them."""

from __future__ import annotations


def test_a_command_line_finds_the_secrets_of_the_program_and_runs_it_once(run, project):
    (project / "give").write_text("#!/bin/sh\necho run >> runs\necho 'CRON_SECRET=of-the-program-and-long-enough'\n")
    (project / "give").chmod(0o755)

    shown = run(
        "cron-setup", "crontab", "--url", "https://app.example.com", "--show-secret",
        SCHEDULED_ACTIONS_ENV_COMMAND="./give", CRON_SECRET=None,
    )  # fmt: skip

    assert "of-the-program-and-long-enough" in shown.stdout
    assert (project / "runs").read_text() == "run\n"


def test_the_doctor_says_that_the_program_failed(run):
    ran = run("doctor", SCHEDULED_ACTIONS_ENV_COMMAND="false")

    assert ran.exit_code == 1
    assert "SCHEDULED_ACTIONS_ENV_COMMAND: false failed with exit code 1" in ran.stdout
