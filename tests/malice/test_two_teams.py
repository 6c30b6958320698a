"""Two teams, one of them hostile: its requests do not affect the other team."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import psycopg
from psycopg import sql

from scheduled_actions.operations import tokens
from scheduled_actions.web.api.dispatch import ROUTES
from scheduled_actions.web.dashboard.site_map import PAGES
from tests.malice import stored
from tests.malice.conftest import IS_WHOLE
from tests.malice.measuring import GROWTH_BYTES_MOST, Lateness, Requests, resident_bytes, run_round
from tests.malice.sample_project import SampleProject, sample_project, seed
from tests.team_resources import RESOURCES
from tests.web.api.test_team_isolation import BODIES, ELSEWHERE, FORMS
from tests.web.dashboard.conftest import Person

#: A text in every field of the other team's objects, which no answer to the hostile team may contain.
CANARY = "canary-of-blue"
_SECONDS = 600.0 if IS_WHOLE else 25.0
#: Number of requests of the hostile team between two rounds of the other team.
_EACH_ROUND = 40
_SEED = 20261122
#: Text columns whose values have a meaning, and are not replaced.
_MEANT = {
    "status",
    "action_type",
    "recurrence",
    "kind",
    "timezone",
    "recurrence_type",
    "misfire",
    "overlap",
    "team_id",
    "url",
    "ordering",
    "headers",
    "secret",
    "previous_secret",
    "role",
    "deadline_stage",
    "stage",
    "waiting",
}


def mark(connection: psycopg.Connection[Any], team_id: str) -> int:
    """Write the canary into every field of a team's rows that accepts it; return the number of columns that have it."""
    columns = connection.execute(
        "select c.relname, a.attname, format_type(a.atttypid, null) from pg_attribute a join pg_class c"
        " on c.oid = a.attrelid where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and a.attnum > 0"
        " and format_type(a.atttypid, null) in ('text', 'jsonb') and exists (select from pg_attribute t"
        " where t.attrelid = c.oid and t.attname = 'team_id')"
    ).fetchall()
    marked = 0
    for table, column, kind in columns:
        if column in _MEANT:
            continue
        value = "%(canary)s || left(md5(ctid::text), 8)" if kind == "text" else _MARKED_DOCUMENT
        statement = sql.SQL("update {table} set {column} = " + value + " where team_id = %(team)s").format(
            table=sql.Identifier(table), column=sql.Identifier(column)
        )
        try:
            done = connection.execute(statement, {"canary": CANARY, "team": team_id})
        except psycopg.Error:
            continue
        marked += done.rowcount > 0
    return marked


_MARKED_DOCUMENT = (
    "case when jsonb_typeof({column}) = 'object'"
    " then {column} || jsonb_build_object(%(canary)s::text, %(canary)s::text) else {column} end"
)


class HostileTeam:
    """Sends random requests of a team that has an operator's token, a session and access by SQL."""

    def __init__(self, made: SampleProject, draw: random.Random, theirs: list[str]) -> None:
        _, secret = tokens.create(made.connection, name="red", role="operator", team_id="red")
        person = Person(made.app.test_client())
        assert person.signs_in(secret).status_code == 303
        self._csrf = person.csrf("/actions/new") if person.opens("/actions/new").status_code == 200 else ""
        self._pages = Requests(person.client)
        self._requests = made.requests
        self._connection = made.connection
        self._headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
        self._draw = draw
        self._theirs = theirs
        self._bodies = [body for _, _, _, body in RESOURCES] + [*BODIES.values()]
        self._bodies += [body for _, _, body in ELSEWHERE.values() if body]
        self.sent = 0

    def attack(self) -> str:
        """Send one hostile request; return the whole answer."""
        self.sent += 1
        way = self._draw.choices((self._call, self._open, self._send, self._by_sql), (6, 2, 1, 2))[0]
        return way()

    def _path(self, template: str) -> str:
        names = {"{id}": self._id(), "{name}": "state", "{type}": "license"}
        for name, value in names.items():
            template = template.replace(name, value)
        return "".join(part if "{" not in part else "x" for part in template.split("/x/"))

    def _id(self) -> str:
        own = [
            str(one)
            for (one,) in self._connection.execute(
                "select id from scheduled_actions where team_id = 'red' order by id desc limit 5"
            )
        ]
        return self._draw.choice([*self._theirs, *own])

    def _call(self) -> str:
        route = self._draw.choice(ROUTES)
        query = ""
        if route.query is not None and self._draw.random() < 0.5:
            name = self._draw.choice([*route.query.model_fields] or ["q"])
            query = f"?{name}={self._draw.choice([self._id(), CANARY[:6], '%00', '9' * 40, '*', '-1', 'blue'])}"
        body = json.dumps(self._body()) if route.body else None
        answer = self._requests(
            route.method, f"/api/v1{self._path(route.path)}{query}", data=body, headers=self._headers
        )
        return answer.text

    def _open(self) -> str:
        page = self._draw.choice([page for page in PAGES if page.method == "GET"])
        return self._pages("GET", f"/dashboard{self._path(page.path)}").text

    def _send(self) -> str:
        page = self._draw.choice([page for page in PAGES if page.method == "POST"])
        fields = {name: str(self._mutated(value)) for name, value in FORMS.get(page.path, {"reason": "x"}).items()}
        path = f"/dashboard{self._path(page.path)}"
        return self._pages("POST", path, data={"csrf": self._csrf, **fields}).text

    def _by_sql(self) -> str:
        columns = ("payload", "condition", "on_success", "on_failure", "retry", "metadata", "target")
        given = {name: self._draw.choice(stored.DOCUMENTS) for name in self._draw.sample(columns, 2)}
        listed = ", ".join(f"{name} => %({name})s::jsonb" for name in given)
        statement = (
            f"select schedule_action(%(type)s, {listed}, team_id => 'red', dedup_window => 0)"
            if self._draw.random() < 0.7
            else "select report_fact(%(target)s::jsonb, %(type)s, %(value)s::jsonb, team_id => 'red')"
        )
        given["target"] = '{"type": "license", "id": "42"}'
        values = {**given, "type": self._draw.choice(["test:run", "test:welcome", "webhook:send", "state"])}
        try:
            self._connection.execute(statement, {**values, "value": self._draw.choice(stored.DOCUMENTS)})
        except psycopg.Error as error:
            return str(error)
        return ""

    def _body(self) -> Any:
        text = json.dumps(self._draw.choice(self._bodies)).replace("{id}", self._id())
        body = json.loads(text)
        for _ in range(self._draw.choice((0, 1, 1, 2))):
            body = self._mutated(body)
        return body

    def _mutated(self, value: Any) -> Any:
        """Return a document with one of its parts replaced by a hostile value."""
        if isinstance(value, dict) and value and self._draw.random() < 0.8:
            name = self._draw.choice([*value])
            return {**value, name: self._mutated(value[name])}
        if isinstance(value, list) and value and self._draw.random() < 0.8:
            place = self._draw.randrange(len(value))
            return [*value[:place], self._mutated(value[place]), *value[place + 1 :]]
        return self._draw.choice(_HOSTILE)


_HOSTILE = [
    None,
    True,
    0,
    -1,
    10**30,
    1e308,
    "",
    " ",
    "x" * 20_000,
    "blue",
    "\u202e",
    "a\u0000b",
    [],
    {},
    [[]],
    [None],
    {"": None},
    "P9999999Y",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "* * * * *",
    "RRULE:FREQ=SECONDLY",
    "every 1 seconds",
    "RRULE:FREQ=SECONDLY;INTERVAL=10007;BYHOUR=0,3,6,9,12,15,18,21;BYMINUTE=0;BYSECOND=0;COUNT=10000",
    "**",
    "a*" * 20,
    "notification:send",
    "maintenance:prune",
    "billing:check-renewals",
    "for_each:run",
    "deadline:missed",
    "reminder:send",
    {"kind": "action_status", "action_id": "00000000-0000-0000-0000-000000000000"},
    {"all": [{"all": []}] * 100},
    {
        "windows": [
            {"from": f"{n // 4:02}:{n % 4 * 15:02}", "to": f"{n // 4:02}:{n % 4 * 15 + 14:02}"} for n in range(96)
        ],
        "adjustment": "following",
    },
    {"ranges": [{"from": f"{1900 + n}-01-01", "to": f"{1900 + n}-12-31"} for n in range(1_000)]},
    ["ann@example.org"] * 1_000,
    "http://127.0.0.1:9/",
    "http://[::1]/",
    "json://127.0.0.1:9/",
    "channel:ops",
]


def test_a_hostile_team_neither_delays_other_teams_nor_reads_their_data(database_url):
    draw = random.Random(_SEED)
    with sample_project(database_url) as made:
        seed(made, team_id="blue")
        assert mark(made.connection, "blue") > 20
        theirs = [
            str(one)
            for table in (
                "scheduled_actions",
                "scheduled_action_schedules",
                "scheduled_action_deadlines",
                "webhook_endpoints",
            )
            for (one,) in made.connection.execute(f"select id from {table} where team_id = 'blue' limit 4")
        ]
        made.connection.execute("delete from scheduled_action_tokens where team_id = 'blue'")
        # They would be pruned if they had ended long ago.
        made.connection.execute("delete from scheduled_actions where completed_at is not null")
        before_rows = rows_of(made, "blue")
        team = HostileTeam(made, draw, theirs)
        lateness = Lateness()
        run_round(made.connection, made.requests)
        memory, until = resident_bytes(), time.monotonic() + _SECONDS

        def good_round() -> list[float]:
            return run_round(made.connection, made.requests)

        def round_after_attacks() -> list[float]:
            for _ in range(_EACH_ROUND):
                answered = team.attack()
                assert CANARY not in answered, answered
            return good_round()

        while time.monotonic() < until:
            lateness.compare(good_round, round_after_attacks)
        print(f"{team.sent:,} hostile requests")
        after_rows = rows_of(made, "blue")
        assert [row for row in before_rows if row not in after_rows] == []
        assert resident_bytes() - memory < GROWTH_BYTES_MOST
        lateness.check()


def rows_of(made: SampleProject, team_id: str) -> list[Any]:
    """Return the stored rows of a team, without the columns that its own due actions change."""
    return made.connection.execute(
        "select to_jsonb(t) - 'updated_at' - 'last_used_at' from webhook_endpoints t where team_id = %(team)s union all"
        " select to_jsonb(t) - 'value' from scheduled_action_facts t where team_id = %(team)s union all"
        " select jsonb_build_object('id', id, 'payload', payload, 'type', action_type) from scheduled_actions"
        " where team_id = %(team)s order by 1",
        {"team": team_id},
    ).fetchall()
