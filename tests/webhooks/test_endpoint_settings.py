"""Each setting of an endpoint exists in Python, over HTTP, on the command line and in the docs, and has an effect."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import click
import pytest

from scheduled_actions.cli.webhooks.endpoints import endpoints
from scheduled_actions.core import config
from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.core.retry import Delays
from scheduled_actions.web.api.webhooks import models
from scheduled_actions.webhooks.endpoints import checks
from scheduled_actions.webhooks.endpoints.directory import DeliveryTarget, EndpointDirectory
from scheduled_actions.webhooks.endpoints.model import Endpoint, EndpointDetails, EndpointQueue, declared_endpoint
from scheduled_actions.webhooks.endpoints.service import details_of
from tests.webhooks.test_endpoints import emit
from tests.webhooks.webhook_project import URL, webhook_project
from tests.webhooks.wire import a_wire

DOCS = Path(__file__).parents[2] / "docs"
#: Settings of which only the names are shown, because their values may be secrets.
SECRET = {"headers"}
#: Settings that only people read.
FOR_PEOPLE = {"description"}
#: Settings that SQL reads from the database, which also stores the endpoints of the settings file.
OF_THE_DATABASE = {"ordering"}
#: Settings that the settings file does not have; the URL is in the environment.
NOT_IN_THE_FILE = {"url", "filter", "headers"}


@dataclass(frozen=True)
class Sample:
    """A value of a setting that is not its default, and its forms in the API and in deliveries if they differ."""

    given: Any
    shown: Any = None
    delivered: Any = None


SAMPLES = {
    "url": Sample("https://crm.example/in"),
    "description": Sample("The CRM"),
    "patterns": Sample(["task:*"], delivered=("task:*",)),
    "filter": Sample({"data.n": 1}),
    "enabled": Sample(given=False),
    "ordering": Sample("fifo"),
    "rate_limit": Sample(5.0),
    "retry": Sample([7, 8], shown=Delays((7, 8)).as_json(), delivered=Delays((7, 8))),
    "headers": Sample({"x-tenant": "blue"}, shown=["x-tenant"]),
}


def sample_of(setting):
    """Return the sample of a setting as it is given, shown by the API, and used for deliveries."""
    assert setting in SAMPLES, f"give {setting!r} a value in SAMPLES that is not its default"
    sample = SAMPLES[setting]
    seen = [sample.given if form is None else form for form in (sample.shown, sample.delivered)]
    return sample.given, *seen


def may_be_null(setting):
    try:
        return checks.check_settings({setting: None}) == {setting: None}
    except InvalidArgument:
        return False


def shown_by(endpoint, setting):
    """Return the value of a setting as the API shows it."""
    document = models.EndpointDocument.model_validate(endpoint).model_dump()
    return document["header_names" if setting == "headers" else setting]


def delivered_by(directory, name, setting):
    """Return the value of a setting as deliveries to an endpoint use it."""
    endpoint = directory.lookup(name)
    has_it = [one for one in (endpoint, directory.target(endpoint)) if hasattr(one, setting)]
    assert has_it, f"no delivery sees {setting!r}: neither Endpoint nor DeliveryTarget has it"
    return getattr(has_it[0], setting)


@pytest.fixture(scope="module")
def project(tmp_path_factory, shared_database_url):
    """Yield one project for all tests of this module; each test creates its own endpoints."""
    with webhook_project(tmp_path_factory.mktemp("project"), shared_database_url) as project:
        yield project


@pytest.mark.parametrize("setting", sorted(set(checks.CHECKS)))
def test_each_setting_is_stored_until_it_is_changed(project, setting):
    given, shown, _ = sample_of(setting)
    other = {"url": URL} if setting == "description" else {"description": "another"}
    usual, _ = project.endpoints.create(url=URL)
    made, _ = project.endpoints.create(**{"url": URL, setting: given})

    changed = project.endpoints.update(usual.id, **{setting: given})
    kept = project.endpoints.update(made.id, **other)

    assert shown_by(usual, setting) != shown, "that is the default: it proves nothing"
    assert [shown_by(one, setting) for one in (made, changed, kept)] == [shown] * 3


@pytest.mark.parametrize("setting", sorted(filter(may_be_null, set(checks.CHECKS))))
def test_a_nullable_setting_can_be_reset_to_null(project, setting):
    given, _, _ = sample_of(setting)
    made, _ = project.endpoints.create(**{"url": URL, setting: given})

    assert shown_by(project.endpoints.update(made.id, **{setting: None}), setting) is None
    assert delivered_by(project.endpoint_directory, made.id, setting) is None


@pytest.mark.parametrize("setting", sorted(set(checks.CHECKS) - FOR_PEOPLE))
def test_deliveries_use_each_setting_of_a_database_endpoint(project, setting):
    given, _, delivered = sample_of(setting)
    made, _ = project.endpoints.create(**{"url": URL, setting: given})

    assert delivered_by(project.endpoint_directory, made.id, setting) == delivered


@pytest.mark.parametrize("setting", sorted(set(checks.CHECKS) - NOT_IN_THE_FILE))
def test_the_api_shows_and_deliveries_use_each_setting_of_a_file_endpoint(tmp_path, project, setting):
    given, shown, delivered = sample_of(setting)
    toml = f'[webhooks.endpoints.crm]\nenv_var = "CRM_URL"\n{setting} = {json.dumps(given)}'
    (tmp_path / "scheduled_actions.toml").write_text(toml, encoding="utf-8")
    made = config.load(tmp_path, {"CRM_URL": URL})
    nothing = EndpointQueue(0, 1, 0, None, 0, None, None, is_complete=True)

    endpoint = details_of(declared_endpoint("crm", made.settings.webhooks.endpoints["crm"]), nothing, url=URL)

    assert shown_by(endpoint, setting) == shown
    if setting not in FOR_PEOPLE:
        assert delivered_by(EndpointDirectory(made, project.database), "crm", setting) == delivered


def test_a_delivery_reads_each_setting(tmp_path, database_url, monkeypatch):
    read = set()

    def reading(self, name):
        read.add(name)
        return object.__getattribute__(self, name)

    monkeypatch.setattr(Endpoint, "__getattribute__", reading)
    monkeypatch.setattr(DeliveryTarget, "__getattribute__", reading)
    with a_wire(monkeypatch, tmp_path) as wire, webhook_project(tmp_path, database_url) as project:
        wire.post(URL)
        project.endpoints.create(url=URL)
        emit(project)
        project.processor.tick()

    assert len(wire.calls) == 1
    assert set(checks.CHECKS) - FOR_PEOPLE - OF_THE_DATABASE - read == set(), "nothing follows from them"


def test_the_api_accepts_and_returns_each_setting():
    assert models.UpdateEndpointRequest.model_fields.keys() == set(checks.CHECKS)
    assert models.CreateEndpointRequest.model_fields.keys() == set(checks.CHECKS) | {"team_id", "secret"}
    assert models.EndpointDocument.model_fields.keys() == {field.name for field in fields(EndpointDetails)}
    assert {field.name for field in fields(EndpointDetails)} >= set(checks.CHECKS) - SECRET


def test_the_command_line_accepts_each_setting():
    update = endpoints.get_command(click.Context(endpoints), "update")

    assert {option.name for option in update.params} >= set(checks.CHECKS) - {"enabled"}


def test_the_api_reference_names_each_setting():
    page = (DOCS / "reference/http.md").read_text(encoding="utf-8")
    [row] = [line for line in page.splitlines() if line.startswith("| `POST /api/v1/webhooks/endpoints` |")]

    assert {name for name in set(checks.CHECKS) if f"`{name}`" not in row} == set()
