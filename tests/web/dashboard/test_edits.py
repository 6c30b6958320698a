"""Edits with forms: only changed fields are sent, and only for the version that the form showed."""

from __future__ import annotations

import base64

import pytest

from handlers import deadline
from scheduled_actions.registry import Registry
from tests.web.conftest import ADMIN_TOKEN, Api, application, run
from tests.web.dashboard.conftest import Person
from tests.web.dashboard.filled_form import submitted

SCHEDULE = {
    "action_type": "test:run",
    "payload": {"n": 1},
    "recurrence": "0 9 * * *",
    "name": "report",
    "remaining": 5,
    "until": "2090-01-01T00:00:00.500Z",
    "jitter_seconds": 1.5,
    "skip": {"weekends": True, "dates": ["2030-01-01"]},
}
DEADLINE = {
    "target": {"type": "license", "id": "42"},
    "name": "renewal",
    "due_at": "2090-01-01T00:00:00Z",
    "reminders": ["7 days before", {"offset": "1 day before", "repeat": "daily"}],
    "recipients": ["ann@example.org"],
}
ENDPOINT = {"url": "https://hooks.example.com/x", "patterns": ["task:*"], "filter": {"data.n": 1}, "rate_limit": 5}


@pytest.fixture
def app(a_runtime):
    registry = Registry.of(
        run, deadline.send_reminder, deadline.send_escalation, deadline.mark_missed, deadline.create_next
    )
    key = base64.b64encode(bytes(range(32))).decode()
    return application(a_runtime(registry=registry, SCHEDULED_ACTIONS_ENCRYPTION_KEY=key))


@pytest.fixture
def api(app):
    return Api(app.test_client(), ADMIN_TOKEN)


@pytest.fixture
def person(app):
    person = Person(app.test_client())
    person.signs_in(ADMIN_TOKEN)
    return person


@pytest.fixture(
    params=[
        ("/schedules", SCHEDULE, {"name": "weekly"}, {"priority": 7}),
        ("/deadlines", DEADLINE, {"recipients": "ben@example.org"}, {"timezone": "Europe/Berlin"}),
        ("/webhooks/endpoints", ENDPOINT, {"description": "of theirs"}, {"rate_limit": 9}),
    ],
    ids=["a schedule", "a deadline", "an endpoint"],
)
def case(request, api):
    """Return the API's path of an object, an edit with the form, and a change by someone else."""
    kind, body, edit, change = request.param
    made = api("POST", kind, body)
    assert made.status_code == 201, made.text
    return f"{kind}/{made.json['id']}", edit, change


_VOLATILE = {"updated_at", "queue", "history", "timeline", "revision"}


def stored(api, path):
    document = api("GET", path).json
    return {name: value for name, value in document.items() if name not in _VOLATILE}


def form_of(person, path):
    # The form has no action: it is submitted to the address of its page.
    return submitted(person.opens(f"{path}/edit").text, "")


def test_an_untouched_form_changes_nothing(api, person, case):
    path, _, _ = case
    before = stored(api, path)

    done = person.sends(f"{path}/edit", **form_of(person, path))

    assert done.status_code == 303, done.text
    assert stored(api, path) == before


def test_a_form_is_refused_when_the_object_has_changed_since(api, person, case):
    path, edit, change = case
    form = form_of(person, path)
    assert api("PATCH", path, change).status_code == 200
    before = stored(api, path)

    refused = person.sends(f"{path}/edit", **form | edit)

    assert refused.status_code == 412
    assert "has changed since this form was opened" in refused.text
    assert next(iter(edit.values())) in refused.text
    assert stored(api, path) == before


def test_a_form_saves_the_fields_that_were_changed(api, person, case):
    path, edit, _ = case
    before = stored(api, path)

    done = person.sends(f"{path}/edit", **form_of(person, path) | edit)

    assert done.status_code == 303, done.text
    after = stored(api, path)
    changed = {name for name in after if after[name] != before[name]}
    assert changed - {"stages"} == set(edit), changed


def test_skip_skips_the_run_that_the_page_showed(api, person):
    path = f"/schedules/{api('POST', '/schedules', SCHEDULE).json['id']}"
    button = submitted(person.opens(path).text, f"{path}/skip")

    first, second = (person.sends(f"{path}/skip", **button) for _ in range(2))

    assert (first.status_code, second.status_code) == (303, 409)
    assert api("GET", path).json["skipped"] == 1


@pytest.mark.parametrize(
    ("made", "what", "sent", "change"),
    [
        (DEADLINE, "reassign", {}, {"recipients": ["ben@example.org"]}),
        (DEADLINE, "move", {"due_at": "2090-03-01T00:00"}, {"timezone": "Europe/Berlin"}),
        (ENDPOINT, "rotate", {}, {"description": "of theirs"}),
    ],
    ids=["reassign", "move", "rotate"],
)
def test_a_form_on_a_page_is_refused_when_the_object_has_changed_since(api, person, made, what, sent, change):  # noqa: PLR0917 - parameters of the cases
    kind = "/deadlines" if made is DEADLINE else "/webhooks/endpoints"
    path = f"{kind}/{api('POST', kind, made).json['id']}"
    form = submitted(person.opens(path).text, f"{path}/{what}") | sent
    assert api("PATCH", path, change).status_code == 200
    before = stored(api, path)

    refused = person.sends(f"{path}/{what}", **form)

    assert refused.status_code == 412
    assert stored(api, path) == before
    again = submitted(person.opens(path).text, f"{path}/{what}") | sent
    assert person.sends(f"{path}/{what}", **again).status_code == 303


def test_a_secret_is_not_replaced_twice_by_one_form(api, person):
    path = f"/webhooks/endpoints/{api('POST', '/webhooks/endpoints', ENDPOINT).json['id']}"
    form = submitted(person.opens(path).text, f"{path}/rotate")

    answers = [person.sends(f"{path}/rotate", **form).status_code for _ in range(2)]

    assert answers == [303, 412]


def test_an_edit_does_not_restore_remaining_runs_used_meanwhile(api, person, connection):
    path = f"/schedules/{api('POST', '/schedules', SCHEDULE).json['id']}"
    form = form_of(person, path)
    connection.execute("update scheduled_action_schedules set remaining = 2")

    done = person.sends(f"{path}/edit", **form | {"name": "weekly"})

    assert done.status_code == 303, done.text
    shown = api("GET", path).json
    assert (shown["name"], shown["remaining"]) == ("weekly", 2)
