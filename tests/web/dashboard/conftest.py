"""Requests to the dashboard by callers of every role, without a browser."""

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
    """A caller with cookies of its own."""

    client: FlaskClient
    base: str = "/dashboard"

    def opens(self, path: str = "", **options: Any) -> TestResponse:
        """Open a page."""
        return self.client.get(self.base + path, **options)

    def csrf(self, path: str = "") -> str:
        """Return the CSRF token of a page."""
        found = re.search(r'name="csrf" value="([^"]+)"', self.opens(path).text)
        assert found is not None, f"{path} has no form"
        return unescape(found[1])

    def sends(self, path: str, csrf: str | None = None, **fields: Any) -> TestResponse:
        """Send a form, by default with the CSRF token of the session."""
        values = {"csrf": self.csrf() if csrf is None else csrf} | fields
        return self.client.post(self.base + path, data=values)

    def makes(self, path: str, csrf: str | None = None, **fields: Any) -> TestResponse:
        """Send a form that is accepted, and follow the redirect."""
        sent = self.sends(path, csrf, **fields)
        assert sent.status_code == HTTPStatus.SEE_OTHER, sent.text
        return self.client.get(sent.headers["Location"])

    def signs_in(self, token: str, **fields: str) -> TestResponse:
        """Sign in."""
        return self.sends("/login", self.csrf("/login"), token=token, **fields)


@pytest.fixture
def app(runtime) -> Flask:
    """Return an application with the project's routes."""
    return application(runtime)


@pytest.fixture
def a_visitor(app: Flask) -> Callable[..., Person]:
    """Return a function that creates a caller without cookies."""
    return lambda **options: Person(app.test_client(), **options)


@pytest.fixture
def admin_person(a_visitor: Callable[..., Person]) -> Person:
    """Return a caller who is signed in with `ADMIN_TOKEN`."""
    person = a_visitor()
    assert person.signs_in(ADMIN_TOKEN).status_code == 303
    return person


@pytest.fixture
def a_person(a_visitor: Callable[..., Person], connection: psycopg.Connection[Any]) -> Callable[..., Person]:
    """Return a function that creates a caller who is signed in with a new token."""

    def make(role: str, team_id: str | None = None, **options: Any) -> Person:
        _, secret = tokens.create(connection, name=f"{role} of tests", role=role, team_id=team_id, **options)
        person = a_visitor()
        assert person.signs_in(secret).status_code == 303
        return person

    return make
