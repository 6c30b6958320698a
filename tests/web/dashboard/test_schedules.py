"""Schedules: create, edit, pause, run, skip and delete them, with the required role."""

from __future__ import annotations

import re

import pytest
from werkzeug.datastructures import MultiDict

from scheduled_actions.core.config import Limit
from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.web.dashboard.schedules import choices_of, rule_of
from tests.web.conftest import Api

FORM = {"action_type": "test:run", "name": "nightly", "payload": '{"n": 1}', "timezone": "Europe/Berlin"}


@pytest.fixture
def schedule(api):
    values = {"action_type": "test:run", "payload": {}, "recurrence": "0 9 * * 1", "name": "weekly"}
    return api("POST", "/schedules", values).json


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"pattern": "daily", "at": "07:30"}, "30 7 * * *"),
        ({"pattern": "weekly", "days": ["MON", "FRI"], "at": "09:00"}, "0 9 * * MON,FRI"),
        ({"pattern": "monthly", "day": "L", "at": "18:00"}, "0 18 L * *"),
        ({"pattern": "interval", "every": "20", "unit": "minutes"}, "every 20 minutes"),
        (
            {"pattern": "business", "which": "last business day of the quarter"},
            "last business day of the quarter at 09:00",
        ),
        ({"pattern": "own", "rule": " FREQ=DAILY "}, "FREQ=DAILY"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_the_choices_of_the_form_give_a_rule(fields, rule):
    assert rule_of(MultiDict(fields)) == rule


@pytest.mark.parametrize(
    ("fields", "name"),
    [({"pattern": "weekly"}, "days"), ({"pattern": "daily", "at": "x"}, "at"), ({"at": "²:00"}, "at")],
)
def test_the_error_of_a_missing_or_invalid_choice_names_the_field(fields, name):
    with pytest.raises(InvalidArgument) as refused:
        rule_of(MultiDict(fields))

    assert refused.value.name == name


def test_the_form_creates_a_schedule(admin_person, api, runtime):
    runtime.config.settings.limits.update({"api:*": Limit(), "total": Limit()})
    chosen = {"weekends": "on", "requires_previous": "on", "limit": "api:acme\r\n total\r\n"}
    chosen |= {"expires_in": "3600", "on_expiry": "fail"}
    sent = admin_person.sends("/schedules/new", pattern="weekly", days=["MON"], at="08:00", **chosen, **FORM)

    assert sent.status_code == 303, sent.text
    (made,) = api("GET", "/schedules").json["schedules"]
    assert (made["recurrence"], made["timezone"], made["payload"]) == ("0 8 * * MON", "Europe/Berlin", {"n": 1})
    assert (made["skip"], made["requires_previous"]) == ({"weekends": True}, True)
    assert (made["limit"], made["expires_in"], made["on_expiry"]) == (["api:acme", "total"], 3600.0, "fail")
    edited = admin_person.opens(f"/schedules/{made['id']}/edit").text
    assert 'name="requires_previous" checked' in edited
    assert 'name="limit" rows="3" spellcheck="false">api:acme\ntotal</textarea>' in edited
    shown = admin_person.opens(f"/schedules/{made['id']}").text
    assert "skip unless the previous run has completed" in shown
    assert "<dt>Limit keys</dt><dd>api:acme, total</dd>" in shown
    assert '<dt>Expires</dt><dd>1 h after the due time <span class="none">then failed</span></dd>' in shown
    assert sent.headers["Location"].endswith(f"/schedules/{made['id']}")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"pattern": "own", "rule": "every blue moon"}, "every blue moon"),
        ({"pattern": "weekly"}, "at least one day"),
        ({"pattern": "daily", "payload": "{"}, "payload"),
        ({"pattern": "daily", "remaining": "some"}, "remaining"),
        ({"pattern": "daily", "timezone": "Europe/Atlantis"}, "Europe/Atlantis"),
        ({"pattern": "daily", "action_type": "test:welcome", "payload": "{}"}, "name"),
    ],
    ids=str,
)
def test_an_invalid_form_is_shown_again_with_its_input_and_the_error(admin_person, api, fields, message):
    sent = admin_person.sends("/schedules/new", **FORM | fields)

    assert sent.status_code == 400
    assert message in sent.text
    assert 'value="nightly"' in sent.text
    assert api("GET", "/schedules").json["schedules"] == []


def test_the_preview_describes_the_rule_of_the_form(admin_person):
    token = admin_person.csrf("/schedules/new")

    shown = admin_person.sends("/schedules/preview", token, pattern="weekly", days=["MON"], timezone="Europe/Berlin")
    wrong = admin_person.sends("/schedules/preview", token, pattern="own", rule="every blue moon")

    assert "only on Monday in Europe/Berlin" in shown.text
    assert len(re.findall(r">(?:\d+ \w{3}|\d{4}-\d\d-\d\d) 09:00:00</time></b>", shown.text)) == 6
    assert len(re.findall(r">(?:\d+ \w{3}|\d{4}-\d\d-\d\d) 0[78]:00:00</time> UTC", shown.text)) == 6
    assert (wrong.status_code, "every blue moon" in wrong.text) == (200, True)


def test_an_edit_keeps_fields_that_the_form_does_not_show(admin_person, api, schedule):
    api("PATCH", f"/schedules/{schedule['id']}", {"skip": {"dates": ["2030-01-01"]}})

    sent = admin_person.sends(
        f"/schedules/{schedule['id']}/edit",
        pattern="own",
        rule="0 10 * * 1",
        name="weekly",
        payload="{}",
        weekends="on",
    )

    assert sent.status_code == 303, sent.text
    found = api("GET", f"/schedules/{schedule['id']}").json
    assert found["recurrence"] == "0 10 * * 1"
    assert found["skip"] == {"dates": ["2030-01-01"], "weekends": True}


@pytest.mark.parametrize("holidays", ["US-CA", {"country": "US", "subdivision": "CA"}, {"market": "XNYS"}])
def test_saving_an_untouched_form_changes_nothing(admin_person, api, schedule, holidays):
    made = api("PATCH", f"/schedules/{schedule['id']}", {"skip": {"holidays": holidays}, "jitter_seconds": 2.5}).json
    page = admin_person.opens(f"/schedules/{schedule['id']}/edit").text
    shown = {
        name: re.search(rf'name="{name}"[^>]* value="([^"]*)"', page)[1] for name in ("holidays", "jitter_seconds")
    }
    rule = {"pattern": "own", "rule": "0 9 * * 1", "name": "weekly", "payload": "{}", "timezone": "UTC"}

    sent = admin_person.sends(f"/schedules/{schedule['id']}/edit", **rule, **shown, priority="0")

    assert sent.status_code == 303, sent.text
    found = api("GET", f"/schedules/{schedule['id']}").json
    assert (found["skip"], found["jitter_seconds"]) == (made["skip"], made["jitter_seconds"])


@pytest.mark.parametrize(
    ("rule", "pattern", "shown"),
    [
        ("30 7 * * *", "daily", {"at": "07:30"}),
        ("0 9 * * MON,FRI", "weekly", {"at": "09:00", "days": "MON,FRI"}),
        ("0 9 L * *", "monthly", {"at": "09:00", "day": "L"}),
        ("every 2 hours", "interval", {"every": "2", "unit": "hours"}),
        ("last business day of the month at 17:00", "business", {"at": "17:00"}),
        ("0 9 * * 1", "own", {}),
        ("0 9 * * MON-FRI", "own", {}),
        ("*/5 * * * *", "own", {}),
        ("0 9 1,15 * *", "own", {}),
        ("every 90 seconds", "own", {}),
        ("first business day of the month", "own", {}),
        ("FREQ=DAILY;INTERVAL=2", "own", {}),
    ],
)
def test_a_rule_is_edited_with_the_pattern_that_can_express_it(rule, pattern, shown):
    choices = choices_of(rule)

    assert choices["pattern"] == pattern
    assert {name: ",".join(choices.getlist(name)) for name in shown} == shown
    assert pattern == "own" or rule_of(choices) == rule


def test_the_edit_form_selects_the_pattern_of_the_rule(admin_person, api, schedule):
    api("PATCH", f"/schedules/{schedule['id']}", {"recurrence": "30 7 * * TUE,SAT"})

    page = admin_person.opens(f"/schedules/{schedule['id']}/edit").text

    assert re.search(r'name="pattern" value="weekly" checked', page)
    assert re.findall(r'name="days" value="(\w+)" checked', page) == ["TUE", "SAT"]
    assert 'name="at" type="time" value="07:30"' in page


def test_the_edit_form_is_filled_with_the_fields_of_the_schedule(admin_person, schedule):
    page = admin_person.opens(f"/schedules/{schedule['id']}/edit").text

    assert 'value="0 9 * * 1"' in page
    assert 'value="weekly"' in page


@pytest.mark.parametrize(("what", "status"), [("pause", "paused"), ("skip", "active")])
def test_a_schedule_is_paused_resumed_and_skipped(admin_person, api, schedule, what, status):
    before = schedule["next_occurrence_at"]

    sent = admin_person.sends(f"/schedules/{schedule['id']}/{what}", admin_person.csrf("/schedules"))

    assert sent.status_code == 303
    found = api("GET", f"/schedules/{schedule['id']}").json
    assert (found["status"], found["next_occurrence_at"] != before) == (status, True)
    if what == "pause":
        admin_person.sends(f"/schedules/{schedule['id']}/resume", admin_person.csrf("/schedules"))
        assert api("GET", f"/schedules/{schedule['id']}").json["status"] == "active"


def test_undo_makes_a_skipped_occurrence_pending_at_its_original_time(admin_person, api, schedule):
    path = f"/schedules/{schedule['id']}"
    skipped = api("GET", path).json["next_action_id"]

    page = admin_person.makes(f"{path}/skip", next_action_id=skipped).text
    status_after_skip = api("GET", f"/actions/{skipped}").json["status"]
    sent = admin_person.sends(f"{path}/undo-skip", skipped=skipped)

    assert f'action="/dashboard{path}/undo-skip"' in page
    assert f'name="skipped" value="{skipped}"' in page
    assert status_after_skip == "skipped"
    assert sent.headers["Location"].endswith(path)
    restored = api("GET", f"/actions/{skipped}").json
    assert (restored["status"], restored["scheduled_at"]) == ("pending", schedule["next_occurrence_at"])


def test_undo_of_an_unknown_occurrence_is_not_found(admin_person, schedule):
    assert admin_person.sends(f"/schedules/{schedule['id']}/undo-skip", skipped="x").status_code == 404


def test_the_name_of_another_schedule_is_refused_and_that_schedule_is_unchanged(admin_person, api, schedule):
    fields = FORM | {"pattern": "daily", "name": schedule["name"]}

    sent = admin_person.sends("/schedules/new", **fields)

    assert sent.status_code == 400
    assert "is taken by another schedule" in sent.text
    assert [one["recurrence"] for one in api("GET", "/schedules").json["schedules"]] == [schedule["recurrence"]]


def test_teams_may_use_the_same_schedule_name(admin_person, api, schedule):
    fields = FORM | {"pattern": "daily", "name": schedule["name"], "team_id": "red"}

    assert admin_person.sends("/schedules/new", **fields).status_code == 303
    assert len(api("GET", "/schedules").json["schedules"]) == 2


def test_run_now_redirects_to_the_new_action(admin_person, api, schedule):
    sent = admin_person.sends(f"/schedules/{schedule['id']}/run", admin_person.csrf("/schedules"))

    action_id = sent.headers["Location"].rpartition("/")[2]
    assert api("GET", f"/actions/{action_id}").json["schedule_id"] == schedule["id"]


def test_a_schedule_is_deleted(admin_person, api, schedule):
    sent = admin_person.sends(f"/schedules/{schedule['id']}/delete", admin_person.csrf("/schedules"))

    assert sent.status_code == 303
    assert api("GET", f"/schedules/{schedule['id']}").status_code == 404


@pytest.mark.parametrize(
    ("recurrence_type", "words"),
    [("fixed", "ago</time>, waiting to start"), ("rolling", ", running or waiting to start")],
)
def test_the_list_shows_that_a_due_occurrence_waits_to_start(
    admin_person, schedule, connection, recurrence_type, words
):
    connection.execute(
        "update scheduled_action_schedules set next_occurrence_at = now() - interval '5 min', recurrence_type = %s",
        [recurrence_type],
    )

    assert words in admin_person.opens("/schedules").text


def test_a_viewer_can_read_but_not_change_anything(a_person, api, schedule):
    person = a_person("viewer")

    page = person.opens(f"/schedules/{schedule['id']}").text

    assert "At 09:00, only on Monday" in page
    assert "Pause" not in page
    assert "New schedule" not in person.opens("/schedules").text
    for what in ("pause", "run", "skip", "undo-skip", "delete"):
        assert person.sends(f"/schedules/{schedule['id']}/{what}", person.csrf("/schedules")).status_code == 403
    assert person.opens("/schedules/new").status_code == 403
    assert api("GET", f"/schedules/{schedule['id']}").json["status"] == "active"


def test_a_team_sees_only_its_own_schedules(a_person, api):
    ours = api(
        "POST", "/schedules", {"action_type": "test:run", "payload": {}, "recurrence": "daily", "team_id": "red"}
    )
    theirs = api(
        "POST", "/schedules", {"action_type": "test:run", "payload": {}, "recurrence": "daily", "team_id": "b"}
    )
    person = a_person("operator", "red")

    page = person.opens("/schedules").text

    assert ours.json["id"] in page
    assert theirs.json["id"] not in page
    assert person.opens(f"/schedules/{theirs.json['id']}").status_code == 404


def test_a_change_with_a_wrong_csrf_token_is_refused(admin_person, api, schedule):
    assert admin_person.sends(f"/schedules/{schedule['id']}/pause", "forged").status_code == 400
    assert api("GET", f"/schedules/{schedule['id']}").json["status"] == "active"


@pytest.fixture
def api(client):
    from tests.web.conftest import ADMIN_TOKEN

    return Api(client, ADMIN_TOKEN)


def test_the_form_of_a_new_schedule_preselects_no_action_type(admin_person):
    text = admin_person.opens("/schedules/new").text
    chosen = admin_person.opens("/schedules/new?action_type=test:run").text

    assert '<option value="">Choose an action type</option>' in text
    assert " selected>test:" not in text
    assert "<option selected>test:run</option>" in chosen
