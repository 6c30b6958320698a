"""Limits of requests by tokens: addresses, deputies, named channels, queries, and deadlines of other teams."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from handlers import deadline
from handlers.for_each import ForEachPayload, run
from scheduled_actions import Context, action, resolve_recipients
from scheduled_actions.actions.model import NewAction
from scheduled_actions.core.errors import UrlInvalid
from scheduled_actions.deadlines import reading
from scheduled_actions.notifications.planning import NoticeOptions
from scheduled_actions.operations import tokens
from tests.factories import CRON_SECRET, row
from tests.mail_server import Mailbox
from tests.notifications.notice_project import a_receiver, mails, notice_project
from tests.web.conftest import ADMIN_TOKEN, Api, application

TOML = """
[notifications]
digest_seconds = 0
channels_open_to_teams = ["support"]

[notifications.channels]
ops = "OPS"
support = "SUPPORT"

[conditions]
private_networks = ["127.0.0.0/8"]

[queries.prices]
sql = "select id, price from prices"

[queries.rates]
sql = "select id, price from prices"
shared = true

[queries.own]
sql = "select id, price from prices where team = %(team_id)s"
"""
DUE = {"target": {"type": "license", "id": "42"}, "due_at": "2099-01-01T00:00:00Z", "reminders": ["1 day before"]}


@resolve_recipients("role")
def role(name, team_id):
    return {"oncall": ["ops"]}[name]


@action("shop:open", open_to_teams=True)
def do_open(payload: dict): ...


@action("for_each:run", transactional=True, open_to_teams=True)
def rows(payload: ForEachPayload, context: Context):
    return run(payload, context)


HANDLERS = (
    role, do_open, rows, deadline.send_reminder, deadline.send_escalation, deadline.mark_missed, deadline.create_next,
)  # fmt: skip


@pytest.fixture
def mailbox():
    return Mailbox()


@pytest.fixture
def project(tmp_path, database_url, connection, mailbox):
    connection.execute("create table prices (id int, price int, team text)")
    connection.execute("insert into prices values (1, 7, 'red'), (2, 9, 'blue')")
    secrets = {"CRON_SECRET": CRON_SECRET, "ADMIN_TOKEN": ADMIN_TOKEN}
    channels = {"OPS": "ops@example.org", "SUPPORT": "support@example.org"}
    with notice_project(tmp_path, database_url, mailbox, *HANDLERS, toml=TOML, **secrets, **channels) as made:
        yield made


@pytest.fixture
def callers(project, connection):
    """Return the API with the tokens of an operator of team red, and of an operator of all teams."""
    client = application(project).test_client()
    made = [tokens.create(connection, name=str(one), role="operator", team_id=one)[1] for one in ("red", None)]
    return [Api(client, secret) for secret in made]


@pytest.fixture
def team(callers):
    return callers[0]


@pytest.fixture
def operator(callers):
    return callers[1]


def through_sql(connection, action_type, payload, *, team_id=None, condition=None):
    text = "select id from schedule_action(%s, %s, team_id => %s, condition => %s, max_attempts => 1)"
    document = None if condition is None else json.dumps(condition)
    return connection.execute(text, [action_type, json.dumps(payload), team_id, document]).fetchone()[0]


# -- deadlines of other teams


def test_a_guard_with_a_deadline_of_another_team_is_treated_as_unknown(project, connection, mailbox):
    due_at = datetime(2099, 1, 1, tzinfo=UTC)
    notices = {"reminders": ["1 day before"], "recipients": "ann@example.org", "team_id": "blue"}
    theirs, _ = project.deadlines.set({**DUE, **notices, "due_at": due_at})

    def notice(deadline_id):
        guard = {"deadline_id": deadline_id, "stage": "reminder:1 day before#1", "revision": 0}
        payload = {"to": "red@example.org", "subject": "x", "text": "x", "guard": guard}
        return through_sql(connection, "notification:send", payload, team_id="red")

    forged, unknown = notice(str(theirs.id)), notice("0197a000-0000-7000-8000-000000000000")
    project.processor.tick()

    found = [row(connection, one) for one in (forged, unknown)]
    assert {(one["status"], str(one["result"]), one["error_message"]) for one in found} == {
        ("skipped", "None", "its deadline does not exist, was changed, or is closed, paused or acknowledged")
    }
    assert (mails(mailbox), reading.notices(project.deadlines.database, theirs)) == ([], [])


# -- addresses


INSIDE = ("http://127.0.0.1:9/x", "https://127.0.0.1:9/x", "https://10.0.0.1/x", "http://hooks.example.com/x")


@pytest.mark.parametrize("address", INSIDE)
def test_addresses_from_a_token_must_be_on_the_public_internet(callers, project, connection, address):
    made, _ = project.deadlines.set({
        **DUE, "due_at": datetime(2099, 1, 1, tzinfo=UTC), "team_id": "red", "recipients": "ann@example.org"
    })  # fmt: skip
    level = {"offset": "1d", "to": address}
    for caller in callers:
        for method, path, body in (
            ("POST", "/deadlines", DUE | {"recipients": [address]}),
            (
                "POST",
                "/deadlines",
                DUE | {"recipients": ["ann@example.org"], "escalation": [level]},
            ),
            ("POST", "/deadlines/preview", DUE | {"recipients": [address]}),
            ("PATCH", f"/deadlines/{made.id}", {"recipients": [address]}),
            ("POST", f"/deadlines/{made.id}/reassign", {"recipients": [address]}),
            ("POST", "/notifications", {"recipients": [address], "text": "x"}),
        ):
            answer = caller(method, path, body)

            assert (answer.status_code, answer.json["code"]) == (400, "invalid_argument"), (path, answer.text)
            assert address not in answer.text
    assert connection.execute("select count(*) from scheduled_action_deadlines").fetchone() == (1,)


@pytest.mark.parametrize(
    "deputy",
    [
        "json://127.0.0.1:9/x", "ftp://files.example.com/x", "http://127.0.0.1:9/x", "ops", "nobody", "who:knows",
        {"email": "ann@example.org", "deputy": "json://127.0.0.1:9/x"},
    ],
)  # fmt: skip
def test_a_deputy_is_validated_like_a_recipient(team, connection, deputy):
    person = {"email": "ann@example.org", "away_until": "2098-01-01T00:00:00Z", "deputy": deputy}

    answers = [
        team("POST", "/deadlines", DUE | {"recipients": [person]}),
        team("POST", "/notifications", {"recipients": [person], "text": "x"}),
    ]

    for answer in answers:
        assert (answer.status_code, answer.json["code"]) == (400, "invalid_argument"), answer.text
        assert "recipients" in answer.json["errors"][0]["field"]
        assert "deputy" in answer.json["errors"][0]["field"]
    assert connection.execute("select count(*) from scheduled_action_deadlines").fetchone() == (0,)


def test_notifications_of_tokens_and_teams_never_reach_private_networks(project, connection):
    with a_receiver() as (place, posts):
        notice = {"to": f"http://{place}/x", "subject": "x", "text": "x"}
        of_code = through_sql(connection, "notification:send", notice)
        of_token = through_sql(connection, "notification:send", notice | {"reach": "public"})
        of_team = through_sql(connection, "notification:send", notice, team_id="red")
        project.processor.tick()

    assert [row(connection, one)["status"] for one in (of_code, of_token, of_team)] == ["completed", "failed", "failed"]
    assert len(posts) == 1


def test_a_deadline_with_recipients_from_a_token_reaches_only_the_public_internet(project, operator):
    due = {**DUE, "due_at": datetime(2099, 1, 1, tzinfo=UTC), "recipients": "http://127.0.0.1:9/x"}
    of_code, _ = project.deadlines.set(due)

    assert of_code.reach is None
    operator("PATCH", f"/deadlines/{of_code.id}", {"timezone": "Europe/Berlin"})
    assert project.deadlines.get(of_code.id).reach is None
    operator("PATCH", f"/deadlines/{of_code.id}", {"recipients": ["ann@example.org"]})
    assert project.deadlines.get(of_code.id).reach == "public"
    assert project.deadlines.update(of_code.id, recipients="http://127.0.0.1:9/x").reach == "public"
    taken_over, _ = project.deadlines.set(due)
    operator("POST", f"/deadlines/{taken_over.id}/reassign", {"recipients": ["ann@example.org"]})
    assert project.deadlines.get(taken_over.id).reach == "public"


# -- named channels


def test_a_team_can_use_only_channels_that_the_settings_open(team, operator, project, mailbox):
    def statuses_of(caller, to):
        deadline = caller("POST", "/deadlines", DUE | {"recipients": [to]})
        notice = caller("POST", "/notifications", {"recipients": [to], "text": "x"})
        return deadline.status_code, notice.status_code

    refused = team("POST", "/notifications", {"recipients": ["ops"], "text": "x"})
    assert "open to teams" in refused.json["detail"]
    unknown = team("POST", "/notifications", {"recipients": ["opz"], "text": "x"})
    assert refused.text.replace("ops", "opz") == unknown.text
    assert (statuses_of(team, "ops"), statuses_of(team, "support"), statuses_of(operator, "ops")) == (
        (400, 400),
        (201, 201),
        (201, 201),
    )
    # Application code and its resolvers can use every channel.
    assert statuses_of(team, "role:oncall") == (201, 201)
    project.notifications.notify("ops", "of code", NoticeOptions(team_id="red"))
    project.processor.tick()
    assert sorted(mail["To"] for mail in mails(mailbox)) == ["ops@example.org"] * 3 + ["support@example.org"]


def test_a_stored_notification_of_a_team_fails_if_its_channel_is_closed(project, connection, mailbox):
    notices = [{"to": to, "subject": "x", "text": "x", "reach": "team"} for to in ("ops", "support")]
    ids = [through_sql(connection, "notification:send", one, team_id="red") for one in notices]
    project.processor.tick()

    assert [row(connection, one)["status"] for one in ids] == ["failed", "completed"]
    assert "open to teams" in row(connection, ids[0])["error_message"]


# -- conditions


def asks(url):
    return {"kind": "http", "url": url}


def test_conditions_of_tokens_and_teams_query_only_the_public_internet(callers, project, connection):
    inside = asks("http://127.0.0.1:9/x")
    for caller in callers:
        for condition in (inside, {"wait": {"any": [{"not": inside}]}}):
            for new in (
                {"condition": condition},
                {"on_success": [{"action_type": "shop:open", "condition": condition}]},
            ):
                answer = caller("POST", "/actions", {"action_type": "shop:open", "payload": {}, **new})
                assert answer.status_code == 400, answer.text
    new = NewAction(action_type="shop:open", payload={}, team_id="red", condition=inside)
    with pytest.raises(UrlInvalid):
        project.scheduler.schedule_action(new)
    asked = callers[1]("POST", "/actions", {
        "action_type": "shop:open", "payload": {}, "condition": {"all": [asks("https://example.com/x")]}
    })  # fmt: skip
    assert asked.json["condition"]["all"][0]["reach"] == "public"


def test_only_conditions_from_code_without_a_team_query_private_networks(project, connection):
    with a_receiver() as (place, _):
        inside = asks(f"http://{place}/x") | {"status": 501}
        of_code = through_sql(connection, "shop:open", {}, condition=inside)
        of_team = through_sql(connection, "shop:open", {}, condition=inside, team_id="red")
        of_token = through_sql(connection, "shop:open", {}, condition=inside | {"reach": "public"})
        project.processor.tick()

    assert row(connection, of_code)["status"] == "completed"
    assert [row(connection, one)["status"] for one in (of_team, of_token)] == ["failed", "failed"]


def test_conditions_of_for_each_from_a_token_query_only_the_public_internet(project, operator, connection):
    later = {"kind": "time_elapsed", "seconds": 9}
    waits = {"wait": {"all": [later, asks("https://example.com/x")]}}
    follow_up = {"action_type": "shop:open", "condition": {**waits, "on_timeout": [{"action_type": "shop:open"}]}}
    options = {"condition": waits, "on_success": [follow_up | {"on_failure": [follow_up]}]}
    rows = {"query": "rates", "action_type": "shop:open", "key": "id", "options": options}

    made = operator("POST", "/actions", {"action_type": "for_each:run", "payload": rows})
    project.processor.tick()

    assert made.status_code == 201, made.text
    found = connection.execute(
        "select condition, on_success #> '{0,condition}', on_success #> '{0,on_failure,0,condition}'"
        " from scheduled_actions where action_type = 'shop:open'"
    ).fetchall()
    assert len(found) == 2
    assert {one["wait"]["all"][1]["reach"] for stored in found for one in stored} == {"public"}


# -- named queries


def test_a_team_can_use_only_queries_that_bind_the_team_or_are_shared(team, operator, project):
    def asked(caller, name, **more):
        condition = {"kind": "query", "name": name}
        rows = {"query": name, "action_type": "shop:open", "key": "id"}
        follow_up = {"action_type": "shop:open", "condition": condition}
        return {
            caller("POST", "/actions", body | more).status_code
            for body in (
                {"action_type": "shop:open", "payload": {}, "condition": condition},
                {
                    "action_type": "shop:open",
                    "payload": {},
                    "on_failure": [follow_up],
                },
                {"action_type": "for_each:run", "payload": rows},
            )
        }

    assert (asked(team, "prices"), asked(team, "rates"), asked(team, "own")) == ({400}, {201}, {201})
    assert asked(operator, "prices") == {201}


def test_a_stored_action_of_a_team_reads_no_rows_of_other_teams(project, connection):
    rows = {"action_type": "shop:open", "key": "id"}
    refused = through_sql(connection, "for_each:run", rows | {"query": "prices"}, team_id="red")
    asking = through_sql(connection, "shop:open", {}, condition={"kind": "query", "name": "prices"}, team_id="red")
    own = through_sql(connection, "for_each:run", rows | {"query": "own"}, team_id="red")
    of_all = through_sql(connection, "for_each:run", rows | {"query": "prices"})
    project.processor.tick()

    ended = [row(connection, one) for one in (refused, asking, own, of_all)]
    assert [one["status"] for one in ended] == ["failed", "failed", "completed", "completed"]
    assert all("shared = true" in one["error_message"] for one in ended[:2])
    assert [one["result"]["scheduled"] for one in ended[2:]] == [1, 2]
