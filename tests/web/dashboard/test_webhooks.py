"""Webhooks: create, edit and recover endpoints, find and resend deliveries, with the required role."""

from __future__ import annotations

import re

import pytest
from cryptography.fernet import Fernet

from scheduled_actions.web.dashboard import webhooks
from tests.web.conftest import ADMIN_TOKEN, Api

URL = "https://receiver.example/hook"


@pytest.fixture
def runtime(a_runtime):
    return a_runtime(SCHEDULED_ACTIONS_ENCRYPTION_KEY=Fernet.generate_key().decode())


@pytest.fixture
def api(client):
    return Api(client, ADMIN_TOKEN)


@pytest.fixture
def endpoint(api):
    return api("POST", "/webhooks/endpoints", {"url": URL, "patterns": ["task:*"], "headers": {"X-Key": "k"}}).json


@pytest.fixture
def lost(connection):
    """Return a function that stores failed deliveries of an endpoint and returns their ids."""

    def lose(endpoint, count=1, team_id=None):
        return [
            str(row[0])
            for row in connection.execute(
                "insert into scheduled_actions (action_type, payload, status, scheduled_at, completed_at, attempts,"
                " error_message, team_id) select 'webhook:send', jsonb_build_object('event', 'task:made',"
                " 'entity_type', 'task', 'entity_id', n::text,"
                " 'data', '{\"secret\": \"words\"}'::jsonb, 'endpoint', %s::text),"
                " 'failed', now(), now(), 10, 'DeliveryFailed: no answer', %s from generate_series(1, %s) n"
                " returning id",
                [endpoint["id"], team_id, count],
            )
        ]

    return lose


def test_the_form_creates_an_endpoint_and_shows_its_secret_once(admin_person, api):
    sent = admin_person.makes(
        "/webhooks/endpoints/new",
        url=URL,
        patterns="task:*\ninvoice:paid",
        team_id="red",
        ordering="fifo",
        rate_limit="5",
        headers="X-Key: a value",
        filter='{"data.n": {"$gt": 1}}',
    )

    assert sent.status_code == 200, sent.text
    (made,) = api("GET", "/webhooks/endpoints").json["endpoints"]
    assert (made["url"], made["patterns"], made["team_id"]) == (URL, ["task:*", "invoice:paid"], "red")
    assert (made["ordering"], made["rate_limit"], made["header_names"]) == ("fifo", 5, ["x-key"])
    assert made["filter"] == {"data.n": {"$gt": 1}}
    (secret,) = re.findall(r"whsec_[A-Za-z0-9+/=]{20,}", sent.text.replace("&#43;", "+"))
    assert secret not in admin_person.opens(f"/webhooks/endpoints/{made['id']}").text
    again = admin_person.client.get(sent.request.path)
    assert (again.status_code, "whsec_" in again.text, "The secret was shown once" in again.text) == (200, False, True)
    assert len(api("GET", "/webhooks/endpoints").json["endpoints"]) == 1


def test_a_new_secret_is_in_no_url_and_readable_only_in_its_session(admin_person, a_visitor, endpoint):
    path = f"/webhooks/endpoints/{endpoint['id']}"

    sent = admin_person.sends(f"{path}/rotate", admin_person.csrf("/webhooks"), grace_seconds="0")

    assert sent.headers["Location"].endswith(f"{path}/secret")
    (cookie,) = [one for one in sent.headers.getlist("Set-Cookie") if one.startswith("scheduled_actions_shown=")]
    assert "HttpOnly" in cookie
    sealed = cookie.partition(";")[0].partition("=")[2]
    other = a_visitor()
    other.signs_in(ADMIN_TOKEN)
    other.client.set_cookie("scheduled_actions_shown", sealed, path="/dashboard")
    assert "whsec_" not in other.opens(f"{path}/secret").text
    assert "whsec_" not in admin_person.opens(path).text
    assert "whsec_" in admin_person.opens(f"{path}/secret").text
    assert "whsec_" not in admin_person.opens(f"{path}/secret").text


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"url": "http://receiver.example"}, "url"),
        ({"url": "https://10.0.0.1/"}, "url"),
        ({"patterns": "task"}, "patterns"),
        ({"rate_limit": "fast"}, "rate_limit"),
        ({"headers": "X-Key"}, "line 1"),
        ({"filter": "{"}, "filter"),
    ],
    ids=str,
)
def test_an_invalid_form_is_shown_again_with_its_input_and_the_error(admin_person, api, fields, message):
    sent = admin_person.sends("/webhooks/endpoints/new", **{"url": URL, "description": "of ours"} | fields)

    assert sent.status_code == 400
    assert message in sent.text
    assert 'value="of ours"' in sent.text
    assert api("GET", "/webhooks/endpoints").json["endpoints"] == []


def test_an_edit_of_an_endpoint_keeps_the_headers_that_the_form_does_not_show(admin_person, api, endpoint):
    path = f"/webhooks/endpoints/{endpoint['id']}"
    assert "task:*" in admin_person.opens(f"{path}/edit").text

    sent = admin_person.sends(f"{path}/edit", url=f"{URL}/2", patterns="order:*", rate_limit="2")

    assert sent.status_code == 303, sent.text
    found = api("GET", path).json
    assert (found["url"], found["patterns"], found["rate_limit"]) == (f"{URL}/2", ["order:*"], 2)
    assert found["header_names"] == ["x-key"]
    admin_person.sends(f"{path}/edit", url=URL, patterns="order:*", no_headers="on")
    assert api("GET", path).json["header_names"] == []
    assert admin_person.sends(f"{path}/edit", url="ftp://x", patterns="order:*").status_code == 400


def test_an_endpoint_is_disabled_and_enabled(admin_person, api, endpoint):
    path = f"/webhooks/endpoints/{endpoint['id']}"

    admin_person.sends(f"{path}/disable", admin_person.csrf("/webhooks"))
    assert api("GET", path).json["enabled"] is False
    admin_person.sends(f"{path}/enable", admin_person.csrf("/webhooks"))

    assert api("GET", path).json["enabled"] is True


def test_the_page_of_an_endpoint_shows_deferred_deliveries_and_the_reason(admin_person, endpoint, connection):
    path = f"/webhooks/endpoints/{endpoint['id']}"
    before = admin_person.opens(path).text
    connection.execute(
        "insert into scheduled_actions (action_type, payload, scheduled_at, state, history)"
        " select 'webhook:send', jsonb_build_object('endpoint', %s::text), scheduled_actions_now() + interval '1 hour',"
        '  \'{"deferred": "slow"}\', \'[{"outcome": "snoozed"}]\' from generate_series(1, 3)',
        [endpoint["id"]],
    )

    shown = admin_person.opens(path).text

    assert "Deferred" not in before
    assert "Deferred" in shown
    assert "a delivery takes much longer than usual" in shown


def test_a_rotated_secret_is_shown_once_and_the_previous_one_stays_valid(admin_person, api, endpoint):
    path = f"/webhooks/endpoints/{endpoint['id']}"

    sent = admin_person.makes(f"{path}/rotate", admin_person.csrf("/webhooks"), grace_seconds="86400")

    assert "whsec_" in sent.text
    assert endpoint["secret"] not in sent.text
    assert api("GET", path).json["previous_secret_until"] is not None
    assert admin_person.sends(f"{path}/rotate", admin_person.csrf("/webhooks"), grace_seconds="soon").status_code == 400


def test_a_test_event_redirects_to_its_delivery(admin_person, api, endpoint):
    sent = admin_person.sends(f"/webhooks/endpoints/{endpoint['id']}/test", admin_person.csrf("/webhooks"))

    delivery = api("GET", f"/webhooks/deliveries/{sent.headers['Location'].rpartition('/')[2]}").json
    assert (delivery["event"], delivery["endpoint"]) == ("webhook:test", endpoint["id"])


def test_an_endpoint_is_deleted(admin_person, api, endpoint):
    sent = admin_person.sends(f"/webhooks/endpoints/{endpoint['id']}/delete", admin_person.csrf("/webhooks"))

    assert sent.status_code == 303
    assert api("GET", "/webhooks/endpoints").json["endpoints"] == []


def test_deliveries_are_filtered_and_paged(admin_person, endpoint, lost):
    ids = lost(endpoint, 51)

    page = admin_person.opens("/webhooks/deliveries?status=failed&event=task:made").text
    (older,) = re.findall(r'href="/dashboard(/webhooks/deliveries\?[^"]+)" rel="next"', page)

    assert (ids[-1] in page, ids[0] in page) == (True, False)
    assert ids[0] in admin_person.opens(older.replace("&amp;", "&")).text
    assert "No deliveries match" in admin_person.opens("/webhooks/deliveries?status=completed").text


def test_a_delivery_shows_its_payload_and_is_resent(admin_person, api, endpoint, lost):
    (one,) = lost(endpoint)

    page = admin_person.opens(f"/webhooks/deliveries/{one}").text
    sent = admin_person.sends(f"/webhooks/deliveries/{one}/replay", admin_person.csrf("/webhooks"))

    assert "words" in page
    assert sent.headers["Location"].endswith(one)
    assert api("GET", f"/webhooks/deliveries/{one}").json["status"] == "pending"
    again = admin_person.sends(f"/webhooks/deliveries/{one}/replay", admin_person.csrf("/webhooks"))
    assert again.status_code == 409


def test_failed_deliveries_are_counted_and_resent_together(admin_person, api, endpoint, lost):
    lost(endpoint, 3)

    page = admin_person.opens("/webhooks/recover?since=2020-01-01T00:00").text
    sent = admin_person.sends("/webhooks/recover", since="2020-01-01T00:00", total="3")

    assert "3 failed or skipped deliveries" in page
    assert sent.status_code == 303, sent.text
    assert "3 deliveries will be sent" in admin_person.opens("/webhooks/deliveries").text
    assert len(api("GET", "/webhooks/deliveries?status=pending").json["deliveries"]) == 3


@pytest.fixture
def waiting(connection):
    """Return a function that stores deliveries of an endpoint that wait an hour for their retry."""

    def wait(endpoint, count):
        connection.execute(
            "insert into scheduled_actions (action_type, payload, scheduled_at, attempts)"
            " select 'webhook:send', jsonb_build_object('event', 'task:made', 'entity_type', 'task',"
            " 'entity_id', n::text, 'data', '{}'::jsonb, 'endpoint', %s::text),"
            " scheduled_actions_now() + interval '1 hour', 1 from generate_series(1, %s) n",
            [endpoint["id"], count],
        )

    return wait


def due_deliveries(connection):
    row = connection.execute(
        "select count(*) from scheduled_actions"
        " where action_type = 'webhook:send' and scheduled_at <= scheduled_actions_now()"
    ).fetchone()
    return row[0]


def test_send_waiting_makes_the_waiting_deliveries_of_one_endpoint_due(
    admin_person, api, endpoint, waiting, connection
):
    other = api("POST", "/webhooks/endpoints", {"url": f"{URL}/2", "patterns": ["task:*"]}).json
    waiting(endpoint, 101)
    waiting(other, 1)

    page = admin_person.makes(f"/webhooks/endpoints/{endpoint['id']}/send-waiting")

    assert "101 deliveries are due now." in page.text
    assert due_deliveries(connection) == 101


def test_send_waiting_stops_after_a_batch_and_shows_how_to_continue(
    admin_person, endpoint, waiting, connection, monkeypatch
):
    monkeypatch.setattr(webhooks, "_BATCH", 1)
    waiting(endpoint, 101)

    page = admin_person.makes(f"/webhooks/endpoints/{endpoint['id']}/send-waiting")

    assert "now; press &#34;Send waiting deliveries now&#34; again to send more" in page.text
    assert due_deliveries(connection) == 100


def test_the_pages_of_a_failing_endpoint_offer_to_send_waiting_deliveries(admin_person, endpoint, waiting, connection):
    button = f"/dashboard/webhooks/endpoints/{endpoint['id']}/send-waiting"
    connection.execute(
        "insert into webhook_endpoint_states (endpoint, failing_since)"
        " values (%s, scheduled_actions_now() - interval '1 minute')",
        [endpoint["id"]],
    )
    before = admin_person.opens(f"/webhooks/endpoints/{endpoint['id']}").text
    waiting(endpoint, 2)

    shown = admin_person.opens(f"/webhooks/endpoints/{endpoint['id']}").text
    recovery = admin_person.opens(f"/webhooks/recover?since=2020-01-01T00:00&endpoint={endpoint['id']}").text

    assert button not in before
    assert button in shown
    assert "2 deliveries are waiting to be sent" in recovery
    assert button in recovery


def test_a_long_recovery_shows_its_progress_and_continues(admin_person, api, endpoint, lost, monkeypatch):
    monkeypatch.setattr(webhooks, "_STEPS", 1)
    lost(endpoint, 2)

    first = admin_person.sends("/webhooks/recover", since="2020-01-01T00:00", total="2")
    fields = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', first.text.partition("<main")[2]))

    assert "2 of 2" in first.text
    assert fields.keys() >= {"cursor", "done", "since", "total"}
    for _ in range(3):
        last = admin_person.sends("/webhooks/recover", **{k: v for k, v in fields.items() if k != "csrf"})
        if last.status_code == 303:
            break
        fields = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', last.text.partition("<main")[2]))
    assert last.status_code == 303
    assert "2 deliveries will be sent" in admin_person.opens("/webhooks/deliveries").text


def test_events_that_an_endpoint_never_received_are_sent_to_it(admin_person, api, endpoint, connection):
    connection.execute(
        "insert into scheduled_actions (action_type, payload, status, scheduled_at, completed_at, attempts) values"
        ' (\'webhook:send\', \'{"event": "task:made", "entity_type": "task", "entity_id": "1", "data": {}}\','
        " 'completed', now(), now(), 1)"
    )

    sent = admin_person.sends("/webhooks/recover", since="2020-01-01T00:00", what="missed", endpoint=endpoint["id"])

    assert sent.status_code == 303, sent.text
    (one,) = api("GET", "/webhooks/deliveries").json["deliveries"]
    assert (one["endpoint"], one["event"]) == (endpoint["id"], "task:made")


@pytest.mark.parametrize(
    "fields", [{"since": "yesterday"}, {"since": "2020-01-01T00:00", "what": "missed"}], ids=lambda one: str(len(one))
)
def test_an_invalid_recovery_form_is_shown_again_with_the_error(admin_person, api, endpoint, lost, fields):
    lost(endpoint)

    sent = admin_person.sends("/webhooks/recover", **fields)

    assert sent.status_code == 400
    assert 'role="alert"' in sent.text
    assert api("GET", "/webhooks/deliveries?status=failed").json["deliveries"] != []


def test_a_viewer_can_read_but_not_change_anything(a_person, api, endpoint, lost):
    (one,) = lost(endpoint)
    person = a_person("viewer")

    assert "receiver.example" in person.opens("/webhooks").text
    assert "Send a test" not in person.opens(f"/webhooks/endpoints/{endpoint['id']}").text
    for path in (
        *(f"/webhooks/endpoints/{endpoint['id']}/{what}" for what in ("edit", "rotate", "test", "enable", "disable")),
        f"/webhooks/endpoints/{endpoint['id']}/delete",
        f"/webhooks/endpoints/{endpoint['id']}/send-waiting",
        f"/webhooks/deliveries/{one}/replay",
        "/webhooks/endpoints/new",
        "/webhooks/recover",
    ):
        assert person.sends(path, person.csrf("/webhooks"), since="2020-01-01T00:00").status_code == 403, path
    assert api("GET", f"/webhooks/deliveries/{one}").json["status"] == "failed"
    assert api("GET", f"/webhooks/endpoints/{endpoint['id']}").json["enabled"] is True


def test_a_team_sees_and_resends_only_its_own_deliveries(a_person, api, endpoint, lost):
    ours = api("POST", "/webhooks/endpoints", {"url": "https://red.example/", "team_id": "red"}).json
    (mine,) = lost(ours, team_id="red")
    (theirs,) = lost(endpoint, team_id="blue")
    person = a_person("operator", "red")

    page = person.opens("/webhooks").text

    assert ("red.example" in page, "receiver.example" in page) == (True, False)
    for path in (f"/webhooks/endpoints/{endpoint['id']}", f"/webhooks/deliveries/{theirs}"):
        assert person.opens(path).status_code == 404
        assert person.sends(f"{path}/{'replay' if theirs in path else 'delete'}").status_code == 404
    assert "1 failed or skipped delivery" in person.opens("/webhooks/recover?since=2020-01-01T00:00").text
    person.sends("/webhooks/recover", since="2020-01-01T00:00")
    assert api("GET", f"/webhooks/deliveries/{mine}").json["status"] == "pending"
    assert api("GET", f"/webhooks/deliveries/{theirs}").json["status"] == "failed"


def test_a_change_with_a_wrong_csrf_token_is_refused(admin_person, api, endpoint):
    assert admin_person.sends(f"/webhooks/endpoints/{endpoint['id']}/delete", "forged").status_code == 400
    assert api("GET", f"/webhooks/endpoints/{endpoint['id']}").status_code == 200


def test_event_types_and_empty_pages_show_how_to_emit_an_event(admin_person):
    for path in ("/webhooks", "/webhooks/deliveries", "/webhooks/events"):
        assert "emit_event(" in admin_person.opens(path).text
