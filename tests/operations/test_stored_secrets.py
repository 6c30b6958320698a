"""The first tick of a process reports stored secrets that the encryption key does not decrypt."""

from __future__ import annotations

import base64
import logging

import pytest

from scheduled_actions import action
from scheduled_actions.core.encryption import SecretBox
from scheduled_actions.core.errors import NotConfigured, SecretUnreadable
from scheduled_actions.operations import stored_secrets
from tests.factories import insert, projects, row

# In lower case, as the factory passes settings.
KEY, OTHER_KEY = (base64.b64encode(bytes([number]) * 32).decode().lower() for number in (7, 77))


@action("test:run")
def run(payload: dict) -> None: ...


@pytest.fixture
def a_project(database_url):
    """Return a function that creates a project with a handler."""
    with projects(database_url) as create:
        yield lambda **settings: create(run, **settings)


@pytest.fixture
def reads(monkeypatch):
    """Return a list with an entry for each time that the stored secrets were read."""
    read, counted = stored_secrets.read, []

    def count(connection):
        counted.append(connection)
        return read(connection)

    monkeypatch.setattr(stored_secrets, "read", count)
    return counted


def secrets_of(*keys):
    return stored_secrets.StoredSecrets(len(keys), [SecretBox([key]).seal("whsec_") for key in keys])


def test_the_first_tick_reports_unreadable_secrets_once_and_runs_the_actions(a_project, connection, reads, caplog):
    for _ in range(2):
        a_project(encryption_key=KEY).endpoints.create(url="https://hooks.example.org/")
    project = a_project(encryption_key=OTHER_KEY)
    due = insert(connection)

    with caplog.at_level(logging.ERROR, "scheduled_actions"):
        first, second = project.processor.tick(), project.processor.tick()

    (error,) = first.errors
    assert (first.success, first.succeeded, row(connection, due)["status"]) == (True, 1, "completed")
    assert error["error"].startswith("secrets: SecretUnreadable: the secret of 2 of 2 webhook endpoints was encrypted")
    assert "append that key after a comma" in error["error"]
    assert "secrets.refused" in caplog.text
    assert second.errors == []
    assert len(reads) == 1


def test_a_project_without_stored_secrets_needs_no_key_and_reads_them_once(a_project, reads):
    project = a_project()

    reports = [project.processor.tick() for _ in range(3)]

    assert [report.errors for report in reports] == [[]] * 3
    assert len(reads) == 1


def test_readable_secrets_are_not_reported(a_project):
    a_project(encryption_key=KEY).endpoints.create(url="https://hooks.example.org/")

    assert a_project(encryption_key=f"{OTHER_KEY},{KEY}").processor.tick().errors == []


def test_the_error_contains_the_number_of_unreadable_secrets():
    with pytest.raises(SecretUnreadable, match=r"^the secret of 1 of 3 webhook endpoints was encrypted with a key"):
        stored_secrets.check(secrets_of(KEY, OTHER_KEY, KEY), [KEY])


def test_a_missing_key_is_the_one_that_encrypted_the_secrets():
    with pytest.raises(NotConfigured, match="set it to the key that encrypted the secrets of 2 webhook endpoints"):
        stored_secrets.check(secrets_of(KEY, KEY), [])
