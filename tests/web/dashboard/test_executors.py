"""The executors on the overview."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from html import unescape
from uuid import uuid4

import pytest

from scheduled_actions.core.config import settings_of
from scheduled_actions.executors.store import write_executors
from scheduled_actions.web.dashboard import operations
from tests.executors.test_service import write
from tests.factories import database_now, due_for, insert, insert_many

MEDIA = {"executors": {"media": {"types": ["video:*"]}, "gpu": {"types": [f"model:{n}" for n in range(8)]}}}


@pytest.fixture
def media(runtime, connection):
    """Add executors to the settings and to the database of the project."""
    executors = settings_of(MEDIA).executors
    settings = replace(runtime.config.settings, executors=executors)
    runtime.config = replace(runtime.config, settings=settings)
    write_executors(connection, executors, replace=True)


def rows(page):
    """Return the words of each row of the table of executors."""
    table = page.text.partition('<h2 id="executors">')[2].partition("</table>")[0]
    body = table.partition("<tbody>")[2].partition("</tbody>")[0]
    body = re.sub(r'<span class="on-cards">[^<]+</span>', "", body)
    return [" ".join(unescape(re.sub(r"<[^>]+>", " ", row)).split()) for row in body.split("</tr>")[:-1]]


@pytest.mark.usefixtures("media")
def test_the_overview_shows_executors_with_their_queues_and_workers(admin_person, connection):
    insert(connection, action_type="video:cut", **due_for(connection, seconds=180))
    write(connection, "gpu-1:7", executor="gpu")

    gpu, media = rows(admin_person.opens())

    assert re.fullmatch(
        r"gpu model:0 , model:1 , model:2 , model:3 , model:4 , model:5 and 2 more 0 — 0 0 1 not within a day ready",
        gpu,
    )
    assert re.fullmatch(r"media video:\* 1 3 (min|minutes) ago 0 0 0 not within a day no worker", media)


@pytest.mark.usefixtures("media")
def test_more_than_ten_thousand_due_actions_are_not_counted(admin_person, connection):
    insert_many(connection, 10_001, action_type="video:cut", parked_by="queue:media")

    page = admin_person.opens()

    assert " 10,000+ " in rows(page)[1]
    assert "all are queued by limits, wait for workers or paused" in page.text


@pytest.mark.usefixtures("media")
def test_a_removed_executor_is_shown_until_its_queue_has_returned(admin_person, connection):
    connection.execute("update scheduled_action_executors set types = '{}', is_returning = true where name = 'gpu'")

    assert (
        rows(admin_person.opens())[0]
        == "gpu removed: its queue returns to the ticks 0 — 0 0 0 not within a day removed"
    )


@pytest.mark.usefixtures("media")
def test_the_overview_shows_untaken_tickets_and_their_age(admin_person, connection):
    now = database_now(connection)
    insert(
        connection, action_type="video:cut", status="processing", executor="media", claim_token=uuid4(),
        lease_expires_at=now + timedelta(minutes=2), updated_at=now - timedelta(minutes=3),
    )  # fmt: skip

    assert re.fullmatch(
        r"media video:\* 0 — 1 3 (min|minutes) ago 0 0 not within a day no worker", rows(admin_person.opens())[1]
    )


@pytest.mark.usefixtures("media")
def test_callers_of_a_team_see_no_executors(a_person):
    assert '<h2 id="executors">' not in a_person("admin", "red").opens().text
    assert '<h2 id="executors">' in a_person("viewer").opens().text


def test_without_executors_in_the_settings_the_overview_reads_none(admin_person, runtime, connection, monkeypatch):
    write_executors(connection, settings_of(MEDIA).executors, replace=True)
    calls = []
    before = operations.RequestContext.call
    monkeypatch.setattr(
        operations.RequestContext,
        "call",
        lambda context, *given, **named: calls.append(given) or before(context, *given, **named),
    )

    page = admin_person.opens()

    assert '<h2 id="executors">' not in page.text
    assert ("GET", "/ticks") in calls
    assert ("GET", "/executors") not in calls
    assert "executors" not in vars(runtime)
