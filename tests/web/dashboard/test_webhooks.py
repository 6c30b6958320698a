"""Webhooks: endpoints made, changed and mended, deliveries found and sent again, by whoever may."""

from __future__ import annotations

import re

import pytest
from cryptography.fernet import Fernet

from scheduled_actions.web.dashboard.webhooks import recovery as webhook_recovery
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
    """Return a function that loses deliveries of an endpoint; it gives their ids."""

    def lose(endpoint, count=1, team_id=None):
        return [
            str(row[0])
            for row in connection.execute(
                "insert into scheduled_actions (action_type, payload, status, scheduled_at, completed_at, attempts,"
                " error_message, team_id) select 'webhook:send', jsonb_build_object('event', 'task:made',"
                " 'entity_type', 'task', 'entity_id', n::text,"
                " 'data', '{\"secret\": \"words\"}'::jsonb, 'endpoint', %s::text),"
                " 'failed', now(), now(), 10, 'DeliveryFailed: it was away', %s from generate_series(1, %s) n"
                " returning id",
                [endpoint["id"], team_id, count],
            )
        ]

    return lose


def test_a_form_makes_an_endpoint_and_shows_its_secret_this_once(admin_person, api):
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
    assert (again.status_code, "whsec_" in again.text, "It was shown once" in again.text) == (200, False, True)
    assert len(api("GET", "/webhooks/endpoints").json["endpoints"]) == 1


def test_a_secret_on_its_way_to_be_shown_stands_in_no_address_and_only_its_session_can_read_it(
    admin_person, somebody, endpoint
):
    path = f"/webhooks/endpoints/{endpoint['id']}"

    sent = admin_person.sends(f"{path}/rotate", admin_person.csrf("/webhooks"), beside="0")

    assert sent.headers["Location"].endswith(f"{path}/secret")
    (cookie,) = [one for one in sent.headers.getlist("Set-Cookie") if one.startswith("scheduled_actions_shown=")]
    assert "HttpOnly" in cookie
    sealed = cookie.partition(";")[0].partition("=")[2]
    other = somebody()
    other.signs_in(ADMIN_TOKEN)
    other.client.set_cookie("scheduled_actions_shown", sealed, path="/dashboard")
    assert "whsec_" not in other.opens(f"{path}/secret").text
    assert "whsec_" not in admin_person.opens(path).text
    assert "whsec_" in admin_person.opens(f"{path}/secret").text
    assert "whsec_" not in admin_person.opens(f"{path}/secret").text


@pytest.mark.parametrize(
    ("fields", "said"),
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
def test_a_form_that_is_wrong_comes_back_as_it_was_with_what_is_wrong(admin_person, api, fields, said):
    sent = admin_person.sends("/webhooks/endpoints/new", **{"url": URL, "description": "of ours"} | fields)

    assert sent.status_code == 400
    assert said in sent.text
    assert 'value="of ours"' in sent.text
    assert api("GET", "/webhooks/endpoints").json["endpoints"] == []


def test_an_endpoint_is_changed_and_keeps_the_headers_that_the_form_does_not_show(admin_person, api, endpoint):
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


def test_the_page_of_an_endpoint_says_what_is_put_off_and_why(admin_person, endpoint, connection):
    path = f"/webhooks/endpoints/{endpoint['id']}"
    before = admin_person.opens(path).text
    connection.execute(
        "insert into scheduled_actions (action_type, payload, scheduled_at, state, history)"
        " select 'webhook:send', jsonb_build_object('endpoint', %s::text), scheduled_actions_now() + interval '1 hour',"
        '  \'{"put_off": "slow"}\', \'[{"outcome": "snoozed"}]\' from generate_series(1, 3)',
        [endpoint["id"]],
    )

    shown = admin_person.opens(path).text

    assert "Put off" not in before
    assert "Put off" in shown
    assert "one takes far longer than usual" in shown


def test_a_new_secret_is_shown_once_and_the_old_one_signs_beside_it(admin_person, api, endpoint):
    path = f"/webhooks/endpoints/{endpoint['id']}"

    sent = admin_person.makes(f"{path}/rotate", admin_person.csrf("/webhooks"), beside="86400")

    assert "whsec_" in sent.text
    assert endpoint["secret"] not in sent.text
    assert api("GET", path).json["previous_secret_until"] is not None
    assert admin_person.sends(f"{path}/rotate", admin_person.csrf("/webhooks"), beside="soon").status_code == 400


def test_a_test_event_leads_to_its_delivery(admin_person, api, endpoint):
    sent = admin_person.sends(f"/webhooks/endpoints/{endpoint['id']}/test", admin_person.csrf("/webhooks"))

    delivery = api("GET", f"/webhooks/deliveries/{sent.headers['Location'].rpartition('/')[2]}").json
    assert (delivery["event"], delivery["endpoint"]) == ("webhook:test", endpoint["id"])


def test_an_endpoint_is_removed(admin_person, api, endpoint):
    sent = admin_person.sends(f"/webhooks/endpoints/{endpoint['id']}/delete", admin_person.csrf("/webhooks"))

    assert sent.status_code == 303
    assert api("GET", "/webhooks/endpoints").json["endpoints"] == []


def test_deliveries_are_filtered_and_paged(admin_person, endpoint, lost):
    ids = lost(endpoint, 51)

    page = admin_person.opens("/webhooks/deliveries?status=failed&event=task:made").text
    (older,) = re.findall(r'href="/dashboard(/webhooks/deliveries\?[^"]+)" rel="next"', page)

    assert (ids[-1] in page, ids[0] in page) == (True, False)
    assert ids[0] in admin_person.opens(older.replace("&amp;", "&")).text
    assert "No delivery matches" in admin_person.opens("/webhooks/deliveries?status=completed").text


def test_a_delivery_shows_what_was_sent_and_is_sent_again(admin_person, api, endpoint, lost):
    (one,) = lost(endpoint)

    page = admin_person.opens(f"/webhooks/deliveries/{one}").text
    sent = admin_person.sends(f"/webhooks/deliveries/{one}/replay", admin_person.csrf("/webhooks"))

    assert "words" in page
    assert sent.headers["Location"].endswith(one)
    assert api("GET", f"/webhooks/deliveries/{one}").json["status"] == "pending"
    again = admin_person.sends(f"/webhooks/deliveries/{one}/replay", admin_person.csrf("/webhooks"))
    assert again.status_code == 409


def test_what_was_lost_is_counted_and_then_sent_again_with_one_press(admin_person, api, endpoint, lost):
    lost(endpoint, 3)

    page = admin_person.opens("/webhooks/recover?since=2020-01-01T00:00").text
    sent = admin_person.sends("/webhooks/recover", since="2020-01-01T00:00", total="3")

    assert "3 deliveries were lost" in page
    assert sent.status_code == 303, sent.text
    assert "3 deliveries are on their way again" in admin_person.opens("/webhooks/deliveries").text
    assert len(api("GET", "/webhooks/deliveries?status=pending").json["deliveries"]) == 3


def test_a_long_recovery_tells_how_far_it_is_and_goes_on(admin_person, api, endpoint, lost, monkeypatch):
    monkeypatch.setattr(webhook_recovery, "_STEPS", 1)
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
    assert "2 deliveries are on their way" in admin_person.opens("/webhooks/deliveries").text


def test_what_an_endpoint_missed_is_sent_to_it(admin_person, api, endpoint, connection):
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
def test_a_recovery_that_is_asked_for_wrongly_is_refused_where_it_stands(admin_person, api, endpoint, lost, fields):
    lost(endpoint)

    sent = admin_person.sends("/webhooks/recover", **fields)

    assert sent.status_code == 400
    assert 'role="alert"' in sent.text
    assert api("GET", "/webhooks/deliveries?status=failed").json["deliveries"] != []


def test_a_viewer_sees_and_changes_nothing(a_person, api, endpoint, lost):
    (one,) = lost(endpoint)
    person = a_person("viewer")

    assert "receiver.example" in person.opens("/webhooks").text
    assert "Send a test" not in person.opens(f"/webhooks/endpoints/{endpoint['id']}").text
    for path in (
        *(f"/webhooks/endpoints/{endpoint['id']}/{what}" for what in ("edit", "rotate", "test", "enable", "disable")),
        f"/webhooks/endpoints/{endpoint['id']}/delete",
        f"/webhooks/deliveries/{one}/replay",
        "/webhooks/endpoints/new",
        "/webhooks/recover",
    ):
        assert person.sends(path, person.csrf("/webhooks"), since="2020-01-01T00:00").status_code == 403, path
    assert api("GET", f"/webhooks/deliveries/{one}").json["status"] == "failed"
    assert api("GET", f"/webhooks/endpoints/{endpoint['id']}").json["enabled"] is True


def test_a_team_sees_and_sends_again_its_own(a_person, api, endpoint, lost):
    ours = api("POST", "/webhooks/endpoints", {"url": "https://red.example/", "team_id": "red"}).json
    (mine,) = lost(ours, team_id="red")
    (theirs,) = lost(endpoint, team_id="blue")
    person = a_person("operator", "red")

    page = person.opens("/webhooks").text

    assert ("red.example" in page, "receiver.example" in page) == (True, False)
    for path in (f"/webhooks/endpoints/{endpoint['id']}", f"/webhooks/deliveries/{theirs}"):
        assert person.opens(path).status_code == 404
        assert person.sends(f"{path}/{'replay' if theirs in path else 'delete'}").status_code == 404
    assert "1 delivery was lost" in person.opens("/webhooks/recover?since=2020-01-01T00:00").text
    person.sends("/webhooks/recover", since="2020-01-01T00:00")
    assert api("GET", f"/webhooks/deliveries/{mine}").json["status"] == "pending"
    assert api("GET", f"/webhooks/deliveries/{theirs}").json["status"] == "failed"


def test_a_change_without_the_forms_token_is_refused(admin_person, api, endpoint):
    assert admin_person.sends(f"/webhooks/endpoints/{endpoint['id']}/delete", "forged").status_code == 400
    assert api("GET", f"/webhooks/endpoints/{endpoint['id']}").status_code == 200


def test_event_types_and_empty_pages_teach_how_to_tell_an_event(admin_person):
    for path in ("/webhooks", "/webhooks/deliveries", "/webhooks/events"):
        assert "emit_event(" in admin_person.opens(path).text
