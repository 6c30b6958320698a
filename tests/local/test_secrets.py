"""Secrets that `dev` generates for a project on the local machine."""

from __future__ import annotations

import re

import pytest

from scheduled_actions.core import config
from scheduled_actions.core.encryption import SecretBox
from scheduled_actions.local import environment

SECRET = "a-cron-secret-of-these-tests"


def test_missing_secrets_are_generated_once_and_readable_only_by_their_owner(tmp_path):
    assert environment.ensure_secrets(tmp_path, {}) == (
        "CRON_SECRET",
        "ADMIN_TOKEN",
        "SCHEDULED_ACTIONS_ENCRYPTION_KEY",
    )
    text = (tmp_path / ".env").read_text()

    assert environment.ensure_secrets(tmp_path, {}) == ()
    assert (tmp_path / ".env").read_text() == text
    assert (tmp_path / ".env").stat().st_mode & 0o777 == 0o600
    values = environment.parse(text)
    assert all(len(value) >= 32 for value in values.values())
    assert len(set(values.values())) == 3


def test_the_generated_key_encrypts_and_decrypts(tmp_path):
    environment.ensure_secrets(tmp_path, {})

    box = SecretBox(config.load(tmp_path, environment.load(tmp_path, {})).encryption_keys)

    assert box.open(box.seal("kept"), what="it") == "kept"


def test_nothing_is_generated_if_a_program_provides_the_secrets(tmp_path):
    assert environment.ensure_secrets(tmp_path, {environment.COMMAND_NAME: "sops -d .env.enc"}) == ()
    assert not (tmp_path / ".env").exists()


def test_a_secret_in_the_environment_is_not_generated(tmp_path):
    given = dict.fromkeys(environment.GENERATED_NAMES, SECRET)

    assert environment.ensure_secrets(tmp_path, given) == ()
    assert not (tmp_path / ".env").exists()


@pytest.mark.parametrize(
    ("before", "kept"),
    [
        ("# mine\nOTHER=1", {"OTHER": "1"}),
        ("CRON_SECRET=\nOTHER='a b'\n", {"OTHER": "a b"}),
        ("export CRON_SECRET=\n", {}),
        (f"CRON_SECRET={SECRET}\n", {"CRON_SECRET": SECRET}),
        ("\ufeffOTHER=1\n", {"OTHER": "1"}),
    ],
)
def test_existing_lines_of_the_env_file_are_kept(tmp_path, before, kept):
    (tmp_path / ".env").write_text(before, encoding="utf-8")

    environment.ensure_secrets(tmp_path, {})

    after = (tmp_path / ".env").read_text()
    values = environment.parse(after)
    assert kept.items() <= values.items()
    assert values["CRON_SECRET"]
    assert values["ADMIN_TOKEN"]
    assert ("# mine" in after) == ("# mine" in before)
    # The `sed` command that `dev` prints finds exactly the secret.
    assert re.findall(r"^CRON_SECRET=(.*)$", after, re.MULTILINE) == [values["CRON_SECRET"]]
