"""The documentation of the API: `/openapi.json` and `/docs`."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest
from flask import Flask
from markupsafe import escape

from scheduled_actions.core.errors import ScheduledActionsError
from scheduled_actions.recurrence.skips.model import Skips
from scheduled_actions.web.api.dispatch import ROUTES
from scheduled_actions.web.api.problems import status_of
from tests.web.conftest import ADMIN_TOKEN, application


@pytest.fixture
def document(client):
    return client.get("/openapi.json").json


def operations(document):
    return {
        (method.upper(), path): operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


def test_every_route_is_documented_with_its_role_and_errors(document):
    described = operations(document)

    for route in ROUTES:
        operation = described.pop((route.method, f"/api/v1{route.path}"))
        assert operation["security"] == [{"token": []}]
        assert f"`{route.role}`" in operation["description"]
        assert {"400", "401", "403", "429", "500", "503"} <= set(operation["responses"])
        assert "`registry_invalid`" in operation["responses"]["503"]["description"]
        for kind in route.refuses:
            assert kind.code in str(operation["responses"][str(int(status_of(kind)))])
    assert {path for _, path in described} == {
        "/cron/process", "/api/v1/cron/process", "/healthz", "/readyz", "/metrics", "/openapi.json", "/docs"
    }  # fmt: skip


def test_every_path_of_the_application_is_documented(runtime, document):
    rules = {rule.rule for rule in application(runtime).url_map.iter_rules() if rule.endpoint != "static"}

    # The pages of the dashboard are not part of the API.
    others = {rule for rule in rules if not rule.startswith("/dashboard")}
    assert {rule for rule in others if rule != "/api/v1" and "<" not in rule} <= set(document["paths"])


@pytest.mark.parametrize("path", ["/cron/process", "/api/v1/cron/process"])
@pytest.mark.parametrize("method", ["get", "post"])
def test_a_ping_is_described_with_its_executor(document, path, method):
    operation = document["paths"][path][method]

    [parameter] = operation["parameters"]
    assert (parameter["name"], parameter["in"], parameter["required"]) == ("executor", "query", False)
    assert "`unknown_executor`" in operation["responses"]["422"]["description"]
    assert "`invalid_argument`" in operation["responses"]["400"]["description"]


def test_operation_ids_are_unique(document):
    names = [operation["operationId"] for operation in operations(document).values()]

    assert len(names) == len(set(names))
    assert "get_action" in names


def test_a_path_parameter_that_can_be_a_name_is_described_in_the_document_and_on_the_page(client, document):
    (reference, *_) = document["paths"]["/api/v1/schedules/{id}"]["get"]["parameters"]

    assert reference["description"] == (
        "Id or name of the resource. By name, a team's token finds only resources of the team, and any other token "
        "only resources without a team."
    )
    assert f"<td>{escape(reference['description'])}</td>" in client.get("/docs").text


def test_every_reference_points_to_a_schema(document):
    schemas = document["components"]["schemas"]
    used = set(re.findall(r"'#/components/schemas/(\w+)'", str(document)))

    assert used <= set(schemas)
    assert "x-schema" not in str(document)


def test_the_document_needs_no_token_and_no_database(a_runtime):
    client = application(a_runtime(ADMIN_TOKEN="", DATABASE_URL="postgresql://127.0.0.1:1/none")).test_client()

    assert client.get("/openapi.json").status_code == client.get("/docs").status_code == 200


def test_the_document_does_not_contain_the_handlers_of_the_project(client):
    for path in ("/openapi.json", "/docs"):
        text = client.get(path).text
        assert "test:welcome" not in text
        assert ADMIN_TOKEN not in text


@pytest.mark.parametrize(("prefix", "server"), [(None, "/"), ("/scheduled", "/scheduled")])
def test_the_document_has_the_path_under_which_the_routes_are_mounted(runtime, prefix, server):
    client = application(runtime, url_prefix=prefix).test_client()

    document = client.get(f"{prefix or ''}/openapi.json").json

    assert document["openapi"] == "3.1.0"
    assert document["servers"] == [{"url": server}]


def test_the_documentation_page_has_every_route_and_schema(client, document):
    page = client.get("/docs")

    assert page.mimetype == "text/html"
    for method, path in operations(document):
        assert f"<code>{method} {path}</code>" in page.text
    for name in document["components"]["schemas"]:
        assert f'id="schema-{name}"' in page.text
    for target in re.findall(r'href="#([^"]+)"', page.text):
        assert f'id="{target}"' in page.text


def test_the_documentation_page_has_no_scripts_or_external_resources(client):
    page = client.get("/docs")

    assert "<script" not in page.text
    assert not re.search(r"(src|href)=\"(https?:)?//", page.text)
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_routes_of_the_embedding_application_are_not_changed(runtime):
    app = Flask("mine")
    app.add_url_rule("/actions", view_func=lambda: "mine")
    from scheduled_actions import ScheduledActions

    ScheduledActions(app, runtime=runtime)
    client = app.test_client()

    assert client.get("/actions").text == "mine"
    assert client.get("/nowhere").mimetype == "text/html"


def test_every_error_class_has_an_http_status():
    def family(kind):
        return {kind}.union(*(family(child) for child in kind.__subclasses__()))

    for kind in family(ScheduledActionsError):
        assert 400 <= status_of(kind) < 600


def test_the_schema_of_skip_has_every_key(document):
    for model in ("CreateScheduleRequest", "UpdateScheduleRequest", "PreviewRequest"):
        skip = document["components"]["schemas"][model]["properties"]["skip"]["anyOf"][0]

        assert skip["additionalProperties"] is False
        assert set(skip["properties"]) == {field.name for field in fields(Skips) if field.init}
