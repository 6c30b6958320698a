"""All examples of RFC 5545, with its errata; many include the clock change of October 1997 in New York."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from scheduled_actions.recurrence.rrule.rule import parse_rrule

VECTORS = json.loads((Path(__file__).parents[1] / "vectors/recurrence/rfc5545_examples.json").read_text())
CASES = [
    pytest.param(example, rule, id=f"{example['title']}: {rule}")
    for example in VECTORS["examples"]
    for rule in example["rules"]
]
LONG_BEFORE = datetime(1990, 1, 1, tzinfo=UTC)


def expected(example):
    return [datetime.fromisoformat(occurrence).astimezone(UTC) for occurrence in example["occurrences"]]


def parsed(example, rule):
    # The zone of the schedule has no effect, because each DTSTART has its own zone.
    text = "\n".join([*example["properties"], rule])
    return parse_rrule(text, zone=ZoneInfo("Asia/Tokyo"), anchor=datetime(2020, 1, 1, tzinfo=UTC))


def test_the_table_contains_every_example_of_the_rfc():
    assert len(VECTORS["examples"]) == 39
    assert len(CASES) == 42
    assert sum(example["is_complete"] for example in VECTORS["examples"]) == 26


@pytest.mark.parametrize(("example", "rule"), CASES)
def test_an_example_of_the_rfc_has_the_printed_occurrences(example, rule):
    recurrence = parsed(example, rule)
    wanted = expected(example)

    found = []
    moment = LONG_BEFORE
    while len(found) < len(wanted):
        moment = recurrence.next_after(moment).at
        found.append(moment)

    assert found == wanted
    if example["is_complete"]:
        assert recurrence.next_after(moment) is None


@pytest.mark.parametrize(("example", "rule"), CASES)
def test_an_example_of_the_rfc_has_the_same_occurrences_from_any_moment(example, rule):
    recurrence = parsed(example, rule)

    for earlier, later in pairwise(expected(example)):
        for moment in (earlier, earlier + (later - earlier) / 2, later - timedelta(microseconds=1)):
            assert recurrence.next_after(moment).at == later
