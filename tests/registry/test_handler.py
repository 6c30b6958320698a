"""The arguments of `@action`, `@next_occurrence` and `@skip_occurrence`."""

from __future__ import annotations

import copy

import pytest

from scheduled_actions import action, next_occurrence, skip_occurrence
from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.registry.handler import OPTIONS_ATTRIBUTE
from scheduled_actions.registry.options import normalize_recurrence
from scheduled_actions.registry.project_functions import DECLARED_ATTRIBUTE

#: Every key of a recurrence with a valid value.
EVERY_KEY = {
    "rule": "0 9 * * 1-5",
    "name": "digest",
    "timezone": "America/New_York",
    "payload": {"to": ["ann", None, {"deep": 1.5}]},
    "recurrence_type": "fixed",
    "misfire": "skip",
    "misfire_grace_seconds": 60,
    "catch_up_limit": 5,
    "catch_up_seconds": 3600.5,
    "overlap": "queue",
    "requires_previous": True,
    "pause_after_failures": 3,
    "skip": {"weekends": True},
    "jitter_seconds": 30,
    "until": "2027-01-31T17:00:00",
    "remaining": 10,
    "priority": -1,
    "max_attempts": 2,
    "lock_group": "mail",
    "lock_group_blocks": True,
    "limit": ["api:acme", "reports"],
    "expires_in": 3600,
    "on_expiry": "fail",
    "team_id": "t1",
    "metadata": {"why": "because"},
}


def recurrence_of(recurrence):
    return getattr(action("test:run", recurrence=recurrence)(lambda payload: payload), OPTIONS_ATTRIBUTE).recurrence


def test_a_handler_is_returned_unchanged_with_its_options():
    def run(payload):
        return payload

    declared = action("test:run", timeout_seconds=5, max_attempts=2)(run)

    assert declared is run
    options = getattr(run, OPTIONS_ATTRIBUTE)
    assert (options.action_type, options.timeout_seconds, options.max_attempts) == ("test:run", 5, 2)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"action_type": "no spaces"}, "action_type"),
        ({"action_type": ""}, "action_type"),
        ({"action_type": "x" * 201}, "action_type"),
        ({"timeout_seconds": 0}, "timeout_seconds"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_attempts": 1001}, "max_attempts"),
        ({"dedup_window": -1}, "dedup_window"),
    ],
)
def test_an_invalid_option_is_rejected_by_name(arguments, named):
    with pytest.raises(InvalidArgument, match=named):
        action(**{"action_type": "test:run"} | arguments)


@pytest.mark.parametrize("recurrence", ["daily", "0 9 * * *", {"rule": "daily"}, EVERY_KEY, None])
def test_a_recurrence_is_stored_unchanged(recurrence):
    assert recurrence_of(recurrence) == recurrence


def test_a_recurrence_is_copied():
    given = copy.deepcopy(EVERY_KEY)
    kept = recurrence_of(given)

    given["payload"]["to"].append("bob")
    given["rule"] = "hourly"

    assert kept == EVERY_KEY


def test_options_with_a_recurrence_are_hashable_and_equal_only_with_equal_recurrences():
    def options(rule):
        return getattr(action("test:run", recurrence={"rule": rule})(lambda payload: payload), OPTIONS_ATTRIBUTE)

    assert {options("daily"), options("daily")} == {options("daily")}
    assert options("daily") != options("hourly")


def test_keys_of_a_recurrence_with_the_value_none_are_omitted():
    assert recurrence_of({"rule": "daily", "until": None, "payload": {"x": None}}) == {
        "rule": "daily",
        "payload": {"x": None},
    }


@pytest.mark.parametrize(
    ("recurrence", "message"),
    [
        (
            5,
            'recurrence is of type int; it must be a rule (a string, such as "every 10 minutes"), or a dict with',
        ),
        (["daily"], "recurrence is of type list; it must be a rule (a string"),
        ({}, "recurrence.rule is missing: give a rule"),
        ({"rule": None}, "recurrence.rule is missing: give a rule"),
        ({"rule": 5}, "recurrence.rule: 5 is not a rule"),
        (
            {"rule": "daily", "timezon": "UTC"},
            "recurrence has no key 'timezon'; did you mean \"timezone\"?",
        ),
        ({"rule": "daily", "x": 1}, "recurrence has no key 'x'; known keys: rule, name, "),
        ({"rule": "daily", "recipients": "a"}, "recurrence has no key 'recipients'; recipients belongs to deadlines"),
        ({"rule": "daily", 5: 1}, "recurrence has no key 5"),
        ({"rule": "daily", "scheduled_at": "2027-01-01"}, "recurrence has no key 'scheduled_at'"),
        ({"rule": "daily", "remaining": "3"}, "recurrence.remaining: '3' is not an integer"),
        ({"rule": "daily", "remaining": True}, "recurrence.remaining: True is not an integer"),
        ({"rule": "daily", "jitter_seconds": "3"}, "recurrence.jitter_seconds: '3' is not a number of seconds"),
        ({"rule": "daily", "lock_group_blocks": 1}, "recurrence.lock_group_blocks: 1 is not True or False"),
        ({"rule": "daily", "until": 2027}, "recurrence.until: 2027 is not an ISO 8601 string"),
        ({"rule": "daily", "until": "soon"}, "recurrence.until: 'soon' is not an ISO 8601 time or day"),
        ({"rule": "daily", "payload": ["secret"]}, "recurrence.payload is of type list, not a JSON object"),
    ],
)
def test_an_invalid_recurrence_is_rejected_with_the_key(recurrence, message):
    with pytest.raises(InvalidArgument) as refusal:
        action("test:run", recurrence=recurrence)

    assert message in str(refusal.value)
    assert "secret" not in str(refusal.value)


def test_a_declared_recurrence_is_converted_to_arguments_of_a_schedule():
    assert normalize_recurrence("daily") == {"rule": "daily"} == normalize_recurrence({"rule": "daily"})
    assert normalize_recurrence(EVERY_KEY) == EVERY_KEY


@pytest.mark.parametrize(("decorator", "key"), [(next_occurrence, "next:pay-day"), (skip_occurrence, "skip:pay-day")])
def test_a_declared_function_is_returned_unchanged_with_its_name(decorator, key):
    def run(moment):
        return moment

    declared = decorator("pay-day")(run)

    assert declared is run
    assert getattr(run, DECLARED_ATTRIBUTE).key == key


@pytest.mark.parametrize("decorator", [next_occurrence, skip_occurrence])
@pytest.mark.parametrize("name", ["", "pay day", "next:payday", "-x", "x" * 101, len])
def test_an_invalid_function_name_is_rejected(decorator, name):
    with pytest.raises(InvalidArgument, match="is not a function name"):
        decorator(name)
