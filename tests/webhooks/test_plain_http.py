"""In production, endpoints of the settings file need https, except inside `webhooks.private_networks`."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from scheduled_actions.database.connection import Connection
from scheduled_actions.operations.doctor import service as doctor
from scheduled_actions.outbound import delivery
from scheduled_actions.outbound.reach import parse_networks
from tests.web.conftest import ADMIN_TOKEN, Api, application
from tests.web.dashboard.conftest import Person
from tests.webhooks.test_endpoints import emit
from tests.webhooks.webhook_project import webhook_project

TOML = """
[webhooks]
private_networks = ["127.0.0.0/8", "::1/128", "10.0.0.0/8"]
[webhooks.endpoints.crm]
env_var = "CRM_URL"
patterns = ["crm:*"]
"""
REASON = "CRM_URL is an http URL, but production requires https outside webhooks.private_networks"


@pytest.fixture
def a_project(tmp_path, database_url):
    """Return a function that opens a project in production whose endpoint `crm` has the given URL."""

    @contextmanager
    def open_project(url, *, toml=TOML, **environ):
        environ = {"SCHEDULED_ACTIONS_ENV": "production", "CRM_URL": url, "ADMIN_TOKEN": ADMIN_TOKEN} | environ
        with webhook_project(tmp_path, database_url, toml=toml, **environ) as project:
            yield project

    return open_project


@pytest.fixture
def connections(monkeypatch):
    """Return the list of addresses to which a connection was attempted; each attempt is refused."""
    addresses = []

    def connect(_self, address):
        addresses.append(address[0])
        raise ConnectionRefusedError

    monkeypatch.setattr(socket.socket, "connect", connect)
    return addresses


def deliveries(connection: Connection) -> list[tuple[str, str, str]]:
    return connection.execute(
        "select payload->>'event', status, error_message from scheduled_actions where payload ? 'endpoint'"
        " and payload->>'endpoint' is not null"
    ).fetchall()


@pytest.mark.parametrize(
    ("url", "is_exposed"),
    [
        ("http://8.8.8.8/hook", True),
        ("http://192.168.0.1/hook", True),
        ("http://[2a00:1450::1]:8080/hook", True),
        ("https://8.8.8.8/hook", False),
        ("http://10.1.2.3/hook", False),
        ("http://127.0.0.1:9000/hook", False),
        ("http://[::1]/hook", False),
        ("ftp://8.8.8.8/hook", False),
        ("http://", False),
    ],
)
def test_only_plain_http_to_an_address_outside_the_networks_is_exposed(url, is_exposed):
    networks = parse_networks(["127.0.0.0/8", "::1/128", "10.0.0.0/8"])

    assert delivery.is_exposed(url, networks=networks) is is_exposed


def test_an_http_endpoint_is_disabled_in_production_and_its_events_do_not_fail(a_project, connection, connections):
    with a_project("http://8.8.8.8/t0ken") as project:
        emit(project, "crm:created")
        report = project.processor.tick()
        project.processor.tick()

    assert (report.failed, connections) == (0, [])
    assert deliveries(connection) == [("crm:created", "skipped", f'endpoint "crm" is disabled: {REASON}')]


@pytest.mark.parametrize(
    ("url", "environ"),
    [
        ("https://8.8.8.8/hook", {}),
        ("http://10.1.2.3/hook", {}),
        ("http://8.8.8.8/hook", {"SCHEDULED_ACTIONS_ENV": "development"}),
    ],
)
def test_https_private_networks_and_development_stay_allowed(a_project, connection, connections, url, environ):
    with a_project(url, **environ) as project:
        emit(project, "crm:created")
        project.processor.tick()
        project.processor.tick()
        found = project.endpoints.get("crm")

    assert (found.enabled, found.disabled_reason) == (True, None)
    assert len(connections) >= 1
    assert [one[2].partition(":")[0] for one in deliveries(connection)] == ["DeliveryFailed"]


def test_a_host_that_moves_to_a_public_address_gets_nothing(a_project, connection, connections, monkeypatch):
    numeric = socket.getaddrinfo("8.8.8.8", 80, type=socket.SOCK_STREAM)
    answers = [OSError("no answer"), numeric]
    resolve = socket.getaddrinfo

    def getaddrinfo(host, *arguments, **options):
        if host != "crm.example":
            return resolve(host, *arguments, **options)
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    with a_project("http://crm.example/hook") as project:
        emit(project, "crm:created")
        project.processor.tick()
        project.processor.tick()

    assert connections == []
    assert [one[2] for one in deliveries(connection)] == [
        'DeliveryFailed: endpoint "crm" did not respond: crm.example:80 has an address outside the allowed networks'
    ]


def test_the_api_and_the_dashboard_show_why_the_endpoint_is_disabled(a_project):
    with a_project("http://8.8.8.8/t0ken") as project:
        app = application(project)
        shown = Api(app.test_client(), ADMIN_TOKEN)("GET", "/webhooks/endpoints/crm").json
        person = Person(app.test_client())
        person.signs_in(ADMIN_TOKEN)
        pages = [person.opens(path).text for path in ("/", "/webhooks", "/webhooks/endpoints/crm")]

    assert (shown["enabled"], shown["disabled_at"], shown["disabled_reason"]) == (False, None, REASON)
    assert [REASON in page for page in pages] == [True, True, True]
    assert "t0ken" not in "".join(pages)


def test_doctor_reports_the_endpoint_and_what_to_do(a_project):
    with a_project("http://8.8.8.8/t0ken") as project:
        (check,) = [one for one in doctor.diagnose(project) if one.name == "endpoint:crm"]

    assert (check.level, check.detail) == ("fault", f"disabled, and its deliveries are skipped: {REASON}")
    assert check.remedy.startswith("set the variable to an https URL, or add the network of its host to webhooks.")
    assert "`scheduled-actions webhooks deliveries recover --endpoint crm --from WHEN`" in check.remedy


def test_an_endpoint_that_its_owner_disabled_has_no_other_reason(a_project):
    with a_project("http://8.8.8.8/hook", toml=f"{TOML}enabled = false\n") as project:
        found = project.endpoints.get("crm")

    assert (found.enabled, found.disabled_reason) == (False, None)


def test_deliveries_are_recovered_after_the_url_is_corrected(a_project, connection, connections):
    with a_project("http://8.8.8.8/hook") as project:
        emit(project, "crm:created")
        project.processor.tick()
        project.processor.tick()
    with a_project("https://8.8.8.8/hook") as project:
        since, batch = datetime.now(UTC) - timedelta(hours=1), None
        while batch is None or not batch.is_done:
            batch = project.deliveries.recover(since, endpoint="crm", after=batch)
        project.processor.tick()

    assert connections == ["8.8.8.8"]
    assert [one[1] for one in deliveries(connection)] == ["pending"]
