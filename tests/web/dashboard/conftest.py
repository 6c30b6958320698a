"""The dashboard as people of every kind see it, without a browser."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import unescape
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import pytest

from scheduled_actions.operations import tokens
from tests.web.conftest import ADMIN_TOKEN, a_runtime, application, client, runtime

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg
    from flask import Flask
    from flask.testing import FlaskClient
    from werkzeug.test import TestResponse

__all__ = ["a_runtime", "client", "runtime"]


@dataclass
class Person:
    """Somebody with a browser of their own."""

    client: FlaskClient
    base: str = "/dashboard"

    def opens(self, path: str = "", **options: Any) -> TestResponse:
        """Open a page."""
        return self.client.get(self.base + path, **options)

    def csrf(self, path: str = "") -> str:
        """Return the token that stands in the forms of a page."""
        found = re.search(r'name="csrf" value="([^"]+)"', self.opens(path).text)
        assert found is not None, f"{path} has no form"
        return unescape(found[1])

    def sends(self, path: str, csrf: str | None = None, **fields: Any) -> TestResponse:
        """Send a form, with the token of one's session unless another is given."""
        values = {"csrf": self.csrf() if csrf is None else csrf} | fields
        return self.client.post(self.base + path, data=values)

    def makes(self, path: str, csrf: str | None = None, **fields: Any) -> TestResponse:
        """Send a form that is taken, and look at where it leads."""
        sent = self.sends(path, csrf, **fields)
        assert sent.status_code == HTTPStatus.SEE_OTHER, sent.text
        return self.client.get(sent.headers["Location"])

    def signs_in(self, token: str, **fields: str) -> TestResponse:
        """Go through the door."""
        return self.sends("/login", self.csrf("/login"), token=token, **fields)


@pytest.fixture
def app(runtime) -> Flask:
    """Give an application with the project's routes."""
    return application(runtime)


@pytest.fixture
def somebody(app: Flask) -> Callable[..., Person]:
    """Return a function that gives somebody with an empty browser."""
    return lambda **options: Person(app.test_client(), **options)


@pytest.fixture
def admin_person(somebody: Callable[..., Person]) -> Person:
    """Give somebody who has signed in with `ADMIN_TOKEN`."""
    person = somebody()
    assert person.signs_in(ADMIN_TOKEN).status_code == 303
    return person


@pytest.fixture
def a_person(somebody: Callable[..., Person], connection: psycopg.Connection[Any]) -> Callable[..., Person]:
    """Return a function that gives somebody who has signed in with a new token."""

    def make(role: str, team_id: str | None = None, **options: Any) -> Person:
        _, secret = tokens.create(connection, name=f"{role} of tests", role=role, team_id=team_id, **options)
        person = somebody()
        assert person.signs_in(secret).status_code == 303
        return person

    return make
