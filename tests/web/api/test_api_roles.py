"""The access rules of all paths: the role that each route and page requires."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from cryptography.fernet import Fernet

from scheduled_actions.operations import tokens
from scheduled_actions.operations.tokens import Role
from scheduled_actions.web.api.dispatch import ROUTES
from scheduled_actions.web.dashboard.site_map import PAGES
from tests.factories import move_clock
from tests.web.conftest import Api, application
from tests.web.dashboard.conftest import Person

UNKNOWN = "0197a000-0000-7000-8000-00000000ffff"
#: All paths of the application, with the required credentials.
ADDRESSES = {
    "/static/<path:filename>": "Flask's own",
    "/cron/process": "CRON_SECRET",
    "/api/v1/cron/process": "CRON_SECRET",
    "/api/v1": "a token",
    "/api/v1/<scheduled_actions_any:path>": "a token",
    "/calendar/<secret>.ics": "the address is the secret",
    "/metrics": "a token without a team",
    "/openapi.json": "open",
    "/docs": "open",
    "/healthz": "open",
    "/readyz": "open",
    "/dashboard": "a session",
    "/dashboard/<scheduled_actions_any:path>": "a session",
}
API = {
    "viewer": """
        GET /action-types
        GET /actions
        GET /actions/counts
        GET /actions/{id}
        GET /actions/{id}/explain
        GET /actions/{id}/scheduled
        GET /calendar
        GET /calendar/feeds
        GET /deadlines
        GET /deadlines/{id}
        GET /deadlines/{id}/notices
        GET /executors
        GET /facts
        GET /facts/{target_type}/{target_id}/{name}
        GET /facts/{target_type}/{target_id}/{name}/history
        GET /limits
        GET /pauses
        GET /schedules
        GET /schedules/{id}
        GET /ticks
        GET /webhooks/deliveries
        GET /webhooks/deliveries/{id}
        GET /webhooks/endpoints
        GET /webhooks/endpoints/{id}
        GET /webhooks/events
        POST /deadlines/preview
        POST /deadlines/{id}/preview
        POST /schedules/preview
    """,
    "operator": """
        DELETE /actions/{id}
        POST /calendar/feeds/{id}/revoke
        DELETE /facts/{target_type}/{target_id}/{name}
        DELETE /pauses/{id}
        DELETE /schedules/{id}
        DELETE /webhooks/endpoints/{id}
        PATCH /actions/{id}
        PATCH /deadlines/{id}
        PATCH /schedules/{id}
        PATCH /webhooks/endpoints/{id}
        POST /actions
        POST /actions/batch
        POST /actions/cancel
        POST /actions/delete
        POST /actions/retry
        POST /actions/{id}/retry
        POST /actions/{id}/run
        POST /actions/{id}/cancel
        POST /calendar/feeds
        POST /deadlines
        POST /deadlines/move
        POST /deadlines/{id}/acknowledge
        POST /deadlines/{id}/cancel
        POST /deadlines/{id}/complete
        POST /deadlines/{id}/move
        POST /deadlines/{id}/pause
        POST /deadlines/{id}/reassign
        POST /deadlines/{id}/resume
        POST /local-actions
        POST /notifications
        POST /pauses
        POST /schedules
        POST /schedules/{id}/backfill
        POST /schedules/{id}/pause
        POST /schedules/{id}/resume
        POST /schedules/{id}/run
        POST /schedules/{id}/skip
        POST /webhooks/deliveries/recover
        POST /webhooks/deliveries/{id}/replay
        POST /webhooks/endpoints
        POST /webhooks/endpoints/{id}/replay-missed
        POST /webhooks/endpoints/{id}/rotate
        POST /webhooks/endpoints/{id}/test
        PUT /facts/{target_type}/{target_id}/{name}
    """,
    "admin": """
        POST /tokens/{id}/revoke
        GET /tokens
        POST /tokens
    """,
}
#: Pages that only show data, for viewers. Every other page makes or prepares a change, and requires an operator.
LOOKING = {
    "/",
    "/action-types",
    "/action-types/{type}",
    "/actions",
    "/actions/{id}",
    "/actions/{id}/as-text/{name}",
    "/calendar",
    "/deadlines",
    "/deadlines/{id}",
    "/limits",
    "/limits/pauses",
    "/mail",
    "/mail/{mail}",
    "/mail/{mail}/html",
    "/templates",
    "/templates/{template}",
    "/templates/{template}/html",
    "/schedules",
    "/schedules/{id}",
    "/simulate",
    "/ticks",
    "/webhooks",
    "/webhooks/deliveries",
    "/webhooks/deliveries/{id}",
    "/webhooks/endpoints/{id}",
    "/webhooks/events",
}


@pytest.fixture
def runtime(a_runtime):
    return a_runtime(SCHEDULED_ACTIONS_ENCRYPTION_KEY=Fernet.generate_key().decode())


def routes_of(role):
    return {tuple(line.split()) for line in API[role].splitlines() if line.strip()}


def filled(path):
    return re.sub(r"{\w+}", UNKNOWN, path)


def test_every_path_of_the_application_has_a_listed_access_rule(runtime):
    rules = {rule.rule for rule in application(runtime).url_map.iter_rules()}

    assert rules == set(ADDRESSES)


@pytest.mark.parametrize("role", list(Role))
def test_each_route_requires_the_listed_role(role):
    assert {(route.method, route.path) for route in ROUTES if route.role is role} == routes_of(role)


def test_each_page_requires_the_listed_role():
    for page in PAGES:
        looks = page.method == "GET" and page.path in LOOKING
        assert page.role is (Role.VIEWER if looks else Role.OPERATOR), page


@pytest.mark.parametrize("team_id", [None, "red"])
@pytest.mark.parametrize("role", list(Role))
def test_a_token_can_call_only_the_routes_of_its_role(client, connection, role, team_id):
    _, secret = tokens.create(connection, name="of tests", role=role, team_id=team_id)
    api = Api(client, secret)

    for least in Role:
        for method, path in sorted(routes_of(least)):
            status = api(method, filled(path)).status_code
            if not role.includes(least):
                assert status == 403, (method, path)
            elif (method, path) in {("GET", "/ticks"), ("GET", "/executors")}:
                assert status == (200 if team_id is None else 403)
            else:
                assert status not in {401, 403, 405, 500}, (method, path)


@pytest.mark.parametrize("why", ["expired", "revoked", "unknown", "none"])
def test_every_route_rejects_an_invalid_token(client, connection, why):
    token, secret = tokens.create(connection, name="gone", role="admin", expires_in=timedelta(hours=1))
    if why == "expired":
        move_clock(connection, timedelta(hours=2))
    if why == "revoked":
        tokens.revoke(connection, token.id)
    shown = {"unknown": f"{secret[:-4]}zzzz", "none": None}.get(why, secret)

    for number, (method, path) in enumerate(sorted({one for role in Role for one in routes_of(role)})):
        answer = Api(client, shown)(method, filled(path), environ_overrides={"REMOTE_ADDR": f"10.0.0.{number}"})
        assert (answer.status_code, answer.json["code"]) == (401, "unauthorized"), (method, path)


@pytest.mark.parametrize("role", list(Role))
def test_a_session_can_open_only_the_pages_of_its_role(runtime, connection, role):
    _, secret = tokens.create(connection, name="of tests", role=role, team_id="red")
    person = Person(application(runtime).test_client())
    assert person.signs_in(secret).status_code == 303
    csrf = person.csrf()

    for page in PAGES:
        answer = person.client.open(f"/dashboard{filled(page.path)}", method=page.method, data={"csrf": csrf})
        is_others = page.path.startswith(("/ticks", "/mail", "/templates"))
        allowed = {200, 303, 400, 404} if role.includes(page.role) and not is_others else {403}
        assert answer.status_code in allowed, (page, answer.status_code)


@pytest.mark.parametrize("why", ["expired", "revoked"])
def test_a_session_ends_with_its_token_on_every_page(runtime, connection, why):
    token, secret = tokens.create(connection, name="gone", role="admin", expires_in=timedelta(hours=1))
    person = Person(application(runtime).test_client())
    person.signs_in(secret)
    csrf = person.csrf()
    if why == "expired":
        move_clock(connection, timedelta(hours=2))
    else:
        tokens.revoke(connection, token.id)

    for page in PAGES:
        answer = person.client.open(f"/dashboard{filled(page.path)}", method=page.method, data={"csrf": csrf})
        assert (answer.status_code, answer.location[:16]) == (303, "/dashboard/login"), page
