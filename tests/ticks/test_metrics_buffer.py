"""The values that ticks count for `/metrics`."""

from __future__ import annotations

import math

import pytest

from scheduled_actions.ticks.report import MetricsBuffer, cumulated


def rows(tally):
    return {
        (metric, subject, part): value for metric, subject, part, value in zip(*tally.columns().values(), strict=True)
    }


def test_settlements_are_counted_by_type_and_outcome():
    tally = MetricsBuffer({"a:b"}, {})

    for outcome in ("completed", "completed", "failed"):
        tally.settled("a:b", outcome, payload_text="{}")

    assert rows(tally) == {("settled", "a:b", "completed"): 2, ("settled", "a:b", "failed"): 1}


def test_waits_are_counted_as_snoozed_like_single_settlements():
    together, alone = MetricsBuffer({"a:b"}, {}), MetricsBuffer({"a:b"}, {})
    types = ["a:b", "a:b", "made:up", "made:up-too"]

    together.waited(types)
    for one in types:
        alone.settled(one, "snoozed", payload_text="{}")

    assert rows(together) == rows(alone) == {("settled", "a:b", "snoozed"): 2, ("settled", "(other)", "snoozed"): 2}


def test_types_without_a_handler_are_counted_together():
    tally = MetricsBuffer({"a:b"}, {})

    tally.settled("made:up", "no_action", payload_text="{}")
    tally.settled("made:up-too", "no_action", payload_text="{}")

    assert rows(tally) == {("settled", "(other)", "no_action"): 2}


@pytest.mark.parametrize(
    ("payload", "endpoint"),
    [
        ('{"endpoint": "crm"}', "crm"),
        ('{"endpoint": "0197a000-0000-7000-8000-000000000001"}', "(database)"),
        ('{"event": "a:b"}', None),
        ('{"endpoint": 5}', None),
        ("[1]", None),
        ("{", None),
    ],
)
def test_a_delivery_is_counted_by_its_endpoint_and_an_event_is_not_a_delivery(payload, endpoint):
    tally = MetricsBuffer({"webhook:send"}, {"crm": None})

    tally.settled("webhook:send", "completed", payload_text=payload)

    counted = {subject for metric, subject, _ in rows(tally) if metric == "deliveries"}
    assert counted == ({endpoint} if endpoint else set())


@pytest.mark.parametrize(
    ("seconds", "part"), [(0.0, "0.01"), (0.01, "0.01"), (0.011, "0.05"), (1, "1"), (300, "300"), (301, "+Inf")]
)
def test_a_duration_is_counted_in_the_first_bucket_that_holds_it(seconds, part):
    tally = MetricsBuffer({"a:b"}, {})

    tally.ran("a:b", seconds=[seconds], lateness_seconds=[0.5])

    counted = rows(tally)
    assert counted["handler_seconds", "a:b", part] == 1
    assert counted["handler_seconds", "a:b", "sum"] == seconds
    assert counted["lateness_seconds", "a:b", "1"] == 1


def test_durations_counted_together_are_those_counted_one_by_one():
    durations = [0.3, 0.01, 400.0, 0.0, 0.02, 0.3]
    together, one_by_one = MetricsBuffer({"a:b"}, {}), MetricsBuffer({"a:b"}, {})

    together.ran("a:b", seconds=durations, lateness_seconds=durations)
    for duration in durations:
        one_by_one.ran("a:b", seconds=[duration], lateness_seconds=[duration])

    assert rows(together) == pytest.approx(rows(one_by_one))


@pytest.mark.parametrize(("lateness", "counted"), [(-0.2, 0.0), (math.inf, None), (math.nan, None)])
def test_lateness_is_never_negative_and_never_infinite(lateness, counted):
    tally = MetricsBuffer({"a:b"}, {})

    tally.ran("a:b", seconds=[1], lateness_seconds=[lateness])

    assert rows(tally).get(("lateness_seconds", "a:b", "sum")) == counted


def test_buckets_are_cumulative_as_in_prometheus():
    buckets = dict(cumulated("tick_seconds", {"0.1": 2, "5": 1, "+Inf": 1, "sum": 99}))

    assert buckets == {"0.1": 2, "0.5": 2, "1": 2, "5": 3, "15": 3, "30": 3, "60": 3, "+Inf": 4}


def test_a_cleared_buffer_is_empty():
    tally = MetricsBuffer({"a:b"}, {})
    tally.ticked(0.2)

    tally.clear()

    assert rows(tally) == {}
