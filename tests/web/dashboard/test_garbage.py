"""Invalid input in forms and queries: every page shows an error, and none fails."""

from __future__ import annotations

import itertools
import re
from html import unescape
from urllib.parse import quote

import pytest
from cryptography.fernet import Fernet
from hypothesis import HealthCheck, given, settings, strategies as st

from handlers import deadline, notification, webhook
from scheduled_actions.registry import Registry
from scheduled_actions.web.api.dispatch import reserved_path_words
from scheduled_actions.web.dashboard.site_map import PAGES
from tests.team_resources import create_resources
from tests.web.conftest import ADMIN_TOKEN, Api, gather, run, welcome

#: Input of people, programs and attackers, as bytes, because a lone surrogate cannot be encoded as UTF-8.
GARBAGE = [
    b"",
    b" ",
    b"\x00",
    b"a\x00b",
    b"\xed\xa0\x80",
    b"\xff\xfe",
    "\u202e<script>alert(1)</script>".encode(),
    b"%",
    b"%zz",
    b"0",
    b"-1",
    b"1.5",
    b"1e400",
    b"NaN",
    b"Infinity",
    b"9" * 400,
    b"9" * 5000,
    "\u0663\u00b2".encode(),
    b"x" * 70_000,
    b"null",
    b"[]",
    b"{",
    b"[" * 3000,
    b'{"a": 1e999}',
    b'"\\u0000"',
    b'{"a": 1, "a": 2}',
    b'{"\\ud800": 1}',
    b"0001-01-01T00:00",
    b"9999-12-31T23:59",
    b"2026-02-30T10:00",
    b"2026-03-29T02:30",
    b"0000-00-00",
    b"9999-12",
    b"-P1D",
    b"Europe/Nowhere",
    b"../../etc/passwd",
    b"/etc/localtime",
    b"every -1 days",
    b"0 0 30 2 *",
    b"FREQ=SECONDLY;INTERVAL=0",
    b"60 days",
    b"99999999 weeks before",
    b"ann@example.org",
    b"resolver:x",
    b"http://[::1",
    b"https://10.0.0.1/",
    b"a:b",
    b"01900000-0000-7000-8000-000000000000",
    b"urn:uuid:x",
    b"on",
    b"true",
    b"\r\nSet-Cookie: x=1",
]
#: Query parameters that are sent to every page.
QUERIES = {
    "status",
    "action_type",
    "team_id",
    "lock_group",
    "q",
    "cursor",
    "limit",
    "due_from",
    "due_to",
    "next",
    "window",
    "from",
    "to",
    "view",
    "at",
    "user",
    "as",
    "zone",
    "endpoint",
    "event",
    "since",
    "name",
    "target_type",
    "target_id",
    "tab",
    "month",
    "day",
    "overdue",
    "series_id",
    "v",
    "page",
    "force",
    "group",
    "prefix",
}
ANSWERS = {200, 303, 400, 404, 409, 412, 413}


@pytest.fixture
def runtime(a_runtime):
    registry = Registry.of(
        run, welcome, gather, notification.send, webhook.send, deadline.send_reminder, deadline.send_escalation,
        deadline.mark_missed, deadline.create_next,
    )  # fmt: skip
    return a_runtime(registry=registry, SCHEDULED_ACTIONS_ENCRYPTION_KEY=Fernet.generate_key().decode())


@pytest.fixture
def ids(client, connection):
    """Return the ids of one object of each kind, by the first word of the paths of its pages."""
    made, _ = create_resources(Api(client, ADMIN_TOKEN), connection, team_id=None)
    return {
        "actions": made["later"],
        "schedules": made["schedule"],
        "deadlines": made["deadline"],
        "webhooks": made["endpoint"],
        "calendar": made["feed"],
        "limits": made["pause"],
    } | {"deliveries": made["delivery"]}


#: All pages, those that end or delete an object last. Without the page that runs a tick: it reads no input.
ALL = sorted(
    (page for page in PAGES if page.path != "/ticks/run"),
    key=lambda page: re.search(r"/(cancel|complete|remove|delete|revoke|run|edit)$", page.path) is not None,
)


def address(page, ids):
    """Return the address of a page of an existing object."""
    words = page.path.strip("/").split("/")
    wanted = ids["deliveries"] if "deliveries" in words else ids.get(words[0], "")
    path = page.path.replace("{id}", wanted).replace("{name}", "payload").replace("{type}", "test:welcome")
    return f"/dashboard{path}".rstrip("/")


def inputs(text):
    """Return the names of a page's inputs."""
    return {unescape(name) for name in re.findall(r'<(?:input|select|textarea)[^>]* name="([^"]+)"', text)} - {"csrf"}


def encoded(pairs):
    return "&".join(f"{quote(name)}={quote(value)}" for name, value in pairs)


class Visitor:
    """A signed-in caller, with the names of all inputs of all pages."""

    def __init__(self, person, ids, caplog):
        self.client = person.client
        self.csrf = person.csrf("/schedules/new")
        self.ids = ids
        self.caplog = caplog
        self.names = {}
        for page in PAGES:
            if page.method == "GET":
                self.names[page.path] = inputs(self.client.get(address(page, ids)).text)
        everywhere = set().union(*self.names.values())
        for page in PAGES:
            if page.method == "POST":
                # A form is on the page with its own path, or is a button on the page of the parent path.
                own = self.names.get(page.path) or self.names.get(page.path.rpartition("/")[0], set())
                self.names[page.path] = own | ({"reason"} & everywhere)

    def inputs(self, page):
        """Return the sorted names of the inputs of a page."""
        return sorted(self.names[page.path] | (QUERIES if page.method == "GET" else set()))

    def sends(self, page, pairs):
        """Send a form or open a page; return a description of the failure, or None."""
        path = address(page, self.ids)
        if page.method == "GET":
            answer = self.client.get(f"{path}?{encoded(pairs)}")
        else:
            answer = self.client.post(
                path,
                data=encoded([("csrf", self.csrf.encode()), *pairs]),
                content_type="application/x-www-form-urlencoded",
            )
        broken = [
            record.exc_text or record.getMessage() for record in self.caplog.records if record.levelname == "ERROR"
        ]
        self.caplog.clear()
        if answer.status_code in ANSWERS and not broken:
            return None
        return f"{page.method} {page.path} {pairs[:3]}: {answer.status_code} {[one[-300:] for one in broken]}"


@pytest.fixture
def visitor(admin_person, ids, caplog):
    return Visitor(admin_person, ids, caplog)


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/schedules/new", {"jitter_seconds": "1e400"}),
        ("/schedules/new", {"pause_after_failures": "Infinity"}),
        ("/schedules/new", {"skip_dates": "2026-02-30", "payload": "{"}),
        ("/deadlines/new", {"due_at": "9999-12-31T23:59", "timezone": "Europe/Nowhere"}),
        ("/action-types/test:welcome", {"when": "delay", "delay": "9" * 400, "payload.times": "1e400"}),
        ("/actions/retry", {"due_from": "0001-01-01T00:00", "all": "on"}),
        ("/webhooks/endpoints/new", {"url": "http://[::1", "rate_limit": "NaN", "headers": "\x00: x"}),
    ],
    ids=str,
)
def test_a_form_with_invalid_input_shows_an_error(admin_person, ids, path, fields):
    sent = admin_person.sends(path, **fields)

    assert sent.status_code in {400, 404}
    assert "internal_error" not in sent.text


@pytest.mark.parametrize(
    "query", ["from=9999-12-31T23:59", "from=0001-01-01T00:00", "from=x", "window=century", "from=%ED%A0%80"]
)
def test_an_invalid_simulation_range_causes_no_server_error(admin_person, query):
    assert admin_person.opens(f"/simulate?{query}").status_code in {200, 400}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_no_page_fails_on_the_same_garbage_in_every_input(visitor, method):
    broken = [
        visitor.sends(page, [(name, value) for name in names])
        for page in ALL
        if page.method == method and (names := visitor.inputs(page))
        for value in GARBAGE
    ]

    assert [one for one in broken if one] == []


def test_no_page_uses_a_reserved_word_of_the_api_as_an_id(admin_person, ids, caplog):
    csrf = admin_person.csrf("/schedules/new")
    words = reserved_path_words()

    for page, word in itertools.product((page for page in PAGES if "{id}" in page.path), sorted(words)):
        path = page.path.replace("{id}", word).replace("{name}", "payload")
        if not any(other.path == path for other in PAGES):
            answer = admin_person.client.open(f"/dashboard{path}", method=page.method, data={"csrf": csrf})
            assert answer.status_code == 404, (page, word)

    assert {"counts", "batch", "preview", "move"} <= words
    assert admin_person.opens("/action-types/test:run?from=counts").status_code == 404
    assert admin_person.opens("/action-types/test:run?from=").status_code == 200
    assert "ERROR" not in {record.levelname for record in caplog.records}


@pytest.mark.slow
def test_no_page_fails_on_different_garbage_in_every_input(visitor):
    pages = [page for page in ALL if visitor.inputs(page)]

    @settings(max_examples=1500, database=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def check(data):
        page = data.draw(st.sampled_from(pages))
        value = (
            st.sampled_from(GARBAGE)
            | st.binary(max_size=40)
            | st.text(max_size=40).map(lambda text: text.encode("utf-8", "surrogatepass"))
        )
        pairs = data.draw(st.lists(st.tuples(st.sampled_from(visitor.inputs(page)), value), max_size=12))
        assert visitor.sends(page, pairs) is None

    check()
