"""Ticks, action types, and scheduling with a form built from the payload's schema."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date, datetime, timedelta
from html import unescape
from typing import Literal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings, strategies as st
from pydantic import BaseModel, Field

from handlers.email import send_email
from scheduled_actions import action
from scheduled_actions.core.secret import Secret
from scheduled_actions.database import handoff
from scheduled_actions.local.handoff import published
from scheduled_actions.registry import Registry
from scheduled_actions.web.dashboard import times
from scheduled_actions.web.dashboard.actions import schema_forms
from tests.factories import NOW, database_now, insert, row, statuses
from tests.web.conftest import ADMIN_TOKEN, application
from tests.web.dashboard.conftest import Person
from tests.web.dashboard.filled_form import submitted

BERLIN = ZoneInfo("Europe/Berlin")


class Street(BaseModel):
    name: str
    number: int | None = None


class Parcel(BaseModel):
    """A payload with every kind of value that has an input."""

    label: str = Field(description="As it is printed.", max_length=80)
    story: str = Field("", max_length=2000)
    weight: float
    pieces: int = 1
    insured: bool = False
    speed: Literal["slow", "fast", 3] = "slow"
    day: date | None = None
    at: datetime | None = None
    to: Street
    tags: list[str] = []
    sizes: list[int] = []
    extra: dict[str, int] = {}


@action("parcel:send", description="Send a parcel.")
def send_parcel(payload: Parcel): ...


@action("any:thing")
def anything(payload: dict): ...


@pytest.fixture
def person(a_runtime):
    """Return an administrator of a project that sends parcels."""
    person = Person(application(a_runtime(registry=Registry.of(send_parcel, anything))).test_client())
    person.signs_in(ADMIN_TOKEN)
    return person


VALID_FORM = {
    "payload.label": "box",
    "payload.weight": "1.5",
    "payload.speed": "3",
    "payload.insured": "on",
    "payload.day": "2026-03-05",
    "payload.at": "2026-03-05T08:30",
    "payload.to.name": "Main Street",
    "payload.tags": "a\nb c\n",
    "payload.sizes": "1\n2",
    "payload.extra": '{"x": 1}',
}


# -- action types ------------------------------------------------------------------------------------------------------


def test_the_types_of_the_build_are_shown_and_each_has_a_form(person):
    page = person.opens("/action-types").text

    assert "parcel:send" in page
    assert "Send a parcel." in page
    form = person.opens("/action-types/parcel:send").text
    assert 'name="payload.to.name"' in form
    assert "As it is printed." in form
    assert person.opens("/action-types/parcel:sent").status_code == 404
    assert "did you mean &#34;parcel:send&#34;?" in person.opens("/action-types/parcel:sent").text


def test_a_form_built_from_the_schema_schedules_a_valid_payload(person, connection):
    person.client.set_cookie(times.ZONE_COOKIE, "Europe/Berlin")

    done = person.sends("/action-types/parcel:send", **VALID_FORM, when="delay", delay="2", unit="hours", priority="-5")

    assert done.status_code == 303
    made = row(connection, done.location.rpartition("/")[2])
    assert made["payload"] == {
        "label": "box", "weight": 1.5, "insured": True, "speed": 3, "day": "2026-03-05", "at": "2026-03-05T07:30:00Z",
        "to": {"name": "Main Street"}, "tags": ["a", "b c"], "sizes": [1, 2], "extra": {"x": 1},
    }  # fmt: skip
    assert (made["priority"], made["created_by"]) == (-5, "api:admin")
    away = datetime.fromisoformat(made["scheduled_at"]) - database_now(connection)
    assert timedelta(minutes=119) < away <= timedelta(hours=2)


def test_errors_are_shown_next_to_their_inputs_and_the_input_is_kept(person, connection):
    wrong = VALID_FORM | {
        "payload.weight": "heavy",
        "payload.to.name": "",
        "payload.sizes": "1\nx",
        "payload.pieces": "1.5",
    }

    refused = person.sends("/action-types/parcel:send", **wrong, when="at", at="2026-03-05T08:30")

    assert refused.status_code == 400
    assert statuses(connection) == {}
    for name in ("payload.weight", "payload.sizes", "payload.pieces"):
        assert re.search(rf'name="{name}"[^>]*aria-invalid', refused.text), name
    assert 'value="heavy"' in refused.text
    assert "b c" in refused.text
    assert 'value="at" checked' in refused.text


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"payload.extra": "{"}, "payload.extra"),
        ({"when": "delay", "delay": "soon"}, "PT5M"),
        ({"when": "at", "at": ""}, "ISO 8601"),
        ({"metadata": "[]"}, "object"),
        ({"team_id": "x" * 300}, "255"),
    ],
)
def test_a_refused_form_is_shown_again_with_the_reason(person, connection, fields, message):
    refused = person.sends("/action-types/parcel:send", **VALID_FORM | fields)

    assert refused.status_code == 400
    assert message in refused.text
    assert statuses(connection) == {}


def test_a_payload_is_edited_as_json_if_no_form_fits_or_on_request(person, connection):
    for action_type in ("any:thing", "parcel:send?as=json"):
        assert 'name="payload"' in person.opens(f"/action-types/{action_type}").text
    payload = '{"label": "b", "weight": 1, "to": {"name": "x"}}'

    assert person.sends("/action-types/any:thing", payload='{"deep": [1, {"x": null}]}').status_code == 303
    done = person.sends("/action-types/parcel:send", payload=payload, **{"as": "json"})
    refused = person.sends("/action-types/any:thing", payload='{"n": NaN}')

    assert row(connection, done.location.rpartition("/")[2])["payload"]["weight"] == 1
    assert refused.status_code == 400
    assert len(statuses(connection)) == 2


def test_a_clone_starts_with_the_fields_of_the_original(person, connection):
    payload = {"label": "box", "weight": 2, "to": {"name": "x"}, "tags": ["a"], "insured": True}
    model = insert(connection, action_type="parcel:send", payload=payload, priority=7, dedup_key="key-17")

    page = person.opens(f"/action-types/parcel:send?from={model}").text

    assert 'name="payload.label" type="text" value="box"' in page
    assert 'name="payload.insured" value="on" checked' in page
    assert 'value="7"' in page
    assert "key-17" not in page


def test_saving_an_untouched_form_does_not_change_the_payload(person, connection):
    payload = {"label": "box", "weight": 2, "to": {"name": "x"}, "at": "2030-03-05T08:30:00.123456Z"}
    at = database_now(connection) + timedelta(hours=1)
    action_id = insert(connection, action_type="parcel:send", payload=payload, scheduled_at=at)
    page = person.opens(f"/actions/{action_id}/edit").text
    shown = {
        unescape(name): unescape(value)
        for name, value in re.findall(r'name="(payload[^"]+)"[^>]* value="([^"]*)"', page)
    } | {"payload.speed": "slow", "payload.extra": "{}"}
    del shown["payload.insured"]

    assert person.sends(f"/actions/{action_id}/edit", **shown).status_code == 303
    assert row(connection, action_id)["history"] == []
    person.sends(f"/actions/{action_id}/edit", **shown | {"payload.weight": "3"})

    assert row(connection, action_id)["payload"]["weight"] == 3


def test_an_edit_changes_and_removes_the_limit_and_the_expiry(person, connection):
    now = database_now(connection)
    action_id = insert(
        connection, action_type="parcel:send", payload={"label": "box", "older": True}, limit_keys=["api:a", "reports"],
        scheduled_at=now + timedelta(hours=1), expires_at=now + timedelta(hours=2), on_expiry="fail",
    )  # fmt: skip
    path = f"/actions/{action_id}/edit"
    form = submitted(person.opens(path).text, path)
    assert form["limit"].split() == ["api:a", "reports"]

    assert person.sends(path, **form).status_code == 303
    assert row(connection, action_id)["history"] == []

    assert person.sends(path, **form | {"limit": "api:b\r\n", "expires_at": "2040-01-01T00:00:00"}).status_code == 303
    changed = row(connection, action_id)
    assert (changed["limit_keys"], changed["on_expiry"]) == (["api:b"], "fail")
    assert changed["expires_at"].startswith("2040-01-01T00:00:00")
    assert changed["history"][-1]["changes"] == ["expires_at", "limit"]

    form = submitted(person.opens(path).text, path)
    assert person.sends(path, **form | {"limit": "", "expires_at": ""}).status_code == 303
    removed = row(connection, action_id)
    assert (removed["limit_keys"], removed["expires_at"], removed["on_expiry"]) == (None, None, None)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"limit": "unknown"}, "limit"),
        ({"expires_at": "2020-01-01T00:00:00"}, "expires_at"),
        ({"expires_at": "x"}, "expires_at"),
    ],
)
def test_an_invalid_limit_or_expiry_of_an_edit_is_shown_next_to_its_field(person, connection, given, field):
    later = database_now(connection) + timedelta(hours=1)
    action_id = insert(connection, action_type="parcel:send", payload={"label": "box"}, scheduled_at=later)
    path = f"/actions/{action_id}/edit"

    refused = person.sends(path, **submitted(person.opens(path + "?as=json").text, path) | given)

    assert refused.status_code == 400
    assert f'id="f-{field}-wrong"' in refused.text
    assert row(connection, action_id)["history"] == []


def test_a_payload_that_the_form_cannot_show_is_cloned_as_json(person, connection):
    model = insert(connection, action_type="parcel:send", payload={"label": "box", "older": True})

    page = person.opens(f"/action-types/parcel:send?from={model}").text

    assert "&#34;older&#34;: true" in page


def test_the_form_of_an_email_accepts_a_display_name_and_address(a_runtime, connection):
    person = Person(application(a_runtime(registry=Registry.of(send_email))).test_client())
    person.signs_in(ADMIN_TOKEN)
    page = person.opens("/action-types/email:send").text
    fields = {"payload.to": "ann@example.org\r\nBen <ben@example.org>", "payload.subject": "Hello"}

    made = person.sends("/action-types/email:send", **fields, **{"payload.text": "Dear all,\r\nhello."})

    areas = set(re.findall(r'<textarea id="[^"]+" name="payload\.(\w+)"', page))
    assert areas == {"to", "data", "text", "html", "cc", "bcc", "headers"}
    assert made.status_code == 303, made.text
    payload = row(connection, made.location.rpartition("/")[2])["payload"]
    assert payload["to"] == ["ann@example.org", "Ben <ben@example.org>"]
    assert payload["text"] == "Dear all,\nhello."


@pytest.mark.parametrize("tag", ["", " x", "a\nb"])
def test_a_list_with_items_that_one_line_cannot_hold_is_cloned_as_json(person, connection, tag):
    payload = {"label": "box", "weight": 2, "to": {"name": "x"}, "tags": ["kept", tag]}
    model = insert(connection, action_type="parcel:send", payload=payload)

    assert 'name="as" value="json"' in person.opens(f"/action-types/parcel:send?from={model}").text


def test_a_viewer_sees_the_schema_and_schedules_nothing(a_person, connection):
    viewer = a_person("viewer")

    assert "JSON Schema" in viewer.opens("/action-types/test:welcome").text
    assert "<textarea" not in viewer.opens("/action-types/test:welcome").text
    assert viewer.sends("/action-types/test:run", payload="{}").status_code == 403
    assert statuses(connection) == {}


def test_a_team_token_schedules_for_its_own_team(a_person, connection):
    operator = a_person("operator", "red")

    done = operator.sends("/action-types/test:run", payload="{}")
    refused = operator.sends("/action-types/test:run", payload="{}", team_id="blue")

    assert row(connection, done.location.rpartition("/")[2])["team_id"] == "red"
    assert refused.status_code == 403


# -- ticks -------------------------------------------------------------------------------------------------------------


def test_a_manual_tick_runs_due_actions_and_is_listed(a_person, connection):
    due = insert(connection)
    operator = a_person("operator")
    assert "No ticks yet" in operator.opens("/ticks").text

    done = operator.sends("/ticks/run", **{"from": "ticks"})

    assert statuses(connection) == {due: "completed"}
    page = operator.client.get(done.location).text
    assert "1 action settled, 0 of them failed" in page
    assert "dashboard token:operator of tests" in page
    assert operator.sends("/ticks/run").location == "/dashboard"


def test_only_operators_without_a_team_run_ticks(a_person, connection):
    due = insert(connection, team_id="red")

    assert a_person("viewer").sends("/ticks/run").status_code == 403
    assert a_person("operator", "red").sends("/ticks/run").status_code == 403
    assert a_person("operator", "red").opens("/ticks").status_code == 403
    assert 'href="/dashboard/ticks"' not in a_person("operator", "red").opens("").text
    assert statuses(connection) == {due: "pending"}


# -- the overview ------------------------------------------------------------------------------------------------------


def test_the_overview_shows_failed_checks_and_waiting_actions(a_person, connection):
    insert(connection)
    insert(
        connection, status="failed", action_type="email:send", error_message="550 no such user",
        completed_at=database_now(connection), team_id="red",
    )  # fmt: skip

    page = a_person("operator").opens("?window=day").text

    assert "Nothing has called /cron/process yet" in page
    assert "Run a tick now" in page
    assert "550 no such user" in page
    assert "No action failed" not in page
    team = a_person("viewer", "blue").opens("").text
    assert "550 no such user" not in team
    assert "Trigger" not in team
    assert "550 no such user" in a_person("viewer", "red").opens("").text


def immediacy(person):
    found = re.search(r"<p class=\"hint\">(Immediate actions .*?)</p>", person.opens("").text)
    return None if found is None else re.sub("<.*?>", "", found[1])


def test_the_overview_shows_how_soon_immediate_actions_start(a_person, runtime, connection, tmp_path):
    person = a_person("viewer")
    remedy = "Set url or linger_seconds to start them at once."
    assert immediacy(person) == f"Immediate actions wait for the next ping. {remedy}"
    runtime.processor.tick(caller="a-cron")
    assert immediacy(person) == f"Immediate actions start within 60 seconds, with the next ping. {remedy}"
    runtime.config = replace(runtime.config, project=tmp_path)
    dev = handoff.Dev(url="http://127.0.0.1:1", secret=Secret("dev", "a-secret-of-these-tests"))
    with published(runtime.config, dev):
        assert immediacy(person) == "Immediate actions start at once: scheduled-actions dev is running."
    pinging = replace(runtime.config.settings, url="http://127.0.0.1:1")
    runtime.config = replace(runtime.config, settings=pinging)
    assert immediacy(person) == "Immediate actions start at once: scheduling one pings url."
    assert immediacy(a_person("viewer", "red")) is None


def test_the_overview_shows_near_deadlines_of_the_callers_team(a_person, connection):
    for name, team, away in (("renewal", "red", "2 days"), ("audit", "blue", "-1 hour"), ("far", "red", "30 days")):
        connection.execute(
            "insert into scheduled_action_deadlines (name, team_id, target_type, target_id, status, due_at, timezone,"
            " anchor_at) values (%s, %s, 'contract', '17', 'open', now() + %s::interval, 'UTC', now())",
            [name, team, away],
        )

    everything, red = a_person("viewer").opens("").text, a_person("viewer", "red").opens("").text

    assert [name in everything for name in ("renewal", "audit", ">far<")] == [True, True, False]
    assert [name in red for name in ("renewal", "audit")] == [True, False]
    assert everything.index("audit") < everything.index("renewal")


# -- forms from schemas, and times -------------------------------------------------------------------------------------

parcels = st.builds(
    dict,
    label=st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=80).filter(
        str.strip
    ),
    weight=st.floats(0.001, 1e9) | st.integers(1, 10**9),
    pieces=st.integers(-(10**12), 10**12),
    insured=st.booleans(),
    speed=st.sampled_from(["slow", "fast", 3]),
    day=st.dates().map(date.isoformat),
    to=st.fixed_dictionaries({"name": st.just("x")}, optional={"number": st.integers(0, 99)}),
    tags=st.lists(st.text("abcdef", min_size=1), min_size=1),
    sizes=st.lists(st.integers(), min_size=1),
    extra=st.dictionaries(st.text("abc", min_size=1), st.integers()),
)


@settings(max_examples=40)
@given(payload=parcels)
def test_a_form_sends_back_the_values_that_it_shows(payload):
    schema = Parcel.model_json_schema()

    fields = schema_forms.form_of(schema, payload, zone=BERLIN)
    sent = {one.name: one.value for one in schema_forms.every(fields) if one.kind != "group" and one.value}

    assert Parcel.model_validate(schema_forms.payload_of(fields, sent, BERLIN)) == Parcel.model_validate(payload)


@pytest.mark.parametrize(
    "schema", [None, {}, {"type": "array"}, {"type": "object"}, {"properties": {}}, {"properties": []}, {"$ref": "#/x"}]
)
def test_a_schema_without_properties_has_no_form(schema):
    assert schema_forms.form_of(schema, zone=BERLIN) is None


def test_a_circular_schema_falls_back_to_json():
    class Node(BaseModel):
        name: str
        child: Node | None = None

    Node.model_rebuild(_types_namespace={"Node": Node})
    schema = Node.model_json_schema()
    root = schema["$defs"]["Node"] | {"$defs": schema["$defs"]}

    kinds = [one.kind for one in schema_forms.every(schema_forms.form_of(root, zone=BERLIN))]

    assert kinds.count("json") == 1


@pytest.mark.parametrize(
    ("length", "words"),
    [
        (None, "—"), (0, "0 s"), (0.0123, "12 ms"), (1.26, "1.3 s"), (4, "4 s"), (59.6, "1 min"), (61, "1 min 1 s"),
        (3600, "1 h"), (7261, "2 h 1 min"), (90061, "1 d 1 h"), (86400, "1 d"), (-5, "-5 s"),
        (timedelta(minutes=2), "2 min"),
    ],
)  # fmt: skip
def test_durations_are_shown_in_at_most_two_units(length, words):
    assert times.seconds(length) == words


@pytest.mark.parametrize(
    ("apart", "words"), [(0, "now"), (30, "30 s ago"), (-90, "in 90 s"), (1200, "20 min ago"), (-90000, "in 25 h")]
)
def test_instants_are_shown_relative_to_now(apart, words):
    assert f">{words}<" in times.ago(NOW - timedelta(seconds=apart), BERLIN, now=NOW)


def test_an_instant_is_shown_in_the_viewers_zone_and_in_utc():
    shown = times.instant(NOW, BERLIN, now=NOW)

    assert ">4 Mar 13:00:00<" in shown
    assert 'title="Wed 2026-03-04 13:00:00 CET · 2026-03-04 12:00:00 UTC"' in shown
    assert ">2025-03-04 13:00:00<" in times.instant(NOW.replace(year=2025), BERLIN, now=NOW)


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-03-04T13:00", "2026-03-04T12:00:00Z"),
        ("2026-03-04T13:00:00+05:00", "2026-03-04T08:00:00Z"),
        ("2026-03-29T02:30", "2026-03-29T01:30:00Z"),
        ("0001-01-01T00:00", "0001-01-01T00:00"),
        ("soon", "soon"),
    ],
)
def test_a_local_time_is_converted_to_utc(text, instant):
    assert times.from_input(text, BERLIN) == instant


def test_an_unknown_zone_is_utc():
    for name in ("Mars/Base", "../../etc/passwd", "", "\x00"):
        assert times.zone_of({times.ZONE_COOKIE: name}).key == "UTC"
    assert unescape(times.zone_of({times.ZONE_COOKIE: "Asia/Tokyo"}).key) == "Asia/Tokyo"
