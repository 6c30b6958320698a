"""A token of a team sees and schedules only the types that are open to teams."""

from __future__ import annotations

import pytest

from handlers import maintenance
from scheduled_actions import action
from scheduled_actions.registry import Registry


@action("shop:open", open_to_teams=True)
def do_open(payload: dict): ...


@action("shop:closed")
def do_closed(payload: dict): ...


@pytest.fixture
def runtime(a_runtime):
    return a_runtime(registry=Registry.of(do_open, do_closed, maintenance.prune))


def test_pages_offer_only_types_that_the_token_may_schedule(a_person, admin_person):
    team = a_person("operator", "red")

    for path in ("/schedules/new", "/deadlines/new"):
        offered = [one for one in ("shop:open", "shop:closed", "maintenance:prune") if one in team.opens(path).text]
        assert offered == ["shop:open"], path
    listed = team.opens("/action-types").text
    assert 'href="/dashboard/action-types/shop:open"' in listed
    assert 'href="/dashboard/action-types/shop:closed"' not in listed
    assert 'href="/dashboard/action-types/shop:closed"' in admin_person.opens("/action-types").text
    assert 'href="/dashboard/action-types/maintenance:prune"' not in admin_person.opens("/action-types").text


def test_a_form_of_a_closed_type_is_refused_as_the_api_refuses_it(a_person, connection):
    team = a_person("operator", "red")

    refused = [
        team.sends(path, team.csrf("/schedules/new"), payload="{}", **fields)
        for path, fields in (
            ("/action-types/shop:closed", {"when": "now", "as": "json"}),
            ("/schedules/new", {"action_type": "shop:closed", "pattern": "daily", "at": "12:00", "timezone": "UTC"}),
        )
    ]

    assert [one.status_code for one in refused] == [403, 400]
    assert all("is not open to tokens of a team" in one.text for one in refused)
    assert connection.execute("select count(*) from scheduled_actions").fetchone() == (0,)
