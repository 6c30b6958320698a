"""The secrets that `dev` makes for a project on one's own machine."""

from __future__ import annotations

import re

import pytest

from scheduled_actions.core import config
from scheduled_actions.core.encryption import SecretBox
from scheduled_actions.local import environment
from scheduled_actions.local import secrets as local_secrets

SECRET = "a-cron-secret-of-these-tests"


def test_missing_secrets_are_made_once_and_for_their_owner_alone(tmp_path):
    assert local_secrets.ensure(tmp_path, {}) == ("CRON_SECRET", "ADMIN_TOKEN", "SCHEDULED_ACTIONS_ENCRYPTION_KEY")
    text = (tmp_path / ".env").read_text()

    assert local_secrets.ensure(tmp_path, {}) == ()
    assert (tmp_path / ".env").read_text() == text
    assert (tmp_path / ".env").stat().st_mode & 0o777 == 0o600
    values = environment.parse(text)
    assert all(len(value) >= 32 for value in values.values())
    assert len(set(values.values())) == 3


def test_the_key_that_is_made_encrypts(tmp_path):
    local_secrets.ensure(tmp_path, {})

    box = SecretBox(config.load(tmp_path, environment.load(tmp_path, {})).encryption_keys)

    assert box.open(box.seal("kept"), what="it") == "kept"


def test_nothing_is_made_where_a_program_gives_the_secrets(tmp_path):
    assert local_secrets.ensure(tmp_path, {environment.COMMAND_NAME: "sops -d .env.enc"}) == ()
    assert not (tmp_path / ".env").exists()


def test_a_secret_of_the_environment_needs_no_line(tmp_path):
    there = dict.fromkeys(local_secrets.NAMES, SECRET)

    assert local_secrets.ensure(tmp_path, there) == ()
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
def test_what_stands_in_a_dot_env_stays(tmp_path, before, kept):
    (tmp_path / ".env").write_text(before, encoding="utf-8")

    local_secrets.ensure(tmp_path, {})

    after = (tmp_path / ".env").read_text()
    values = environment.parse(after)
    assert kept.items() <= values.items()
    assert values["CRON_SECRET"]
    assert values["ADMIN_TOKEN"]
    assert ("# mine" in after) == ("# mine" in before)
    # What the printed `sed` finds is the secret, and only that.
    assert re.findall(r"^CRON_SECRET=(.*)$", after, re.MULTILINE) == [values["CRON_SECRET"]]
