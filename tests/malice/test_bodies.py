"""Every field of every body of the OpenAPI document, replaced by hostile values: no 5xx, and all pages open."""

from __future__ import annotations

import base64
import os
import random
import re
from typing import TYPE_CHECKING, Any

import pytest

from handlers import deadline, email, notification, webhook
from scheduled_actions.registry import Registry
from scheduled_actions.web.api.openapi import document as openapi
from tests.malice import bodies, corpus
from tests.malice.conftest import IS_WHOLE
from tests.web.conftest import ADMIN_TOKEN, Api, application, gather, run, welcome
from tests.web.dashboard.conftest import Person

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Number of values for each field in a short run.
SAMPLE = int(os.environ.get("BODY_VALUES", "8"))
DOCUMENT = openapi.document("")
OPERATIONS = {f"{method} {path}": (method, path, schema) for method, path, schema in bodies.operations(DOCUMENT)}
LISTS = (
    "/actions", "/actions/counts", "/schedules", "/deadlines", "/facts", "/pauses", "/tokens", "/calendar",
    "/calendar/feeds", "/webhooks/endpoints", "/webhooks/deliveries", "/ticks",
)  # fmt: skip
PAGES = ("", "/actions", "/schedules", "/deadlines", "/calendar", "/webhooks", "/webhooks/deliveries", "/action-types")
#: Kinds of objects that can be opened by id.
THINGS = ("actions", "schedules", "deadlines", "webhooks/endpoints")


@pytest.fixture
def app(a_runtime):
    registry = Registry.of(
        run, welcome, gather, deadline.send_reminder, deadline.send_escalation, deadline.mark_missed,
        deadline.create_next, notification.send, webhook.send, email.send_email,
    )  # fmt: skip
    return application(
        a_runtime(registry=registry, SCHEDULED_ACTIONS_ENCRYPTION_KEY=base64.b64encode(bytes(range(32))).decode())
    )


@pytest.fixture
def api(app) -> Api:
    return Api(app.test_client(), ADMIN_TOKEN)


@pytest.fixture
def person(app) -> Person:
    person = Person(app.test_client())
    person.signs_in(ADMIN_TOKEN)
    return person


def values(rng: random.Random) -> Iterator[tuple[Any, str | None]]:
    """Yield the values for one field, each with its raw text, or None."""
    chosen: list[Any] = corpus.VALUES
    raw = corpus.RAW
    if not IS_WHOLE:
        chosen = [*rng.sample(corpus.KINDS, 4), *rng.sample(corpus.VALUES, SAMPLE - 6)]
        raw = rng.sample(corpus.RAW, 2)
    yield from ((value, None) for value in chosen)
    yield from ((bodies.MARK, text) for text in raw)


def existing_path(api: Api, path: str) -> str:
    """Return the path with the id of an existing object."""
    kind = path.partition("/{")[0]
    made = {
        "/actions": {"action_type": "test:run", "payload": {}, "delay": "P1D"},
        "/schedules": {"action_type": "test:run", "payload": {}, "recurrence": "daily"},
        "/deadlines": bodies.TAKEN["POST", "/deadlines"],
        "/webhooks/endpoints": bodies.TAKEN["POST", "/webhooks/endpoints"],
    }
    if kind in made and "{id}" in path:
        answer = api("POST", kind, made[kind])
        assert answer.status_code in {200, 201}, answer.text
        return path.replace("{id}", answer.json["id"])
    return re.sub(r"{\w+}", "x", path)


def broken_pages(api: Api, person: Person, path: str, answer: Any) -> list[str]:
    """Return the pages of the object in an answer that do not open."""
    document = answer.get_json(silent=True)
    found = re.match(r"/(webhooks/endpoints|[a-z]+)(?=/|$)", path)
    thing = found[1] if found is not None else ""
    if thing not in THINGS or not isinstance(document, dict) or "id" not in document or "preview" in path:
        return []
    shown = [api("GET", f"/{thing}/{document['id']}"), person.opens(f"/{thing}/{document['id']}")]
    if thing == "actions":
        shown.append(person.opens(f"/actions/{document['id']}/edit"))
    return [f"{one.request.path}: {one.status_code}" for one in shown if one.status_code >= 500]


def test_the_corpus_has_at_least_three_hundred_values():
    assert len(corpus.VALUES) + len(corpus.RAW) >= 300


@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_field_of_a_body_breaks_the_api_or_a_page(api, person, operation):
    method, path, schema = OPERATIONS[operation]
    rng = random.Random(operation)
    broken = []
    if (method, path) in bodies.TAKEN:
        answer = api(method, existing_path(api, path), bodies.TAKEN[method, path])
        assert answer.status_code < 300, answer.text

    for place in bodies.places(DOCUMENT, method, path, schema):
        where = existing_path(api, path)
        for value, raw in values(rng):
            data = bodies.text_of(bodies.mutated(place, value), raw)
            answer = api(method, where, data=data, content_type="application/json")
            if answer.status_code >= 500:
                broken.append(f"{'.'.join(map(str, place.steps))} = {(raw or repr(value))[:100]}: {answer.text[:300]}")
            if answer.status_code < 300:
                broken += broken_pages(api, person, path, answer)

    broken += [f"{one}: {api('GET', one).text[:300]}" for one in LISTS if api("GET", one).status_code >= 500]
    broken += [f"page {one}" for one in PAGES if person.opens(one).status_code >= 500]
    assert broken == []
