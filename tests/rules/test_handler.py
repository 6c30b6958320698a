"""What `@action` takes."""

from __future__ import annotations

import pytest

from scheduled_actions import action
from scheduled_actions.errors import InvalidArgument, NotYetBuilt
from scheduled_actions.handler import OPTIONS_ATTRIBUTE


def test_a_handler_stays_the_function_it_was_and_bears_its_options():
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
def test_what_no_handler_can_be_is_refused_by_name(arguments, named):
    with pytest.raises(InvalidArgument, match=named):
        action(**{"action_type": "test:run"} | arguments)


def test_a_recurrence_is_refused_rather_than_forgotten():
    with pytest.raises(NotYetBuilt, match="recurrence"):
        action("test:run", recurrence="daily")
