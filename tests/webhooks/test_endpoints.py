"""Endpoints in the database: made, changed, rotated, and never another team's."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import pytest
from cryptography.fernet import Fernet
from standardwebhooks.webhooks import Webhook

from scheduled_actions.core.errors import (
    EndpointOfTheFile,
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


def test_an_endpoint_is_made_with_a_secret_that_is_shown_once(endpoints, connection):
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


def test_what_is_not_said_is_everything_for_everybody(endpoints):
    made, _ = endpoints.create(url=URL)

    assert (made.patterns, made.team_id, made.filter, made.ordering, made.rate_limit) == (
        ["*:*"],
        None,
        None,
        "none",
        None,
    )


def test_without_a_key_no_endpoint_is_made_and_the_reason_is_said(tmp_path, database_url, connection):
    with (
        webhook_project(tmp_path, database_url, SCHEDULED_ACTIONS_ENCRYPTION_KEY="") as project,
        pytest.raises(NotConfigured, match="SCHEDULED_ACTIONS_ENCRYPTION_KEY is not configured: 32 random bytes"),
    ):
        project.endpoints.create(url=URL)

    assert connection.execute("select count(*) from webhook_endpoints").fetchone() == (0,)


@pytest.mark.parametrize(
    ("settings", "kind", "message"),
    [
        ({"url": "http://receiver.example/"}, UrlInvalid, "is not https"),
        ({"url": "https://169.254.169.254/"}, UrlInvalid, "webhooks do not reach"),
        ({"url": None}, InvalidArgument, "url: None is not a text"),
        ({"patterns": []}, InvalidArgument, "patterns"),
        ({"patterns": ["task"]}, InvalidArgument, "webhook pattern: 'task' is not a pattern like task:created"),
        ({"patterns": [5]}, InvalidArgument, "patterns: 5 is not"),
        ({"patterns": ["*" * 9 + ":x"]}, InvalidArgument, "4 stars on each side"),
        ({"filter": {"$where": 1}}, InvalidArgument, "filter: '$where'"),
        ({"filter": {"a": "\0"}}, InvalidArgument, "NUL"),
        ({"description": "x" * 1001}, InvalidArgument, "at most 1,000 characters"),
        ({"rate_limit": 0}, InvalidArgument, "rate_limit: 0 is not a number of deliveries"),
        ({"rate_limit": True}, InvalidArgument, "rate_limit"),
        ({"rate_limit": 10**400}, InvalidArgument, "rate_limit"),
        ({"headers": {"Host": "evil"}}, InvalidArgument, "headers: 'Host' is not one that may be set"),
        ({"ordering": "lifo"}, InvalidArgument, "ordering: 'lifo' is not none or fifo"),
        ({"retry": [-1]}, InvalidArgument, "retry.seconds"),
        ({"enabled": "yes"}, InvalidArgument, "enabled: 'yes' is not true or false"),
        ({"team_id": ""}, InvalidArgument, "team_id"),
        ({"secret": "whsec_hunter2"}, InvalidArgument, "secret: 'what is given' is not whsec_ followed by"),
        ({"secret": f"{SECRET},{SECRET}"}, InvalidArgument, "is not one secret"),
        ({"colour": "red"}, InvalidArgument, "endpoint: 'colour' is not a setting; there are url, description"),
    ],
)
def test_what_cannot_be_is_refused_by_name(endpoints, settings, kind, message):
    with pytest.raises(kind) as caught:
        endpoints.create(**{"url": URL} | settings)

    assert message in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_team_has_no_more_endpoints_than_it_may_have(endpoints, monkeypatch):
    monkeypatch.setattr(store, "ENDPOINTS_MOST", 2)
    for _ in range(2):
        endpoints.create(url=URL, team_id="blue")

    with pytest.raises(TooManyEndpoints, match="there are 2 webhook endpoints already"):
        endpoints.create(url=URL, team_id="blue")

    endpoints.create(url=URL, team_id="red")


def test_a_team_has_no_more_than_that_however_many_it_makes_at_once(endpoints, connection, database_url, monkeypatch):
    monkeypatch.setattr("scheduled_actions.webhooks.endpoints.store.ENDPOINTS_MOST", 3)
    # Each insert takes a moment: all of them have counted by then.
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

    assert len(endpoints.find(team_id="blue")) == 3


def test_endpoints_are_listed_beside_those_of_the_file(endpoints):
    first, _ = endpoints.create(url=URL, team_id="blue")
    second, _ = endpoints.create(url=URL)

    crm, *others = endpoints.find()

    assert (crm.id, crm.source, crm.url, crm.place) == ("crm", "file", None, "crm.example:443")
    assert others == [first, second]
    assert endpoints.find(limit=1)[1:] == [first]
    assert endpoints.find(cursor=first.id) == [second]


def test_what_is_given_is_changed_and_the_rest_stays(endpoints):
    made, _ = endpoints.create(url=URL, filter={"a": 1}, rate_limit=5, headers={"x-a": "1"}, description="before")

    changed = endpoints.update(made.id, description="after", filter=None, patterns=["a:b"])

    assert (changed.description, changed.filter, changed.patterns) == ("after", None, ["a:b"])
    assert (changed.url, changed.rate_limit, changed.header_names) == (URL, 5, ["x-a"])
    assert endpoints.update(made.id, headers={}, rate_limit=None, enabled=False).header_names == []
    assert endpoints.get(made.id).enabled is False


def test_a_refused_change_changes_nothing(endpoints):
    made, _ = endpoints.create(url=URL)

    with pytest.raises(UrlInvalid):
        endpoints.update(made.id, description="after", url="http://receiver.example/")

    assert endpoints.get(made.id) == made


def test_another_teams_endpoint_answers_as_an_unknown_one(endpoints):
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
            assert str(caught.value) == f"no webhook endpoint is called {endpoint}"
    for endpoint in (made.id, nobodys.id, unknown, "crm"):
        for attempt in (
            lambda one: endpoints.update(one, team_id="red", description="mine"),
            lambda one: endpoints.update(one, team_id="red", enabled=True),
            lambda one: endpoints.rotate(one, team_id="red"),
            lambda one: endpoints.delete(one, team_id="red"),
        ):
            with pytest.raises(UnknownEndpoint):
                attempt(endpoint)
    assert endpoints.find(team_id="red") == []
    assert endpoints.get(made.id, team_id="blue") == made


@pytest.mark.parametrize("change", [{"description": "x"}, {"enabled": False}, {"enabled": True, "url": URL}])
def test_an_endpoint_of_the_file_is_changed_in_the_file(endpoints, change):
    with pytest.raises(EndpointOfTheFile, match=r'endpoint "crm" is declared in scheduled_actions\.toml'):
        endpoints.update("crm", **change)
    with pytest.raises(EndpointOfTheFile):
        endpoints.rotate("crm")
    with pytest.raises(EndpointOfTheFile):
        endpoints.delete("crm")


def emit(project, event="task:created", *, team_id=None, data=None, entity_id="1", **payload):
    """Schedule an event as any application does, and return its id."""
    entity_type = event.partition(":")[0]
    whole = {"event": event, "entity_type": entity_type, "entity_id": entity_id, "data": data or {}, **payload}
    new = {"action_type": "webhook:send", "payload": whole, "team_id": team_id, "dedup_window": 0}
    return project.scheduler.schedule_action(new).id


def test_an_event_is_delivered_signed_with_the_headers_of_its_owner(project, endpoints, wire):
    _, secret = endpoints.create(url=URL, headers={"authorization": "Bearer t0ken"})

    emit(project, data={"n": 1})
    project.processor.tick()

    (call,) = wire.calls
    Webhook(secret).verify(call.body, call.headers)
    assert call.headers["authorization"] == "Bearer t0ken"
    (body,) = bodies(wire)
    assert (body["event"], body["data"]) == ("task:created", {"n": 1})


def test_a_team_gets_its_own_events_and_those_without_a_team_get_all(project, endpoints, wire, connection):
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


def test_an_event_sent_straight_to_another_teams_endpoint_is_as_one_sent_to_none(project, endpoints, wire, connection):
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
        ("skipped", 'endpoint "…" is not there')
    }


def test_patterns_and_filter_decide_together(project, endpoints, wire):
    endpoints.create(url=URL, patterns=["task:*"], filter={"data.state": "done"})

    for event, state in (("task:updated", "done"), ("task:updated", "open"), ("note:updated", "done")):
        emit(project, event, data={"state": state})
    project.processor.tick()

    assert [(body["event"], body["data"]) for body in bodies(wire)] == [("task:updated", {"state": "done"})]


def test_the_files_routing_is_of_the_file_alone(tmp_path, database_url, wire):
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
        emit(project, "nobody:wants")
        project.processor.tick()

    assert [body["event"] for body in bodies(wire, "https://exact.example/")] == ["task:created"]
    assert sorted(body["event"] for body in bodies(wire)) == ["note:made", "task:created"]
    assert [body["event"] for body in bodies(wire, "https://rest.example/")] == ["nobody:wants"]


def headers_of_last(wire):
    return wire.calls[-1].headers


def test_for_a_day_after_a_rotation_both_secrets_sign(project, endpoints, wire, connection):
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
    project.endpoint_book.forget()
    emit(project)
    project.processor.tick()
    assert len(headers_of_last(wire)["webhook-signature"].split()) == 1
    Webhook(new).verify(wire.calls[-1].body, headers_of_last(wire))
    assert endpoints.get(made.id).previous_secret_until is None


def test_a_stolen_secret_signs_no_longer_at_once(project, endpoints, wire):
    made, _ = endpoints.create(url=URL)

    shown, _ = endpoints.rotate(made.id, beside=timedelta(0))
    emit(project)
    project.processor.tick()

    assert shown.previous_secret_until is None
    assert len(headers_of_last(wire)["webhook-signature"].split()) == 1


def test_a_secret_that_no_key_opens_is_a_failure_that_says_so(tmp_path, database_url, endpoints, wire, connection):
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
    assert "add that key after a comma" in reason


def test_what_comes_for_a_disabled_endpoint_is_kept(project, endpoints, wire, connection):
    made, _ = endpoints.create(url=URL, enabled=False)

    emit(project)
    project.processor.tick()

    assert len(wire.calls) == 0
    assert sorted(statuses(connection).values()) == ["completed", "skipped"]
    reason = connection.execute("select error_message from scheduled_actions where status = 'skipped'").fetchone()
    assert reason == (f'endpoint "{made.id}" is disabled',)


def test_deliveries_of_an_endpoint_that_was_deleted_are_skipped(project, endpoints, wire, connection):
    made, _ = endpoints.create(url=URL)
    emit(project, endpoint=made.id)
    endpoints.delete(made.id)

    project.processor.tick()

    assert len(wire.calls) == 0
    assert list(statuses(connection).values()) == ["skipped"]
    with pytest.raises(UnknownEndpoint):
        endpoints.get(made.id)


def test_an_endpoint_that_is_deleted_while_its_delivery_begins_is_unknown_by_name(project, endpoints):
    made, _ = endpoints.create(url=URL)
    found = project.endpoint_book.find(made.id, team_id=None)

    endpoints.delete(made.id)

    with pytest.raises(UnknownEndpoint):
        project.endpoint_book.target(found)


def test_a_test_event_goes_to_the_one_endpoint_whatever_its_patterns(project, endpoints, wire):
    made, _ = endpoints.create(url=URL, patterns=["task:created"], team_id="blue")

    endpoints.test(made.id, by="ann")
    project.processor.tick()

    (body,) = bodies(wire)
    assert (body["event"], body["entity_id"], body["team_id"]) == ("webhook:test", made.id, "blue")


def test_an_endpoints_own_table_of_delays_is_that_of_its_deliveries(project, endpoints, wire, connection):
    endpoints.create(url=URL, retry=[7, 8])

    emit(project)
    project.processor.tick()

    found = connection.execute(
        "select retry, max_attempts from scheduled_actions where payload ? 'endpoint'"
    ).fetchone()
    assert found == ({"kind": "delays", "seconds": [7, 8], "jitter": "none"}, 3)


def test_an_endpoint_of_the_file_may_have_its_own_delays_too(tmp_path, database_url, connection):
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


def test_event_types_are_those_declared_watched_and_seen(tmp_path, database_url, connection):
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


def test_a_team_whose_events_are_all_new_does_not_fill_the_table_of_types(project, connection):
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


def test_no_error_of_these_shows_a_secret(endpoints):
    made, secret = endpoints.create(url=URL)

    with pytest.raises(RequestError) as caught:
        endpoints.create(url=URL, secret=secret + "!")

    assert secret not in str(caught.value)
    assert made.id


def test_after_a_change_of_keys_everything_can_be_encrypted_anew(tmp_path, database_url, endpoints, wire):
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
