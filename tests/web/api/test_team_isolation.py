"""Isolation of teams: on every route and page, resources of another team are indistinguishable from unknown ones."""

from __future__ import annotations

import itertools
import json
import re
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from uuid import uuid4

import psycopg
import pytest
from cryptography.fernet import Fernet

from handlers import deadline, notification, webhook
from scheduled_actions.operations import tokens
from scheduled_actions.registry import Registry
from scheduled_actions.web.api.dispatch import ROUTES
from scheduled_actions.web.dashboard.site_map import PAGES
from tests.factories import CRON_SECRET, NOW, a_tick, set_clock
from tests.team_resources import FACT, GROUP, KEY, TARGET, URL, USER, create_resources
from tests.web.conftest import Api, application, run
from tests.web.dashboard.conftest import Person

if TYPE_CHECKING:
    from flask import Flask

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY")
#: Bodies with which each operation changes a resource of the caller's team.
BODIES = {
    ("PATCH", "/actions/{id}"): {"priority": 5, "force": True},
    ("PATCH", "/schedules/{id}"): {"priority": 5},
    ("POST", "/schedules/{id}/backfill"): {"from": "2026-03-01T00:00:00Z", "to": "2026-03-03T00:00:00Z"},
    ("POST", "/deadlines/{id}/move"): {"delay": "P100D"},
    ("POST", "/deadlines/{id}/acknowledge"): {"until": "2026-03-05T00:00:00Z"},
    ("POST", "/deadlines/{id}/reassign"): {"recipients": "bob@example.org"},
    ("PATCH", "/webhooks/endpoints/{id}"): {"enabled": False},
    ("POST", "/webhooks/endpoints/{id}/replay-missed"): {"from": "2026-03-01T00:00:00Z"},
}
QUERIES = {("PATCH", "/actions/{id}"): "?force=true"}
FORMS = {
    "/deadlines/{id}/move": {"due_at": "2026-09-01T12:00"},
    "/deadlines/{id}/reassign": {"recipients": "bob@example.org"},
    "/schedules/{id}/edit": {"recurrence": "hourly"},
    "/webhooks/endpoints/{id}/edit": {"url": URL},
    "/actions/{id}/edit": {"priority": "5"},
}
#: Names of resources of team blue, by the first part of the path.
NAMES = {"schedules": "report", "deadlines": "renewal"}
#: Requests with an id in the query or the body.
ELSEWHERE = {
    "cursor of actions": ("GET", "/actions?cursor={id}", None),
    "search": ("GET", "/actions?q={id}", None),
    "cursor of schedules": ("GET", "/schedules?cursor={id}", None),
    "cursor of deadlines": ("GET", "/deadlines?cursor={id}", None),
    "series": ("GET", "/deadlines?series_id={id}", None),
    "cursor of facts": ("GET", "/facts?cursor={id}", None),
    "cursor of tokens": ("GET", "/tokens?cursor={id}", None),
    "cursor of feeds": ("GET", "/calendar/feeds?cursor={id}", None),
    "cursor of endpoints": ("GET", "/webhooks/endpoints?cursor={id}", None),
    "cursor of deliveries": ("GET", "/webhooks/deliveries?cursor={id}", None),
    "deliveries of an endpoint": ("GET", "/webhooks/deliveries?endpoint={id}", None),
    "recovery of an endpoint": (
        "POST", "/webhooks/deliveries/recover", {"from": "2026-03-01T00:00:00Z", "endpoint": "{id}"},
    ),
    "moves": ("POST", "/deadlines/move", {"moves": {"{id}": "2026-09-01T00:00:00Z"}}),
    "bulk": ("POST", "/actions/cancel", {"q": "{id}", "force": True}),
    "cursor of bulk": ("POST", "/actions/cancel", {"cursor": "{id}", "all": True, "force": True}),
    "after": ("POST", "/actions", {"action_type": "test:run", "payload": {}, "after": ["{id}"]}),
    "condition": (
        "POST", "/actions",
        {"action_type": "test:run", "payload": {},
         "condition": {"kind": "action_status", "action_id": "{id}", "status": "completed"}},
    ),
    "endpoint of an event": (
        "POST", "/actions",
        {"action_type": "webhook:send",
         "payload": {"event": "a:b", "entity_id": "1", "data": {}, "endpoint": "{id}"}},
    ),
    "deadline of a reminder": (
        "POST", "/actions",
        {"action_type": "reminder:send", "payload": {"deadline_id": "{id}", "stage": "reminder:60 days before"}},
    ),
}  # fmt: skip
#: Values of the resources of a team, by filter.
VALUES = {
    "team_id": "blue", "action_type": "test:run", "lock_group": GROUP, "q": KEY, "user": USER, "user_id": USER,
    "target_type": "license", "target_id": "42", "name": "renewal", "event": "license:*", "status": "failed",
}  # fmt: skip


#: Text that differs between equal installations: secrets, values derived from them, and times of the system clock.
VARYING = re.compile(
    r"(whsec|sat|saf)_[\w+/=-]+|calendar/[\w-]{20,}|(csrf\W+value|X-CSRF-Token|(?i:hint|etag|DTSTAMP))\W+[\w.-]+"
    r'|"Content-Length": "[0-9]+"'
)


@dataclass(frozen=True)
class Installation:
    """An application with its own database, whose clock is stopped."""

    app: Flask
    connection: psycopg.Connection[Any]
    url: str

    def caller(self, team_id: str, role: str = "admin") -> Api:
        """Create a token of a team; return the API with that token."""
        _, secret = tokens.create(self.connection, name=f"{role} of a team", role=role, team_id=team_id)
        return Api(self.app.test_client(), secret)

    def person(self, api: Api) -> Person:
        """Return a person who is signed in with the token of `api`."""
        person = Person(self.app.test_client())
        assert person.signs_in(api.token).status_code == 303
        return person

    def rows(self, team_id: str | None = None) -> dict[str, list[Any]]:
        """Return the rows of all tables; with a team, its rows of all tables that have a team."""
        tables = self.connection.execute(
            "select table_name, bool_or(column_name = 'team_id') from information_schema.columns c"
            " join information_schema.tables t using (table_schema, table_name)"
            " where table_schema = 'public' and table_type = 'BASE TABLE' group by 1 order by 1"
        ).fetchall()
        return {
            table: self.connection.execute(
                f"select to_jsonb(t) - 'last_used_at' from {table} t"
                + (" where team_id = %(team_id)s" if team_id else "") + " order by 1",
                {"team_id": team_id},
            ).fetchall()
            for table, has_teams in tables
            if has_teams or team_id is None
        }  # fmt: skip


@pytest.fixture
def new_installation(a_runtime, databases):
    """Yield a function that creates an installation."""
    key = Fernet.generate_key().decode()
    registry = Registry.of(
        run, notification.send, webhook.send, deadline.send_reminder, deadline.send_escalation, deadline.mark_missed,
        deadline.create_next,
    )  # fmt: skip
    with ExitStack() as stack:

        def make() -> Installation:
            url = stack.enter_context(databases.fresh())
            connection = stack.enter_context(psycopg.connect(url, autocommit=True))
            set_clock(connection, NOW)
            runtime = a_runtime(registry=registry, DATABASE_URL=url, SCHEDULED_ACTIONS_ENCRYPTION_KEY=key)
            stack.callback(runtime.close)
            return Installation(application(runtime), connection, url)

        yield make


@pytest.fixture
def installation(new_installation):
    """Return an installation."""
    return new_installation()


def normalized(value: Any) -> str:
    """Return a response in which ids are numbered by first appearance, and secrets and system times are replaced."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
    text = VARYING.sub("<varying>", text)
    seen: dict[str, str] = {}
    return re.sub(
        r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
        lambda found: seen.setdefault(found[0], f"<{len(seen)}>"),
        text,
    )


def comparable(response: Any, *ids: str) -> tuple[int, dict[str, str], str]:
    """Return the status, headers and body of a response, with the given ids replaced."""
    headers = {name: value for name, value in response.headers.items() if name not in {"Content-Length", "Set-Cookie"}}
    text = json.dumps([headers, response.text])
    for wanted in ids:
        text = text.replace(wanted, "<id>")
    return response.status_code, text


def filled(template: Any, wanted: str) -> Any:
    """Return a path or a body in which the id replaces `{id}`."""
    return json.loads(json.dumps(template).replace("{id}", wanted))


def unknown_id() -> str:
    """Return an unknown id, older than all others: as a cursor it selects no rows, like an id of another team."""
    return f"0195{str(uuid4())[4:]}"


def related_ids(ids: dict[str, str], path: str) -> list[tuple[str, str]]:
    """Return the kinds and ids of resources that a path may refer to, and one of another kind."""
    apart = {"schedules": "schedule", "deadlines": "deadline", "tokens": "token", "calendar": "feed"}
    family = path.split("/")[1]
    if family in apart:
        return [(what, ids[what]) for what in (apart[family], "later")]
    kinds = ("endpoint", "delivery") if family == "webhooks" else ids.keys() - apart.values() - {"merged"}
    return [(what, ids[what]) for what in kinds]


ONE = sorted({(route.method, route.path) for route in ROUTES if "{id}" in route.path})


def test_on_every_route_an_id_of_another_team_is_indistinguishable_from_an_unknown_id(installation):
    ids, _ = create_resources(installation.caller("blue"), installation.connection, team_id="blue")
    red = installation.caller("red")
    before = installation.rows()

    for route in (route for route in ROUTES if "{id}" in route.path):
        path = route.path + QUERIES.get((route.method, route.path), "")
        body = BODIES.get((route.method, route.path), {} if route.body else None)
        of_unknown = comparable(red(route.method, filled(path, unknown := unknown_id()), body), unknown)
        assert of_unknown[0] == 404, (route, of_unknown)
        for what, wanted in related_ids(ids, path):
            assert comparable(red(route.method, filled(path, wanted), body), wanted) == of_unknown, (route, what)
        name = NAMES.get(path.split("/")[1], "the-key")
        assert comparable(red(route.method, filled(path, name), body), name)[0] == 404, (route, name)

    assert installation.rows() == before


def test_a_locked_row_of_another_team_does_not_change_a_response(installation):
    ids, _ = create_resources(installation.caller("blue"), installation.connection, team_id="blue")
    red = installation.caller("red")
    seen = {"headers": {"If-Match": '"x"'}}

    with psycopg.connect(installation.url) as holder:
        for table, rows in installation.rows("blue").items():
            assert not rows or holder.execute(f"select from {table} where team_id = 'blue' for update").rowcount
        for route in (route for route in ROUTES if "{id}" in route.path and route.method != "GET"):
            path = route.path + QUERIES.get((route.method, route.path), "")
            body = BODIES.get((route.method, route.path), {} if route.body else None)
            for options in ({}, seen) if route.takes_if_match else ({},):
                of_unknown = comparable(
                    red(route.method, filled(path, unknown := unknown_id()), body, **options), unknown
                )
                assert of_unknown[0] == 404, (route, of_unknown)
                for what, wanted in related_ids(ids, path):
                    answer = comparable(red(route.method, filled(path, wanted), body, **options), wanted)
                    assert answer == of_unknown, (route, what)


def test_the_response_to_an_unsupported_method_does_not_depend_on_the_id(installation):
    ids, _ = create_resources(installation.caller("blue"), installation.connection, team_id="blue")
    red = installation.caller("red")

    for method, path in itertools.product(METHODS, sorted({path for _, path in ONE})):
        if (method, path) not in ONE and (method, "GET", path) != ("HEAD", "GET", path):
            of_unknown = comparable(red(method, filled(path, unknown := unknown_id())), unknown)
            for what in ("later", "schedule", "deadline", "endpoint", "token"):
                assert comparable(red(method, filled(path, ids[what])), ids[what]) == of_unknown, (method, path, what)


def test_in_bodies_and_queries_an_id_of_another_team_is_indistinguishable_from_an_unknown_id(installation):
    ids, _ = create_resources(installation.caller("blue"), installation.connection, team_id="blue")
    red = installation.caller("red")
    before = installation.rows("blue")

    for where, (method, path, body) in ELSEWHERE.items():
        unknown = unknown_id()
        of_unknown = normalized(comparable(red(method, filled(path, unknown), filled(body, unknown)), unknown))
        for what, wanted in ids.items():
            answer = comparable(red(method, filled(path, wanted), filled(body, wanted)), wanted)
            assert normalized(answer) == of_unknown, (where, what)

    assert installation.rows("blue") == before


def test_on_every_page_an_id_of_another_team_is_indistinguishable_from_an_unknown_id(installation):
    ids, _ = create_resources(installation.caller("blue"), installation.connection, team_id="blue")
    person = installation.person(installation.caller("red"))
    csrf = person.csrf("/schedules/new")
    before = installation.rows()

    def visited(page, wanted):
        path = f"/dashboard{page.path}".replace("{id}", wanted).replace("{name}", "payload")
        if page.method == "GET":
            return comparable(person.client.get(path), wanted)
        return comparable(person.client.post(path, data={"csrf": csrf, **FORMS.get(page.path, {})}), wanted)

    for page in (page for page in PAGES if "{id}" in page.path):
        of_unknown = visited(page, unknown_id())
        assert of_unknown[0] == 404, page
        for what, wanted in related_ids(ids, page.path):
            assert visited(page, wanted) == of_unknown, (page, what)

    assert installation.rows() == before


def everything(installation: Installation, api: Api, feed: str) -> dict[str, Any]:
    """Return all data that an admin of a team can read: every list with every filter, every page, and the feed."""
    seen = {}
    for route in (route for route in ROUTES if route.method == "GET" and "{" not in route.path):
        filters = {name: VALUES[name] for name in route.query.model_fields if name in VALUES}
        pairs = [{}, *({name: value} for name, value in filters.items())]
        for query in pairs:
            both = {"target_type": "license", "target_id": "42"} if {"target_id", "target_type"} & set(query) else query
            answer = api("GET", f"{route.path}?{urlencode(both)}")
            seen[route.path, str(query)] = normalized([answer.status_code, answer.json])
    person = installation.person(api)
    for page in (page for page in PAGES if page.method == "GET" and "{" not in page.path):
        answer = person.opens(page.path)
        seen["page", page.path] = normalized([answer.status_code, answer.text])
    seen["calendar"] = normalized(api.client.get(feed).text)
    for one in api("GET", "/actions").json["actions"]:
        seen["explained", one["action_type"], one["created_at"]] = normalized(
            api("GET", f"/actions/{one['id']}/explain").json
        )
    for one in ("/schedules/report", "/deadlines/renewal", FACT, f"{FACT}/history"):
        seen[one] = normalized(api("GET", one).json)
    return seen


def test_everything_that_a_team_can_read_is_independent_of_other_teams(new_installation):
    alone, shared = new_installation(), new_installation()
    set_clock(shared.connection, NOW - timedelta(hours=1))
    create_resources(shared.caller("blue"), shared.connection, team_id="blue")
    set_clock(shared.connection, NOW)

    def read_all(installation):
        red = installation.caller("red")
        ids, answers = create_resources(red, installation.connection, team_id="red")
        feed = red("POST", "/calendar/feeds", {"name": "all"}).json["path"]
        # Actions have been due for ten minutes, and a tick has run: `explain` returns why they have not run.
        set_clock(installation.connection, NOW + timedelta(minutes=10))
        tick = a_tick(installation.connection)
        installation.connection.execute(
            "update scheduled_action_ticks set finished_at = scheduled_actions_now(), counts = jsonb_build_object("
            "'remaining', (select count(*) from scheduled_actions where status = 'pending')) where id = %s",
            [tick.id],
        )
        return [normalized(one) for one in answers], everything(installation, red, feed), normalized(sorted(ids))

    quiet, busy = read_all(alone), read_all(shared)

    assert busy[0] == quiet[0]
    assert {where: (quiet[1][where], seen) for where, seen in busy[1].items() if seen != quiet[1][where]} == {}


def test_changes_by_one_team_do_not_change_rows_of_another(installation):
    red, blue = installation.caller("red"), installation.caller("blue")
    create_resources(red, installation.connection, team_id="red")
    create_resources(blue, installation.connection, team_id="blue")
    before = installation.rows("red")

    for method, path, body in [
        ("PUT", FACT, {"value": "expired"}),
        ("DELETE", FACT, None),
        ("POST", "/actions", {"action_type": "test:run", "payload": {"entity_id": "42", "new": 1}, "dedup_key": KEY}),
        ("PATCH", "/schedules/report", {"recurrence": "hourly"}),
        ("POST", "/schedules/report/pause", {}),
        ("DELETE", "/schedules/report", None),
        ("POST", "/deadlines/renewal/complete", {}),
        ("POST", "/actions/cancel", {"lock_group": GROUP, "force": True}),
        ("POST", "/actions/retry", {"all": True}),
        ("POST", "/actions/delete", {"all": True}),
        ("POST", "/webhooks/deliveries/recover", {"from": "2026-01-01T00:00:00Z"}),
    ]:
        assert blue(method, path, body).status_code in {200, 201}, path

    assert installation.rows("red") == before


@pytest.mark.parametrize("action_type", ["reminder:send", "escalation:send", "deadline:miss", "deadline:renew"])
def test_an_action_cannot_use_a_deadline_of_another_team(installation, action_type):
    red, blue = installation.caller("red"), installation.caller("blue")
    due = {"target": TARGET, "due_at": (NOW + timedelta(minutes=1)).isoformat(), "recurrence": "daily"}
    notices = {"reminders": ["1 hour before"], "recipients": ["ann@example.org"]}
    theirs = blue(
        "POST", "/deadlines", due | notices | {"escalation": [{"offset": "1 day", "to": ["cfo@example.org"]}]}
    ).json
    installation.connection.execute("delete from scheduled_actions")
    set_clock(installation.connection, NOW + timedelta(hours=1))
    before = installation.rows("blue")
    stage = {"reminder:send": "reminder:1 hour before", "escalation:send": "escalation:1"}.get(action_type, "due")

    # No token may schedule these types, but SQL may schedule them for a team.
    ours = [
        installation.connection.execute(
            "select id from schedule_action(%s, %s, team_id => 'red')",
            [action_type, json.dumps({"deadline_id": one, "stage": stage})],
        ).fetchone()[0]
        for one in (theirs["id"], unknown_id())
    ]
    ticked = red.client.post("/cron/process", headers={"x-cron-secret": CRON_SECRET})
    found = [red("GET", f"/actions/{one}").json for one in ours]

    assert ticked.json["processed"] == 2
    assert installation.rows("blue") == before
    assert (
        len({(one["status"], str(one["result"]), re.sub(r"[0-9a-f-]{36}", "", one["error_message"])) for one in found})
        == 1
    )
