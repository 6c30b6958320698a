"""Authentication of the management API: tokens, roles, and the throttling of wrong tokens."""

from __future__ import annotations

import itertools
import re
from datetime import timedelta

import pytest

from scheduled_actions.operations import tokens
from scheduled_actions.operations.tokens import Role
from scheduled_actions.web.api.auth import BURST, FailedLogins
from scheduled_actions.web.api.dispatch import ROUTES
from tests.factories import CRON_SECRET, insert, move_clock, row
from tests.web.conftest import ADMIN_TOKEN, Api, application

UNKNOWN = "0197a000-0000-7000-8000-00000000ffff"


def ask(client, route, token, number=0):
    """Send a request from a separate client address, because failed attempts are limited per address."""
    address = f"10.0.{number >> 8}.{number & 255}"
    path = re.sub(r"{\w+}", UNKNOWN, route.path)
    return Api(client, token)(route.method, path, environ_overrides={"REMOTE_ADDR": address})


# -- the admin token ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("token", [None, "", "wrong", f"{ADMIN_TOKEN}x", CRON_SECRET, f"sat_{'x' * 43}"])
def test_every_route_rejects_a_missing_or_unknown_token(client, token):
    for number, route in enumerate(ROUTES):
        response = ask(client, route, token, number)

        assert (response.status_code, response.json["code"]) == (401, "unauthorized"), route
        assert response.mimetype == "application/problem+json"
        assert response.headers["WWW-Authenticate"] == "Bearer"
        assert ADMIN_TOKEN not in response.text


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": ADMIN_TOKEN},
        {"Authorization": f"Basic {ADMIN_TOKEN}"},
        {"Authorization": f"Token {ADMIN_TOKEN}"},
        {"x-cron-secret": ADMIN_TOKEN},
        {"Cookie": f"Authorization=Bearer {ADMIN_TOKEN}"},
        {"Authorization": "Bearer \xff\xfe"},
    ],
)
def test_a_token_is_accepted_only_as_a_bearer_token(client, headers):
    assert client.get("/api/v1/actions", headers=headers).status_code == 401
    assert client.get(f"/api/v1/actions?token={ADMIN_TOKEN}").status_code == 401


@pytest.mark.parametrize("secret", ["", "short", "0123456789abcde"])
def test_every_route_is_closed_while_the_admin_token_is_unset_or_too_short(a_runtime, connection, secret):
    _, stored = tokens.create(connection, name="stored", role="admin")
    client = application(a_runtime(ADMIN_TOKEN=secret)).test_client()

    for route, token in itertools.product(ROUTES, (secret, stored, None)):
        response = ask(client, route, token)
        assert (response.status_code, response.json["code"]) == (503, "not_configured"), route
        assert f"ADMIN_TOKEN is {'too short' if secret else 'not configured'}: set it to" in response.json["detail"]


def test_both_admin_tokens_are_accepted_during_a_rotation(a_runtime):
    client = application(a_runtime(ADMIN_TOKEN="old-admin-token-of-tests,new-admin-token-of-tests")).test_client()

    for token in ("old-admin-token-of-tests", "new-admin-token-of-tests"):
        assert Api(client, token)("GET", "/actions").status_code == 200
    assert Api(client, "older-admin-token-of-tests")("GET", "/actions").status_code == 401


def test_an_admin_token_with_non_ascii_characters_is_accepted(a_runtime):
    client = application(a_runtime(ADMIN_TOKEN="schlüsselwörter-öä")).test_client()
    sent = "schlüsselwörter-öä".encode().decode("latin-1")

    response = client.get("/api/v1/actions", environ_overrides={"HTTP_AUTHORIZATION": f"Bearer {sent}"})

    assert response.status_code == 200


# -- stored tokens -----------------------------------------------------------------------------------------------------


def test_a_stored_token_is_accepted_until_it_is_revoked(client, connection):
    token, secret = tokens.create(connection, name="ci", role="viewer")
    api = Api(client, secret)
    assert api("GET", "/actions").status_code == 200

    tokens.revoke(connection, token.id)

    response = api("GET", "/actions")
    assert response.status_code == 401
    assert "was revoked" in response.json["detail"]


def test_a_stored_token_expires_by_the_clock_of_the_database(client, connection):
    _, secret = tokens.create(connection, name="ci", role="viewer", expires_in=timedelta(hours=1))
    api = Api(client, secret)
    assert api("GET", "/actions").status_code == 200

    move_clock(connection, timedelta(hours=1))

    response = api("GET", "/actions")
    assert response.status_code == 401
    assert "has expired" in response.json["detail"]


def test_the_secret_of_a_token_is_not_stored(client, connection):
    _, secret = tokens.create(connection, name="ci", role="viewer")
    Api(client, secret)("GET", "/actions")

    (kept,) = connection.execute("select to_jsonb(t)::text from scheduled_action_tokens t").fetchone()

    assert secret not in kept
    assert secret[8:] not in kept
    assert secret.startswith("sat_")
    assert len(secret) == 47


def test_the_last_use_of_a_token_is_recorded_at_most_once_an_hour(client, connection):
    _, secret = tokens.create(connection, name="ci", role="viewer")
    api = Api(client, secret)

    def last_use():
        api("GET", "/actions")
        return connection.execute("select last_used_at, xmin::text from scheduled_action_tokens").fetchone()

    first, second = last_use(), last_use()
    move_clock(connection, timedelta(minutes=61))
    third = last_use()

    assert first[0] is not None
    assert second == first
    assert third[0] > first[0]


# -- roles -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", list(Role))
def test_a_role_can_call_only_its_routes(client, connection, role):
    _, secret = tokens.create(connection, name="of tests", role=role)

    for route in ROUTES:
        response = ask(client, route, secret)
        if role.includes(route.role):
            assert response.status_code not in {401, 403}, route
        else:
            assert (response.status_code, response.json["code"]) == (403, "forbidden"), route
            assert f"this request needs the role {route.role}" in response.json["detail"]


def test_reads_need_a_viewer_changes_an_operator_and_tokens_an_admin():
    needed = {(route.method, route.path): route.role for route in ROUTES}

    for (method, path), role in needed.items():
        if path.startswith("/tokens"):
            assert role is Role.ADMIN
        else:
            reads = method == "GET" or path.endswith("/preview")
            assert role is (Role.VIEWER if reads else Role.OPERATOR), (method, path)


def test_a_viewer_cannot_change_an_action(client, connection, a_caller):
    action_id = insert(connection)
    viewer = a_caller("viewer")
    before = row(connection, action_id)

    for method, path in [
        ("PATCH", f"/actions/{action_id}?force=true"),
        ("POST", f"/actions/{action_id}/cancel"),
        ("DELETE", f"/actions/{action_id}"),
        ("POST", f"/actions/{action_id}/run"),
        ("POST", "/actions/cancel"),
        ("POST", "/actions/delete"),
    ]:
        assert viewer(method, path, {"priority": 1, "all": True, "force": True}).status_code == 403

    assert row(connection, action_id) == before


# -- wrong tokens ------------------------------------------------------------------------------------------------------


def test_further_wrong_tokens_from_an_address_are_throttled(client):
    for number in range(BURST):
        assert Api(client, f"wrong-{number}")("GET", "/actions").status_code == 401

    response = Api(client, "wrong-too")("GET", "/actions")

    assert (response.status_code, response.json["code"]) == (429, "too_many_attempts")
    assert response.mimetype == "application/problem+json"
    assert int(response.headers["Retry-After"]) >= 1


def test_a_valid_token_is_accepted_while_its_address_sends_wrong_ones(client, api, a_caller):
    viewer, expired = a_caller("viewer"), a_caller("viewer", expires_in=timedelta(0))
    for number in range(BURST + 5):
        Api(client, f"wrong-{number}")("GET", "/actions")
        Api(client, f"{viewer.token[:8]}{number:039}")("GET", "/actions")

    # Neither token was used before, and the viewer's token has the prefix of the wrong ones.
    assert Api(client, "wrong")("GET", "/actions").status_code == 429
    assert api("GET", "/actions").status_code == viewer("GET", "/actions").status_code == 200
    assert expired("GET", "/actions").json["code"] == "unauthorized"


def test_a_repeated_wrong_token_is_throttled(client):
    wrong = Api(client, f"sat_{'x' * 43}")

    assert {wrong("GET", "/actions").status_code for _ in range(BURST)} == {401}
    assert wrong("GET", "/actions").status_code == 429


def test_a_malformed_token_is_rejected_without_a_query(client, api, connection):
    api("GET", "/actions")
    connection.execute("drop table scheduled_action_tokens cascade")

    assert Api(client, "wrong")("GET", "/actions").status_code == 401
    assert Api(client, "sat_short")("GET", "/actions").status_code == 401
    assert Api(client, f"sat_{'x' * 43}")("GET", "/actions").status_code == 503


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def attempts(clock):
    return FailedLogins(monotonic=clock)


def fail(attempts, address, times, shown="wrong"):
    """Count wrong tokens; return the wait in seconds after the last one."""
    return [attempts.failed(address, shown) for _ in range(times)][-1]


def test_the_count_of_wrong_tokens_decreases_with_time(attempts, clock):
    assert fail(attempts, "192.0.2.1", BURST) == 0
    assert fail(attempts, "192.0.2.1", 1000) == 1

    clock.now += 1

    assert fail(attempts, "192.0.2.1", 1) == 0
    assert fail(attempts, "192.0.2.1", 1) == 1


def test_wrong_tokens_are_counted_by_address_and_prefix(attempts):
    fail(attempts, "192.0.2.1", BURST, f"sat_aaaa{'x' * 39}")

    assert fail(attempts, "192.0.2.1", 1, f"sat_aaaa{'y' * 39}") == 1
    assert fail(attempts, "192.0.2.1", 1, f"sat_bbbb{'x' * 39}") == 0
    assert fail(attempts, "192.0.2.2", 1, f"sat_aaaa{'x' * 39}") == 0


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("2001:db8::1", "2001:db8::ffff:2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("", "", True),
        ("unix:", "192.0.2.1", False),
    ],
)
def test_the_addresses_of_one_ipv6_network_share_a_count(attempts, one, other, is_same):
    fail(attempts, one, BURST)

    assert (fail(attempts, other, 1) > 0) is is_same


def test_the_number_of_counted_addresses_is_limited(attempts):
    for number in range(15_000):
        attempts.failed(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", "x")

    assert len(attempts._accounts) == 10_000  # noqa: SLF001 - the memory use is not visible otherwise


@pytest.mark.parametrize(
    ("trusted", "forwarded", "counted"),
    [
        ("", "203.0.113.9", "10.0.0.1"),
        ("10.0.0.0/8", None, "10.0.0.1"),
        ("10.0.0.0/8", "203.0.113.9", "203.0.113.9"),
        ("10.0.0.0/8", "198.51.100.1, 203.0.113.9", "203.0.113.9"),
        ("10.0.0.0/8", "198.51.100.1, 203.0.113.9, 10.0.0.2", "203.0.113.9"),
        ("10.0.0.0/8", "10.0.0.3", "10.0.0.3"),
        ("10.0.0.0/8", "203.0.113.9, unknown", "10.0.0.1"),
        ("10.0.0.0/8", "", "10.0.0.1"),
        ("192.168.0.0/16", "203.0.113.9", "10.0.0.1"),
    ],
)
def test_only_a_trusted_proxy_can_give_the_address_of_the_client(a_runtime, caplog, trusted, forwarded, counted):
    client = application(a_runtime(SCHEDULED_ACTIONS_TRUSTED_PROXIES=trusted)).test_client()
    headers = {} if forwarded is None else {"X-Forwarded-For": forwarded}

    Api(client, "wrong")("GET", "/actions", headers=headers, environ_overrides={"REMOTE_ADDR": "10.0.0.1"})

    assert f"address={counted} " in caplog.text


def test_a_trusted_ipv4_proxy_is_recognized_by_its_ipv4_mapped_address(a_runtime, caplog):
    client = application(a_runtime(SCHEDULED_ACTIONS_TRUSTED_PROXIES="10.0.0.0/8")).test_client()
    where = {"headers": {"X-Forwarded-For": "203.0.113.9"}, "environ_overrides": {"REMOTE_ADDR": "::ffff:10.0.0.1"}}

    Api(client, "wrong")("GET", "/actions", **where)

    assert "address=203.0.113.9 " in caplog.text
