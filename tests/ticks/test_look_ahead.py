"""Due actions that have to wait for their condition are settled without a claim; no change meanwhile is lost."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import psycopg
import pytest
from psycopg.types.json import Jsonb

from scheduled_actions import action
from scheduled_actions.actions import evaluation, waits
from scheduled_actions.actions.claims import START
from scheduled_actions.actions.model import NewAction
from scheduled_actions.limits.pauses import Subject
from tests.factories import insert, projects, row, statuses

COUNT = 60
AN_ID = UUID(int=1)


def order(number):
    return {"type": "order", "id": str(number)}


def waiting(number):
    return {"wait": {"kind": "document_state", "target": order(number), "state": "approved"}}


@pytest.fixture
def ran():
    """Return the list of the numbers that the handler received."""
    return []


@pytest.fixture
def project(database_url, ran):
    """Return a project that claims ten actions at a time."""

    @action("test:run")
    def run(payload: dict):
        ran.append(payload["n"])

    with projects(database_url) as create:
        yield create(run, batch_size=10, concurrency=8)


@pytest.fixture
def looked(monkeypatch):
    """Return the list of the ids of actions that were looked at before their claim."""
    seen, unmet = [], evaluation.unmet

    def recorded(unchecked, do):
        seen.extend(one.id for one in unchecked)
        return unmet(unchecked, do)

    monkeypatch.setattr(evaluation, "unmet", recorded)
    return seen


def schedule(project, number, **arguments):
    arguments = {"condition": waiting(number), **arguments}
    return project.scheduler.schedule_action(NewAction(action_type="test:run", payload={"n": number}, **arguments)).id


def after_the_look(monkeypatch, change):
    """Call a function with the evaluated actions after a look has evaluated them, before it settles them."""
    unmet = evaluation.unmet

    def changing(unchecked, do):
        settlements = unmet(unchecked, do)
        if settlements:
            change(settlements)
        return settlements

    monkeypatch.setattr(evaluation, "unmet", changing)


def shape(connection, action_id):
    """Return the columns of an action that its claim and its wait decide, without what differs between actions."""
    found = row(connection, action_id)
    kept = ("status", "attempts", "scheduled_at", "claim_token", "lease_expires_at", "dedup_open", "started_at")
    entries = [(entry["outcome"], sorted(entry)) for entry in found["history"]]
    return {name: found[name] for name in kept}, found["waiting"]["checks"], sorted(found["waiting"]), entries


def test_most_waiting_actions_are_not_claimed_and_look_as_if_they_had_been(project, connection, looked, ran):
    ids = [schedule(project, number, dedup_key=f"order {number}") for number in range(COUNT)]

    report = project.processor.tick()

    assert (report.processed, report.snoozed, report.remaining, ran) == (COUNT, COUNT, 0, [])
    assert len(set(looked)) == COUNT - 10
    first = shape(connection, ids[0])
    assert all(shape(connection, one) == first for one in ids)
    counted = connection.execute("select count(*) from scheduled_action_waits").fetchone()
    assert counted == (COUNT,)


def test_actions_whose_condition_is_met_run_in_the_same_tick(project, connection, looked, ran):
    ids = [schedule(project, number) for number in range(COUNT)]
    met = [2, 30, 59]
    for number in met:
        project.facts.report(order(number), "state", "approved")

    report = project.processor.tick()

    assert (report.succeeded, report.snoozed, sorted(ran)) == (len(met), COUNT - len(met), met)
    assert [number for number, one in enumerate(ids) if row(connection, one)["status"] == "completed"] == met


def test_a_fact_reported_after_a_look_makes_the_action_due(project, database_url, monkeypatch, ran):
    for number in range(COUNT):
        schedule(project, number)

    def report(_):
        if not ran and not changed:
            changed.append(59)
            with psycopg.connect(database_url, autocommit=True) as other:
                project.facts.report(order(59), "state", "approved", connection=other)
                waits.wake(other, most=10)

    changed = []
    after_the_look(monkeypatch, report)
    project.processor.tick()

    assert ran == [59]


def test_a_fact_is_not_missed_if_another_tick_looks_at_the_same_action_after_it(
    project, database_url, monkeypatch, ran
):
    for number in range(COUNT):
        schedule(project, number)
    unmet, looks = evaluation.unmet, []

    def unmet_then_changed(unchecked, do):
        settlements = unmet(unchecked, do)
        if not looks:
            with psycopg.connect(database_url, autocommit=True) as other:
                project.facts.report(order(59), "state", "approved", connection=other)
                waits.wake(other, most=10)
                looks.append(unmet(unchecked, lambda step: step(other)))
        return settlements

    monkeypatch.setattr(evaluation, "unmet", unmet_then_changed)
    project.processor.tick()

    assert len(looks[0]) == COUNT - 11, "the other tick found the condition met"
    assert ran == [59]


def test_an_action_that_is_changed_after_a_look_keeps_the_change(project, connection, monkeypatch, ran):
    ids = [schedule(project, number) for number in range(COUNT)]
    changed = []

    def change(_):
        if not changed:
            changed.append(True)
            project.scheduler.update_action(ids[57], condition=None)
            project.scheduler.cancel_action(ids[58])
            project.scheduler.update_action(ids[59], scheduled_at=timedelta(days=1))

    after_the_look(monkeypatch, change)
    report = project.processor.tick()

    assert changed == [True]
    assert ran == [57]
    assert (row(connection, ids[58])["status"], row(connection, ids[59])["waiting"]) == ("cancelled", None)
    assert report.snoozed == COUNT - 3


def test_an_error_of_a_look_leaves_all_actions_to_the_claims(project, connection, monkeypatch):
    ids = [schedule(project, number) for number in range(COUNT)]

    def broken(unchecked, do):
        raise SystemExit

    monkeypatch.setattr(evaluation, "unmet", broken)
    report = project.processor.tick()

    assert (report.snoozed, report.remaining) == (COUNT, 0)
    assert all(row(connection, one)["waiting"] for one in ids)


def test_other_actions_are_left_to_claims(project, connection, looked):
    # The first claim meets only actions that wait, so that a look at all others follows.
    ids = [schedule(project, number) for number in range(COUNT)]
    grouped = [schedule(project, number, lock_group=f"group {number}") for number in range(100, 120)]
    plain = [schedule(project, number, condition=None) for number in range(200, 220)]
    paused = [schedule(project, number, team_id="paused") for number in range(300, 320)]
    project.pauses.pause(Subject.of(team_id="paused"))

    project.processor.tick()

    found = statuses(connection)
    assert set(looked) == set(ids)
    assert {found[one] for one in plain} == {"completed"}
    assert [row(connection, one)["waiting"] for one in paused] == [None] * len(paused)
    assert all(row(connection, one)["waiting"] for one in [*grouped, *ids])


@pytest.mark.parametrize(
    "columns",
    [
        {"waiting": Jsonb({"checks": 1})},
        {"schedule_id": AN_ID, "occurrence_at": "2026-01-01"},
        {"limit_keys": ["a"]},
        {"limit_keys": ["a"], "parked_by": "limit"},
        {"cancel_requested_at": "2026-01-01"},
        {"expires_at": "2026-01-01"},
        {"lock_group": "a"},
        {"condition": Jsonb(waiting(1)["wait"])},
        {"condition": None},
        {"action_type": "test:excluded"},
        {"scheduled_at": "2099-01-01"},
        {"team_id": "paused"},
    ],
    ids=", ".join,
)
def test_only_plain_actions_whose_wait_has_not_begun_are_looked_at(connection, columns):
    connection.execute("insert into scheduled_action_pauses (kind, name) values ('team', 'paused')")
    insert(connection, **{"condition": Jsonb(waiting(1)), **columns})
    after = [insert(connection, condition=Jsonb(one)) for one in (waiting(1), {"after": [str(AN_ID)]})]

    found, _ = waits.unchecked(connection, after=START, excluded=["test:excluded"], window=100)

    assert [one.id for one in found] == after
