"""Endpoints in the database: creation, changes, rotation of secrets, and isolation of teams."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import pytest
from cryptography.fernet import Fernet
from standardwebhooks.webhooks import Webhook

from scheduled_actions.core.errors import (
    EndpointDeclaredInFile,
    InvalidArgument,
    NotConfigured,
    RequestError,
    SecretUnreadable,
    TooManyEndpoints,
    UnknownEndpoint,
    UrlInvalid,
)
from scheduled_actions.webhooks.endpoints import store
from tests.factories import move_clock, statuses, together
from tests.webhooks.webhook_project import ENCRYPTION_KEY, URL, bodies, webhook_project
from tests.webhooks.wire import a_wire

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
def project(tmp_path, database_url):
    toml = '[webhooks.endpoints.crm]\nenv_var = "CRM_URL"\npatterns = ["x:y"]'
    with webhook_project(tmp_path, database_url, toml=toml, CRM_URL="https://crm.example/s3cret") as project:
        yield project


@pytest.fixture
def endpoints(project):
    return project.endpoints


@pytest.fixture
def wire(monkeypatch, tmp_path):
    with a_wire(monkeypatch, tmp_path) as wire:
        wire.post(URL, body="thanks")
        yield wire


def test_creating_an_endpoint_returns_its_secret_once(endpoints, connection):
    made, secret = endpoints.create(
        url=URL, team_id="blue", patterns=["task:*"], filter={"data.n": 1}, description="The CRM", rate_limit=5,
        headers={"X-Tenant": "blue", "Authorization": "Bearer t0ken"}, ordering="fifo", retry=[5, 60], created_by="ann",
    )  # fmt: skip

    assert secret.startswith("whsec_")
    assert (made.source, made.team_id, made.url, made.place) == ("database", "blue", URL, "receiver.example:443")
    assert (made.patterns, made.filter, made.description, made.rate_limit) == (["task:*"], {"data.n": 1}, "The CRM", 5)
    assert (made.ordering, made.enabled, made.created_by) == ("fifo", True, "ann")
    assert made.retry == {"kind": "delays", "seconds": [5, 60], "jitter": "none"}
    assert made.header_names == ["authorization", "x-tenant"]
    assert endpoints.get(made.id) == made
    stored = connection.execute("select e::text from webhook_endpoints e").fetchone()[0]
    assert not any(hidden in stored for hidden in (secret, secret[6:], "t0ken"))
    assert secret not in repr(made)


def test_an_endpoint_receives_all_events_of_all_teams_by_default(endpoints):
    made, _ = endpoints.create(url=URL)

    assert (made.patterns, made.team_id, made.filter, made.ordering, made.rate_limit) == (
        ["*:*"],
        None,
        None,
        "none",
        None,
    )


def test_creating_an_endpoint_needs_an_encryption_key(tmp_path, database_url, connection):
    with (
        webhook_project(tmp_path, database_url, SCHEDULED_ACTIONS_ENCRYPTION_KEY="") as project,
        pytest.raises(
            NotConfigured, match="SCHEDULED_ACTIONS_ENCRYPTION_KEY is not configured: set it to 32 random bytes"
        ),
    ):
        project.endpoints.create(url=URL)

    assert connection.execute("select count(*) from webhook_endpoints").fetchone() == (0,)


@pytest.mark.parametrize(
    ("settings", "kind", "message"),
    [
        ({"url": "http://receiver.example/"}, UrlInvalid, "does not use https"),
        ({"url": "https://169.254.169.254/"}, UrlInvalid, "private or reserved address"),
        ({"url": None}, InvalidArgument, " is not a string"),
        ({"patterns": []}, InvalidArgument, "patterns"),
        ({"patterns": ["task"]}, InvalidArgument, "webhook pattern: 'task' is not a pattern such as task:created"),
        ({"patterns": [5]}, InvalidArgument, "webhook pattern: 5 is not"),
        ({"patterns": ["*" * 9 + ":x"]}, InvalidArgument, "4 stars on each side"),
        ({"filter": {"$where": 1}}, InvalidArgument, "filter: '$where'"),
        ({"filter": {"a": "\0"}}, InvalidArgument, "NUL"),
        ({"description": "x" * 1001}, InvalidArgument, "at most 1,000 characters"),
        ({"rate_limit": 0}, InvalidArgument, "rate_limit: 0 is not a number of deliveries"),
        ({"rate_limit": True}, InvalidArgument, "rate_limit"),
        ({"rate_limit": 10**400}, InvalidArgument, "rate_limit"),
        ({"headers": {"Host": "evil"}}, InvalidArgument, 'headers cannot contain "Host"'),
        ({"ordering": "lifo"}, InvalidArgument, "ordering: 'lifo' is not one of none, fifo"),
        ({"retry": [-1]}, InvalidArgument, "retry.seconds"),
        ({"enabled": "yes"}, InvalidArgument, "enabled: 'yes' is not true or false"),
        ({"team_id": ""}, InvalidArgument, "team_id"),
        ({"secret": "whsec_hunter2"}, InvalidArgument, "secret is invalid: use whsec_ followed by"),
        ({"secret": f"{SECRET},{SECRET}"}, InvalidArgument, "must be a single secret"),
        (
            {"rateLimit": 5},
            InvalidArgument,
            "'rateLimit' is not a setting of an endpoint; did you mean \"rate_limit\"?",
        ),
        (
            {"colour": "red"},
            InvalidArgument,
            "endpoint: 'colour' is not a setting of an endpoint; use url, description",
        ),
    ],
)
def test_an_invalid_setting_is_rejected_by_name(endpoints, settings, kind, message):
    with pytest.raises(kind) as caught:
        endpoints.create(**{"url": URL} | settings)

    assert message in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_team_cannot_exceed_its_endpoint_limit(endpoints, monkeypatch):
    monkeypatch.setattr(store, "ENDPOINTS_MOST", 2)
    for _ in range(2):
        endpoints.create(url=URL, team_id="blue")

    with pytest.raises(TooManyEndpoints, match="the limit of 2 webhook endpoints is reached"):
        endpoints.create(url=URL, team_id="blue")

    endpoints.create(url=URL, team_id="red")


def test_concurrent_requests_cannot_exceed_the_endpoint_limit(endpoints, connection, database_url, monkeypatch):
    monkeypatch.setattr("scheduled_actions.webhooks.endpoints.store.ENDPOINTS_MOST", 3)
    # The inserts are slow, so without a lock, all transactions would count the endpoints before any commits.
    connection.execute(
        "create function take_a_moment() returns trigger language plpgsql as"
        " $$ begin perform pg_sleep(0.05); return new; end $$"
    )
    connection.execute(
        "create trigger take_a_moment before insert on webhook_endpoints for each row execute function take_a_moment()"
    )

    def make(*_):
        with suppress(TooManyEndpoints):
            endpoints.create(url=URL, team_id="blue")

    together(database_url, 8, make)

    assert len(endpoints.page(team_id="blue")[0]) == 3


def test_stored_endpoints_are_listed_after_those_of_the_file(endpoints):
    first, _ = endpoints.create(url=URL, team_id="blue")
    second, _ = endpoints.create(url=URL)

    (crm, *others), _ = endpoints.page()

    assert (crm.id, crm.source, crm.url, crm.place) == ("crm", "file", None, "crm.example:443")
    assert others == [first, second]
    assert endpoints.page(limit=1) == ([crm, first], first.id)
    assert endpoints.page(cursor=first.id) == ([second], None)


def test_an_update_changes_only_the_given_settings(endpoints):
    made, _ = endpoints.create(url=URL, filter={"a": 1}, rate_limit=5, headers={"x-a": "1"}, description="before")

    changed = endpoints.update(made.id, description="after", filter=None, patterns=["a:b"])

    assert (changed.description, changed.filter, changed.patterns) == ("after", None, ["a:b"])
    assert (changed.url, changed.rate_limit, changed.header_names) == (URL, 5, ["x-a"])
    assert endpoints.update(made.id, headers={}, rate_limit=None, enabled=False).header_names == []
    assert endpoints.get(made.id).enabled is False


def test_a_rejected_update_changes_nothing(endpoints):
    made, _ = endpoints.create(url=URL)

    with pytest.raises(UrlInvalid):
        endpoints.update(made.id, description="after", url="http://receiver.example/")

    assert endpoints.get(made.id) == made


def test_an_endpoint_of_another_team_is_unknown(endpoints):
    made, _ = endpoints.create(url=URL, team_id="blue")
    nobodys, _ = endpoints.create(url=URL)
    unknown = "0197a000-0000-7000-8000-000000000001"

    for endpoint in (made.id, nobodys.id, unknown, "crm", "nothing"):
        for attempt in (
            lambda one: endpoints.get(one, team_id="red"),
            lambda one: endpoints.test(one, team_id="red"),
        ):
            with pytest.raises(UnknownEndpoint) as caught:
                attempt(endpoint)
            assert str(caught.value) == f"no webhook endpoint has the id or name {endpoint}"
    for endpoint in (made.id, nobodys.id, unknown, "crm"):
        for attempt in (
            lambda one: endpoints.update(one, team_id="red", description="mine"),
            lambda one: endpoints.update(one, team_id="red", enabled=True),
            lambda one: endpoints.rotate(one, team_id="red"),
            lambda one: endpoints.delete(one, team_id="red"),
        ):
            with pytest.raises(UnknownEndpoint):
                attempt(endpoint)
    assert endpoints.page(team_id="red") == ([], None)
    assert endpoints.get(made.id, team_id="blue") == made


@pytest.mark.parametrize("change", [{"description": "x"}, {"enabled": False}, {"enabled": True, "url": URL}])
def test_an_endpoint_of_the_file_cannot_be_updated(endpoints, change):
    with pytest.raises(EndpointDeclaredInFile, match=r'endpoint "crm" is declared in scheduled_actions\.toml'):
        endpoints.update("crm", **change)
    with pytest.raises(EndpointDeclaredInFile):
        endpoints.rotate("crm")
    with pytest.raises(EndpointDeclaredInFile):
        endpoints.delete("crm")


def emit(project, event="task:created", *, team_id=None, data=None, entity_id="1", **payload):
    """Schedule an event as an application does; return the id of its action."""
    entity_type = event.partition(":")[0]
    whole = {"event": event, "entity_type": entity_type, "entity_id": entity_id, "data": data or {}, **payload}
    new = {"action_type": "webhook:send", "payload": whole, "team_id": team_id, "dedup_window": 0}
    return project.scheduler.schedule_action(new).id


def test_an_event_is_delivered_with_a_signature_and_the_custom_headers(project, endpoints, wire):
    _, secret = endpoints.create(url=URL, headers={"authorization": "Bearer t0ken"})

    emit(project, data={"n": 1})
    project.processor.tick()

    (call,) = wire.calls
    Webhook(secret).verify(call.body, call.headers)
    assert call.headers["authorization"] == "Bearer t0ken"
    (body,) = bodies(wire)
    assert (body["event"], body["data"]) == ("task:created", {"n": 1})


def test_a_team_endpoint_receives_only_its_events_and_a_global_one_receives_all(project, endpoints, wire, connection):
    addresses = {name: f"https://{name}.example/" for name in ("blue", "red", "all")}
    for name, url in addresses.items():
        wire.post(url)
        endpoints.create(url=url, team_id=None if name == "all" else name)

    for team_id in ("blue", "red", None):
        emit(project, team_id=team_id, entity_id=str(team_id))
    project.processor.tick()

    got = {name: sorted(str(body["team_id"]) for body in bodies(wire, url)) for name, url in addresses.items()}
    assert got == {"blue": ["blue"], "red": ["red"], "all": ["None", "blue", "red"]}
    made = connection.execute("select count(*) from webhook_deliveries").fetchone()
    assert made == (5,), "no delivery is even made of what is another team's"


def test_an_event_addressed_to_another_teams_endpoint_is_skipped_as_unknown(project, endpoints, wire, connection):
    made, _ = endpoints.create(url=URL, team_id="blue")
    unknown = "0197a000-0000-7000-8000-000000000001"

    for team_id in ("red", None):
        for endpoint in (made.id, unknown):
            emit(project, team_id=team_id, endpoint=endpoint)
    project.processor.tick()

    assert len(wire.calls) == 0
    reasons = connection.execute(
        "select status, error_message, payload ->> 'endpoint' from scheduled_actions"
    ).fetchall()
    assert {(status, reason.replace(endpoint, "…")) for status, reason, endpoint in reasons} == {
        ("skipped", 'endpoint "…" does not exist')
    }


def test_an_event_must_match_both_pattern_and_filter(project, endpoints, wire):
    endpoints.create(url=URL, patterns=["task:*"], filter={"data.state": "done"})

    for event, state in (("task:updated", "done"), ("task:updated", "open"), ("note:updated", "done")):
        emit(project, event, data={"state": state})
    project.processor.tick()

    assert [(body["event"], body["data"]) for body in bodies(wire)] == [("task:updated", {"state": "done"})]


def test_the_routing_setting_applies_only_to_endpoints_of_the_file(tmp_path, database_url, wire):
    toml = """
    [webhooks]
    routing = "most_specific"
    default_endpoint = "rest"
    [webhooks.endpoints.exact]
    env_var = "EXACT"
    patterns = ["task:created"]
    [webhooks.endpoints.rest]
    env_var = "REST"
    patterns = ["task:*"]
    """
    wire.post("https://exact.example/")
    wire.post("https://rest.example/")
    with webhook_project(
        tmp_path, database_url, toml=toml, EXACT="https://exact.example/", REST="https://rest.example/"
    ) as project:
        project.endpoints.create(url=URL, patterns=["task:created", "note:made"])
        emit(project, "task:created")
        emit(project, "note:made")
        emit(project, "other:event")
        project.processor.tick()

    assert [body["event"] for body in bodies(wire, "https://exact.example/")] == ["task:created"]
    assert sorted(body["event"] for body in bodies(wire)) == ["note:made", "task:created"]
    assert [body["event"] for body in bodies(wire, "https://rest.example/")] == ["other:event"]


def headers_of_last(wire):
    return wire.calls[-1].headers


def test_both_secrets_sign_for_a_day_after_a_rotation(project, endpoints, wire, connection):
    made, old = endpoints.create(url=URL, secret=SECRET)

    shown, new = endpoints.rotate(made.id)
    emit(project)
    project.processor.tick()

    assert old == SECRET
    assert shown.previous_secret_until is not None
    for secret in (old, new):
        Webhook(secret).verify(wire.calls[-1].body, headers_of_last(wire))
    assert len(headers_of_last(wire)["webhook-signature"].split()) == 2
    move_clock(connection, timedelta(days=1, minutes=1))
    project.endpoint_directory.forget()
    emit(project)
    project.processor.tick()
    assert len(headers_of_last(wire)["webhook-signature"].split()) == 1
    Webhook(new).verify(wire.calls[-1].body, headers_of_last(wire))
    assert endpoints.get(made.id).previous_secret_until is None


def test_a_rotation_without_a_grace_period_revokes_the_secret_immediately(project, endpoints, wire):
    made, _ = endpoints.create(url=URL)

    shown, _ = endpoints.rotate(made.id, grace_period=timedelta(0))
    emit(project)
    project.processor.tick()

    assert shown.previous_secret_until is None
    assert len(headers_of_last(wire)["webhook-signature"].split()) == 1


def test_a_secret_encrypted_with_an_unknown_key_fails_the_delivery_with_the_reason(
    tmp_path, database_url, endpoints, wire, connection
):
    endpoints.create(url=URL)
    other = Fernet.generate_key().decode()

    with webhook_project(tmp_path, database_url, SCHEDULED_ACTIONS_ENCRYPTION_KEY=other) as project:
        emit(project)
        project.processor.tick()

    assert len(wire.calls) == 0
    (reason,) = connection.execute(
        "select error_message from scheduled_actions where payload ? 'endpoint' and status = 'pending'"
    ).fetchone()
    assert SecretUnreadable.__name__ in reason
    assert "append that key after a comma" in reason


def test_events_for_a_disabled_endpoint_are_kept(project, endpoints, wire, connection):
    made, _ = endpoints.create(url=URL, enabled=False)

    emit(project)
    project.processor.tick()

    assert len(wire.calls) == 0
    assert sorted(statuses(connection).values()) == ["completed", "skipped"]
    reason = connection.execute("select error_message from scheduled_actions where status = 'skipped'").fetchone()
    assert reason == (f'endpoint "{made.id}" is disabled',)


def test_deliveries_to_a_deleted_endpoint_are_skipped(project, endpoints, wire, connection):
    made, _ = endpoints.create(url=URL)
    emit(project, endpoint=made.id)
    endpoints.delete(made.id)

    project.processor.tick()

    assert len(wire.calls) == 0
    assert list(statuses(connection).values()) == ["skipped"]
    with pytest.raises(UnknownEndpoint):
        endpoints.get(made.id)


def test_an_endpoint_deleted_while_its_delivery_starts_is_unknown(project, endpoints):
    made, _ = endpoints.create(url=URL)
    found = project.endpoint_directory.find(made.id, team_id=None)

    endpoints.delete(made.id)

    with pytest.raises(UnknownEndpoint):
        project.endpoint_directory.target(found)


def test_a_test_event_ignores_the_patterns_of_its_endpoint(project, endpoints, wire):
    made, _ = endpoints.create(url=URL, patterns=["task:created"], team_id="blue")

    endpoints.test(made.id, by="ann")
    project.processor.tick()

    (body,) = bodies(wire)
    assert (body["event"], body["entity_id"], body["team_id"]) == ("webhook:test", made.id, "blue")


def test_deliveries_use_the_retry_delays_of_their_endpoint(project, endpoints, wire, connection):
    endpoints.create(url=URL, retry=[7, 8])

    emit(project)
    project.processor.tick()

    found = connection.execute(
        "select retry, max_attempts from scheduled_actions where payload ? 'endpoint'"
    ).fetchone()
    assert found == ({"kind": "delays", "seconds": [7, 8], "jitter": "none"}, 3)


def test_an_endpoint_of_the_file_can_set_its_retry_delays(tmp_path, database_url, connection):
    toml = '[webhooks.endpoints.crm]\nenv_var = "CRM_URL"\npatterns = ["task:*"]\nretry = [7, 0.5]'
    with webhook_project(tmp_path, database_url, toml=toml, CRM_URL="https://crm.example/") as project:
        emit(project, "task:made")
        project.processor.tick()
        shown = project.endpoints.get("crm").retry

    policy = {"kind": "delays", "seconds": [7, 0.5], "jitter": "none"}
    assert shown == policy
    found = connection.execute(
        "select retry, max_attempts from scheduled_actions where payload ? 'endpoint'"
    ).fetchall()
    assert found == [(policy, 3)]


def test_event_types_are_declared_watched_or_seen(tmp_path, database_url, connection):
    connection.execute("create table tasks (id int primary key)")
    connection.execute("select scheduled_actions_watch('tasks', 'task', verbs => '{created}')")
    toml = '[webhooks.events]\n"note:made" = "A note was made"\n"task:created" = "A task"'
    with webhook_project(tmp_path, database_url, toml=toml) as project:
        emit(project, "task:created", team_id="blue")
        emit(project, "other:seen", team_id="red")
        project.processor.tick()

        found = project.endpoints.events()
        of_blue = project.endpoints.events(team_id="blue")

    assert [(one.event, one.description, one.tables, one.last_seen_at is not None) for one in found] == [
        ("note:made", "A note was made", (), False),
        ("other:seen", "", (), True),
        ("task:created", "A task", ("tasks",), True),
    ]
    assert [(one.event, one.tables) for one in of_blue] == [("note:made", ()), ("task:created", ())]


def test_a_team_cannot_exceed_the_limit_of_event_types(project, connection):
    connection.execute("insert into webhook_event_types select 'blue', 'task:' || n from generate_series(1, 999) n")
    emit(project, "a:new", team_id="blue")
    project.processor.tick()
    for event, team in (("b:new", "blue"), ("b:new", "red"), ("task:1", "blue")):
        emit(project, event, team_id=team)
    project.processor.tick()

    counted = connection.execute("select team_id, count(*) from webhook_event_types group by 1 order by 1").fetchall()
    assert counted == [("blue", 1000), ("red", 1)]
    seen_again = "select last_seen_at > first_seen_at from webhook_event_types where event = 'task:1'"
    assert connection.execute(seen_again).fetchone() == (True,)


def test_errors_about_endpoints_contain_no_secret(endpoints):
    made, secret = endpoints.create(url=URL)

    with pytest.raises(RequestError) as caught:
        endpoints.create(url=URL, secret=secret + "!")

    assert secret not in str(caught.value)
    assert made.id


def test_secrets_can_be_encrypted_again_after_a_key_change(tmp_path, database_url, endpoints, wire):
    made, secret = endpoints.create(url=URL, headers={"x-a": "1"})
    endpoints.rotate(made.id)
    bare, _ = endpoints.create(url="https://other.example/")
    new = Fernet.generate_key().decode()

    with webhook_project(tmp_path, database_url, SCHEDULED_ACTIONS_ENCRYPTION_KEY=f"{new},{ENCRYPTION_KEY}") as project:
        assert project.endpoints.reseal() == 2
    with webhook_project(tmp_path, database_url, SCHEDULED_ACTIONS_ENCRYPTION_KEY=new) as project:
        emit(project, endpoint=made.id)
        project.processor.tick()

    Webhook(secret).verify(wire.calls[-1].body, headers_of_last(wire))
    assert wire.calls[-1].headers["x-a"] == "1"
    assert bare.id
