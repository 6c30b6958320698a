"""Validation of the arguments of a deadline."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import uuid4

import pytest

from scheduled_actions.core.errors import InvalidArgument, RequestError
from scheduled_actions.deadlines.rules.definition import new_deadline
from tests.factories import NOW

ANN = "ann@example.org"
GIVEN = {"target": {"type": "license", "id": "42"}, "due_at": NOW + timedelta(days=90), "recipients": ANN}


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"target": None}, InvalidArgument, "target"),
        ({"target": {"type": "license"}}, InvalidArgument, "target"),
        ({"due_at": None}, InvalidArgument, "due_at"),
        ({"due_at": "tomorrow"}, InvalidArgument, "due_at"),
        ({"timezone": "Mars/Olympus"}, InvalidArgument, "timezone"),
        ({"reminders": "60 days before"}, InvalidArgument, "reminders"),
        ({"reminders": ["60 days befor"]}, InvalidArgument, r"reminders\[0\].offset"),
        ({"reminders": [60, -30]}, InvalidArgument, r"reminders\[1\].offset: -30 .* write 30"),
        ({"reminders": [True]}, InvalidArgument, r"reminders\[0\].offset: True .* whole number of days"),
        ({"reminders": [1.5]}, InvalidArgument, r"reminders\[0\].offset: 1.5 .* whole number of days"),
        ({"reminders": [7, "7 days before"]}, InvalidArgument, "is defined 2 times"),
        ({"reminders": ["7 days before", "1 week before"]}, InvalidArgument, "is defined 2 times"),
        ({"reminders": [{"offset": "7 days", "repeats": "daily"}]}, InvalidArgument, "repeat"),
        (
            {"reminders": [{"offset": "7 days", "repeat": 2}]},
            InvalidArgument,
            "repeat 2 has no unit: write, for example",
        ),
        ({"recurrence": 10}, InvalidArgument, 'recurrence 10 has no unit: write, for example, "every 10 minutes"'),
        ({"reminders": [{"offset": "7 days", "times": 3}]}, InvalidArgument, "repeat"),
        ({"reminders": [{"offset": "7 days", "severity": "huge"}]}, InvalidArgument, "urgent"),
        ({"reminders": [f"{n} days before" for n in range(1, 200)]}, InvalidArgument, "have 199 .* is 100"),
        ({"escalation": ["2 days after"]}, InvalidArgument, "is required for a level without `assign`"),
        (
            {"escalation": [{"offset": "2 days after", "to": ANN, "stop_when": "sleeping"}]},
            InvalidArgument,
            "acknowledged",
        ),
        ({"escalation": {"levels": [], "repeat": 0}}, InvalidArgument, "repeat"),
        ({"escalation": {"levels": [], "repeat": 3}}, InvalidArgument, "escalation.levels"),
        ({"auto_actions": [{"offset": "3 days", "action_type": "approval:start"}]}, InvalidArgument, "before"),
        ({"auto_actions": [{"offset": "when due"}]}, InvalidArgument, "action_type"),
        ({"recipients": [7]}, InvalidArgument, "recipients"),
        ({"calendar": {"holidays": "Narnia"}}, RequestError, "calendar|holiday|Narnia"),
        ({"name": str(uuid4())}, InvalidArgument, "name"),
        ({"remainders": []}, InvalidArgument, "reminders"),
    ],
)
def test_an_invalid_argument_is_rejected_by_name(changes, error, message):
    with pytest.raises(error, match=message):
        new_deadline(GIVEN | changes)


@pytest.mark.parametrize("recipient", ["a", "a" * 320])
def test_a_recipient_has_1_to_320_characters(recipient):
    assert new_deadline(GIVEN | {"recipients": recipient}).definition["recipients"] == [recipient]


@pytest.mark.parametrize(
    "recipients", ["", " ", "a" * 321, [["secret-token"]], "https://hooks.example.org/secret-token/" + "x" * 320]
)
def test_the_error_for_an_invalid_recipient_does_not_contain_the_recipient(recipients):
    with pytest.raises(InvalidArgument, match="recipients must be an address or a role") as caught:
        new_deadline(GIVEN | {"recipients": recipients})

    assert "secret" not in str(caught.value)


def test_a_naive_due_instant_is_in_the_time_zone_of_the_deadline():
    local = datetime(2026, 5, 1, 9, 0)  # noqa: DTZ001 - in the deadline's time zone

    asked = new_deadline(GIVEN | {"due_at": local, "timezone": "Europe/Berlin"})

    assert asked.due_at is not None
    assert asked.due_at.isoformat() == "2026-05-01T07:00:00+00:00"


def test_equivalent_arguments_have_equal_definitions():
    one, other, third = (
        new_deadline(GIVEN | {"reminders": reminders, "recipients": to}).definition
        for reminders, to in ((["7 days before"], ANN), ([timedelta(days=7)], [ANN]), ([7], [ANN]))
    )

    assert one == other == third


def test_the_direction_of_a_number_of_days_depends_on_the_list():
    asked = new_deadline(
        GIVEN
        | {
            "reminders": [60],
            "escalation": [{"offset": 1, "to": ANN}, {"offset": -14, "to": ANN}],
            "auto_actions": [{"offset": -30, "action_type": "approval:start"}],
        }
    )

    assert {stage.key: stage.offset for stage in asked.stages} == {
        "reminder:60 days before": "60 days before",
        "escalation:1": "1 day after",
        "escalation:2": "14 days before",
        "action:approval:start 30 days before": "30 days before",
        "due": "when due",
    }
