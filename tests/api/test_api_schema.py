"""The OpenAPI document says what the API does: requests made of it find nothing else."""

from __future__ import annotations

import itertools
import logging
import threading
from typing import Any

import pytest
import schemathesis
from cryptography.fernet import Fernet
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import events, from_schema
from werkzeug.serving import make_server

from handlers import notification
from scheduled_actions import action
from scheduled_actions.registry import Registry
from tests.api.conftest import ADMIN_TOKEN, application

SETTINGS = {
    "seed": 20261121,
    "headers": {"Authorization": f"Bearer {ADMIN_TOKEN}"},
    "generation": {"max-examples": 8, "deterministic": True, "database": "none"},
}
#: The rules of the stateful phase do not know that an action that was cancelled by DELETE stays to be seen.
PHASES = {"stateful": {"enabled": False}}
#: Paths that are asked with settings of their own.
ALONE = ("/actions", "/actions/batch", "/api/v1/cron/process", "/calendar", "/notifications", "/local-actions")


@action("test:take")
def take(payload: dict[str, Any] | list[Any]):
    """Take whatever the document says that a payload may be."""


@pytest.fixture
def address(a_runtime, caplog):
    """Give the address of a server with the routes."""
    caplog.set_level(logging.ERROR, "werkzeug")
    key = Fernet.generate_key().decode()
    app = application(a_runtime(registry=Registry.of(take, notification.send), SCHEDULED_ACTIONS_ENCRYPTION_KEY=key))
    numbers = itertools.count()

    def from_everywhere(environ, start_response):
        # Each request comes from another address: how often one may guess a token is not what is asked here.
        number = next(numbers)
        environ["REMOTE_ADDR"] = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
        return app(environ, start_response)

    server = make_server("127.0.0.1", 0, from_everywhere, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning")
@pytest.mark.parametrize(
    ("paths", "settings"),
    [
        ("/actions$", {}),
        # Each of its fields is tried where one action is scheduled.
        ("/actions/batch$", {"phases": PHASES | {"coverage": {"enabled": False}}}),
        ("/webhooks/", {}),
        # A rule is a text, and what may stand in it is more than a schema can say.
        ("/schedules", {"checks": {"positive_data_acceptance": {"enabled": False}}}),
        # So is a distance from a due instant.
        ("/deadlines", {"checks": {"positive_data_acceptance": {"enabled": False}}}),
        # So are a recipient, a time of day, and where a page ended.
        (
            "/api/v1/(calendar|notifications|local-actions)$",
            {
                "checks": {"positive_data_acceptance": {"enabled": False}},
                "phases": PHASES | {"coverage": {"enabled": False}},
            },
        ),
        (f"^(?!.*(({'|'.join(ALONE)})$|/webhooks/|/schedules|/deadlines))", {}),
    ],
    ids=["actions", "batch", "webhooks", "schedules", "deadlines", "people", "the others"],
)
def test_requests_made_of_the_document_find_nothing_that_it_does_not_say(address, paths, settings):
    config = SchemathesisConfig.from_dict(SETTINGS | {"phases": PHASES} | settings)
    schema = schemathesis.openapi.from_url(f"{address}/openapi.json", config=config).include(path_regex=paths)

    found = []
    asked = set()
    for event in from_schema(schema).execute():
        match event:
            case events.ScenarioFinished(recorder=recorder):
                asked |= {event.label} if recorder.interactions else set()
                found += [
                    f"{event.label}: {check.failure_info.failure} {recorder.interactions[case].response.text}"
                    for case, checks in recorder.checks.items()
                    for check in checks
                    if check.failure_info is not None
                ]
            case events.NonFatalError() | events.FatalError():
                found.append(str(event))

    assert asked
    assert found == []
