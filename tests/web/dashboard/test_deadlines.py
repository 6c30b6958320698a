"""Deadlines: create, show, edit and complete them, with the required role."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from handlers import deadline as own
from scheduled_actions.deadlines.reading import TimelineEntry
from scheduled_actions.registry import Registry
from scheduled_actions.web.dashboard.deadlines.timeline import chart_of
from tests.web.conftest import ADMIN_TOKEN, Api, run

DUE = datetime(2040, 5, 3, 15, tzinfo=UTC)
FORM = {"target_type": "license", "target_id": "42", "due_at": "2040-05-03T17:00", "timezone": "Europe/Berlin"}


@pytest.fixture
def runtime(a_runtime):
    return a_runtime(
        registry=Registry.of(run, own.send_reminder, own.send_escalation, own.mark_missed, own.create_next)
    )


@pytest.fixture
def api(client):
    return Api(client, ADMIN_TOKEN)


@pytest.fixture
def deadline(api):
    """Return a function that sets a deadline."""

    def make(**changes):
        values = {
            "target": {"type": "license", "id": "42"},
            "due_at": DUE.isoformat(),
            "recipients": ["ann@example.org"],
            "reminders": ["60 days before", "1 day before"],
            "escalation": [{"offset": "2 days after", "to": ["cfo@example.org"]}],
        }
        made = api("POST", "/deadlines", values | changes)
        assert made.status_code == 201, made.text
        return made.json

    return make


def test_the_form_creates_a_deadline_in_its_own_time_zone(admin_person, api):
    sent = admin_person.sends(
        "/deadlines/new",
        **FORM,
        name="trade license",
        recipients="ann@example.org, ben@example.org",
        remind=["60 days before", "1 day before"],
        reminders="5 days before",
        level_offset_1="when due",
        level_to_1="cfo@example.org",
        action_type="test:run",
        action_offset="30 days before",
        payload='{"n": 1}',
        holidays="US",
        adjustment="preceding",
    )

    assert sent.status_code == 303, sent.text
    (made,) = api("GET", "/deadlines").json["deadlines"]
    assert (made["due_at"], made["recipients"]) == ("2040-05-03T15:00:00Z", ["ann@example.org", "ben@example.org"])
    assert {stage["offset"] for stage in made["stages"]} >= {"60 days before", "1 day before", "5 days before"}
    assert {stage["kind"] for stage in made["stages"]} == {"reminder", "escalation", "action", "due"}
    assert made["calendar"] == {"holidays": {"country": "US"}, "adjustment": "preceding"}
    assert sent.headers["Location"].endswith(made["id"])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"due_at": ""}, "due_at"),
        ({"timezone": "Europe/Atlantis"}, "Europe/Atlantis"),
        ({"reminders": "soon"}, "soon"),
        ({"level_offset_1": "whenever", "level_to_1": "cfo@example.org"}, "whenever"),
        ({"action_type": "test:run", "action_offset": "1 day before", "payload": "{"}, "payload"),
        ({"recurrence": "every blue moon"}, "every blue moon"),
    ],
    ids=str,
)
def test_an_invalid_form_is_shown_again_with_its_input_and_the_error(admin_person, api, fields, message):
    sent = admin_person.sends("/deadlines/new", **FORM | {"name": "trade license", "remind": "7 days before"} | fields)

    assert sent.status_code == 400
    assert message in sent.text
    assert 'value="trade license"' in sent.text
    assert api("GET", "/deadlines").json["deadlines"] == []


def test_deadlines_are_listed_and_paged_by_due_instant(admin_person, deadline):
    for day in range(51):
        deadline(name=f"number {day:02}", due_at=(DUE - timedelta(days=day)).isoformat(), reminders=[], escalation=[])

    page = admin_person.opens("/deadlines").text
    older = page.partition('rel="next"')[0].rpartition('href="/dashboard')[2].partition('"')[0]

    assert page.index("number 50") < page.index("number 49") < page.index("number 01")
    assert "number 00" not in page
    rest = admin_person.opens(older.replace("&amp;", "&")).text
    assert ("number 00" in rest, "number 01" in rest) == (True, False)
    assert admin_person.opens("/deadlines?cursor=nowhere").status_code == 400


def test_a_deadline_shows_its_timeline_with_planned_stages(admin_person, deadline):
    made = deadline(name="<b>bold</b>")

    page = admin_person.opens(f"/deadlines/{made['id']}").text

    assert page.count('<g class="stages-planned">') == 3
    assert "60 days before" in page
    assert ("&lt;b&gt;bold" in page, "<b>bold" in page) == (True, False)


def test_a_deadline_shows_the_conditions_of_its_stages(admin_person, deadline):
    level = {"offset": 2, "to": ["cfo@example.org"], "condition": {"kind": "time_elapsed", "seconds": 5}}
    made = deadline(escalation=[level])

    page = admin_person.opens(f"/deadlines/{made['id']}").text

    assert page.count("if <code>") == 1
    assert "if <code>{&#34;kind&#34;: &#34;time_elapsed&#34;, &#34;seconds&#34;: 5}</code>" in page


def test_the_action_of_a_stage_links_to_its_deadline(admin_person, api, deadline):
    made = deadline()
    stages = [one for one in api("GET", "/actions").json["actions"] if one["deadline_id"] == made["id"]]

    page = admin_person.opens(f"/actions/{stages[0]['id']}").text

    assert f'href="/dashboard/deadlines/{made["id"]}"' in page


@pytest.mark.parametrize(
    "done",
    [
        ("complete", {"reason": "signed"}, "status", "completed"),
        ("cancel", {}, "status", "cancelled"),
        ("move", {"due_at": "2041-01-01T10:00"}, "due_at", "2041-01-01T10:00:00Z"),
        ("acknowledge", {"until": "2039-01-01T10:00"}, "acknowledged_until", "2039-01-01T10:00:00Z"),
        ("reassign", {"recipients": "b@example.org; e@example.org"}, "recipients", ["b@example.org", "e@example.org"]),
        ("reassign", {"recipients": '[{"email": "a@example.org"}]'}, "recipients", [{"email": "a@example.org"}]),
    ],
    ids=lambda one: one[0],
)
def test_the_buttons_of_a_deadline_change_it(admin_person, api, deadline, done):
    what, fields, field, value = done
    made = deadline()

    sent = admin_person.sends(f"/deadlines/{made['id']}/{what}", **fields)

    assert sent.status_code == 303, sent.text
    assert api("GET", f"/deadlines/{made['id']}").json[field] == value


def test_a_deadline_is_paused_and_resumed(admin_person, api, deadline):
    path = f"/deadlines/{deadline()['id']}"

    admin_person.sends(f"{path}/pause")
    assert api("GET", path).json["paused_at"] is not None
    admin_person.sends(f"{path}/resume")

    assert api("GET", path).json["paused_at"] is None


@pytest.mark.parametrize("what", ["complete", "cancel", "move", "pause", "resume", "acknowledge", "reassign"])
def test_a_closed_deadline_refuses_changes(admin_person, api, deadline, what):
    made = deadline()
    api("POST", f"/deadlines/{made['id']}/cancel")

    sent = admin_person.sends(f"/deadlines/{made['id']}/{what}", due_at="2041-01-01T10:00", recipients="bob")

    assert sent.status_code in ({303} if what == "cancel" else {400, 409}), sent.text
    assert api("GET", f"/deadlines/{made['id']}").json["status"] == "cancelled"


def test_a_move_without_a_valid_instant_is_refused(admin_person, api, deadline):
    made = deadline()

    assert admin_person.sends(f"/deadlines/{made['id']}/move", due_at="someday").status_code == 400
    assert api("GET", f"/deadlines/{made['id']}").json["due_at"] == made["due_at"]


def test_a_viewer_can_read_but_not_change_anything(a_person, api, deadline):
    made = deadline()
    person = a_person("viewer")

    page = person.opens(f"/deadlines/{made['id']}").text

    assert ("ann@example.org" in page, "Complete" in page) == (True, False)
    for what in ("complete", "cancel", "move", "pause", "resume", "acknowledge", "reassign"):
        assert person.sends(f"/deadlines/{made['id']}/{what}", due_at="2041-01-01T10:00").status_code == 403
    assert person.opens("/deadlines/new").status_code == 403
    assert api("GET", f"/deadlines/{made['id']}").json["status"] == "open"


def test_a_team_sees_and_completes_only_its_own_deadlines(a_person, api, deadline):
    ours, theirs = deadline(team_id="red", name="ours"), deadline(team_id="blue", name="theirs")
    person = a_person("operator", "red")

    page = person.opens("/deadlines").text

    assert (ours["id"] in page, theirs["id"] in page) == (True, False)
    assert person.opens(f"/deadlines/{theirs['id']}").status_code == 404
    assert person.sends(f"/deadlines/{theirs['id']}/complete").status_code == 404
    assert person.sends("/deadlines/new", **FORM, team_id="blue").status_code in {400, 403}
    assert api("GET", f"/deadlines/{theirs['id']}").json["status"] == "open"


def test_a_change_with_a_wrong_csrf_token_is_refused(admin_person, api, deadline):
    made = deadline()

    assert admin_person.sends(f"/deadlines/{made['id']}/complete", "forged").status_code == 400
    assert api("GET", f"/deadlines/{made['id']}").json["status"] == "open"


def test_an_empty_list_shows_how_to_create_a_deadline(admin_person):
    assert "set_deadline(" in admin_person.opens("/deadlines").text


def a_step(days, stage="reminder:x", state="planned"):
    return TimelineEntry(DUE + timedelta(days=days), stage, 1, state, None, None)


def test_marks_are_placed_in_order_by_their_distance():
    drawn = chart_of([a_step(-60), a_step(-1), a_step(2, "escalation:1", "sent")], due_at=DUE, now=DUE)

    first, second, last = drawn.marks
    assert first.x < second.x < drawn.due_x == drawn.now_x < last.x
    assert (first.label, last.kind, last.look) == ("-60 d", "escalation", "done")


def test_overlapping_labels_are_omitted():
    drawn = chart_of([a_step(-60), a_step(-59.9), a_step(-30)], due_at=DUE, now=DUE)

    assert [mark.label for mark in drawn.marks] == ["-60 d", "", "-30 d"]


def test_a_timeline_of_one_instant_is_drawn():
    assert chart_of([], due_at=DUE, now=DUE).due_x == 50


# -- preview and edit --------------------------------------------------------------------------------------------------


def test_the_preview_shows_the_timeline_and_writes_nothing(admin_person, api):
    fields = {"due_at": "2040-05-03T17:00", "timezone": "Europe/Berlin", "remind": ["1 day before"]}

    level = {"level_offset_1": "2 days after", "level_to_1": "cfo@example.org"}
    seen = admin_person.sends("/deadlines/preview", **fields, **level)

    assert seen.status_code == 200
    assert 'class="stages"' in seen.text
    assert "2040-05-02 15:00:00" in seen.text
    assert "escalation 2 days after" in seen.text
    assert "Choose a due date" in admin_person.sends("/deadlines/preview", timezone="UTC").text
    wrong = admin_person.sends("/deadlines/preview", **fields, reminders="whenever").text
    assert "whenever" in wrong
    assert 'class="problem"' in wrong
    assert "payload" in admin_person.sends("/deadlines/preview", **fields, action_type="test:run", payload="{").text
    assert api("GET", "/deadlines").json["deadlines"] == []


def test_an_edit_keeps_fields_that_the_form_does_not_show(admin_person, api, deadline):
    condition = {"kind": "time_elapsed", "seconds": 5}
    made = deadline(
        name="trade license",
        reminders=["60 days before", {"offset": "7 days before", "repeat": "daily", "message": "Hurry."}],
        calendar={"dates": ["2040-04-30"], "holidays": "DE-BY", "adjustment": "preceding"},
        recipients=[{"id": "ann", "email": "ann@example.org"}],
        escalation=[{"offset": "2 days after", "to": ["cfo@example.org"], "condition": condition}],
        auto_actions=[{"offset": "1 day before", "action_type": "test:run", "name": "run", "condition": condition}],
    )
    form = admin_person.opens(f"/deadlines/{made['id']}/edit").text
    assert "reminder 7 days before, repeats daily" in form
    assert 'value="DE-BY"' in form

    changed = {
        "target_type": "license", "target_id": "43", "timezone": "UTC",
        "recipients": '[{"id": "ann", "email": "ann@example.org"}]', "holidays": "DE-BY", "adjustment": "following",
        "keep": ["reminder:7 days before", "escalation:1", "action:run"], "remind": ["14 days before"],
        "level_offset_1": "5 days after", "level_to_1": "boss@example.org",
    }  # fmt: skip
    seen = admin_person.sends(f"/deadlines/{made['id']}/preview", **changed).text
    assert "60 days before" not in seen
    assert "escalation 5 days after" in seen
    page = admin_person.makes(f"/deadlines/{made['id']}/edit", **changed)

    assert page.status_code == 200
    now = api("GET", f"/deadlines/{made['id']}").json
    assert (now["name"], now["target_id"], now["due_at"]) == ("trade license", "43", made["due_at"])
    assert now["recipients"] == made["recipients"]
    assert now["calendar"]["dates"] == ["2040-04-30"]
    assert now["calendar"]["adjustment"] == "following"
    stages = {one["key"]: one for one in now["stages"] if one["kind"] not in {"due", "renewal"}}
    assert stages["reminder:7 days before"]["repeat"] == "daily"
    assert {key: one["condition"] for key, one in stages.items()} == {
        "reminder:7 days before": None,
        "reminder:14 days before": None,
        "escalation:1": condition,
        "escalation:2": None,
        "action:run": condition,
    }


@pytest.mark.parametrize("recurrence", [None, "yearly"])
def test_saving_an_untouched_form_changes_nothing(admin_person, api, deadline, recurrence):
    level = {"offset": "2 days after", "to": ["cfo@example.org"], "stop_when": "acknowledged", "severity": "urgent"}
    made = deadline(
        reminders=["60 days before", {"offset": "7 days before", "repeat": "daily", "times": 3, "name": "hurry"}],
        escalation={"levels": [level], "repeat": 2, "interval": "weekly"},
        auto_actions=[{"offset": "1 day before", "action_type": "test:run", "payload": {"n": 1}, "priority": 3}],
        **({} if recurrence is None else {"recurrence": recurrence}),
    )
    kept = [one["key"] for one in made["stages"] if one["kind"] in {"reminder", "escalation", "action"}]

    page = admin_person.makes(
        f"/deadlines/{made['id']}/edit", target_type="license", target_id="42", timezone="UTC",
        recipients="ann@example.org", keep=kept, recurrence=recurrence or "",
    )  # fmt: skip

    assert page.status_code == 200
    now = api("GET", f"/deadlines/{made['id']}").json
    assert ([one["what"] for one in now["history"]], now["updated_at"]) == (["set"], made["updated_at"])


def test_an_invalid_change_shows_the_form_again_with_the_error(admin_person, a_person, api, deadline):
    made = deadline(team_id="blue")
    path = f"/deadlines/{made['id']}/edit"
    fields = {"target_type": "license", "target_id": "42", "timezone": "UTC", "recipients": "ann@example.org"}

    refused = admin_person.sends(path, **fields, reminders="whenever")
    assert (refused.status_code, "whenever" in refused.text) == (400, True)
    assert admin_person.sends(path, "forged", **fields).status_code == 400
    assert a_person("viewer").sends(path, a_person("viewer").csrf(), **fields).status_code in {400, 403}
    outsider = a_person("operator", "red")
    assert outsider.sends(path, outsider.csrf("/deadlines"), **fields).status_code == 404
    assert api("GET", f"/deadlines/{made['id']}").json["revision"] == made["revision"]
    series = deadline(recurrence="yearly", target={"type": "tax", "id": "7"})
    assert "recurrence" in admin_person.sends(f"/deadlines/{series['id']}/edit", **fields).text
    api("POST", f"/deadlines/{made['id']}/complete", {})
    assert "completed" in admin_person.sends(path, **fields).text
