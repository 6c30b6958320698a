"""A setting of an endpoint is one in Python, over HTTP, at the command line and in the docs."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import click

from scheduled_actions.cli.webhooks.endpoints import endpoints
from scheduled_actions.web.api.webhooks import models
from scheduled_actions.webhooks.endpoints import checks
from scheduled_actions.webhooks.endpoints.views import Shown

DOCS = Path(__file__).parents[2] / "docs"
#: Shown by their names alone: their values may be secrets.
SECRET = {"headers"}


def test_the_api_takes_and_shows_each_setting():
    assert models.EndpointChanges.model_fields.keys() == checks.SETTINGS
    assert models.NewEndpoint.model_fields.keys() == checks.SETTINGS | {"team_id", "secret"}
    assert models.Endpoint.model_fields.keys() == {field.name for field in fields(Shown)}
    assert {field.name for field in fields(Shown)} >= checks.SETTINGS - SECRET


def test_the_command_line_takes_each_setting():
    update = endpoints.get_command(click.Context(endpoints), "update")

    assert {option.name for option in update.params} >= checks.SETTINGS - {"enabled"}


def test_the_docs_of_the_api_name_each_setting():
    page = (DOCS / "reference/http.md").read_text(encoding="utf-8")
    [row] = [line for line in page.splitlines() if line.startswith("| `POST /api/v1/webhooks/endpoints` |")]

    assert {name for name in checks.SETTINGS if f"`{name}`" not in row} == set()
