"""The functions of the package refuse unknown keyword arguments with the name to use."""

from __future__ import annotations

import inspect

import pytest

import scheduled_actions
from scheduled_actions import Context

#: The functions that applications call, and `action`.
FUNCTIONS = {
    name: function
    for name in scheduled_actions.__all__
    if inspect.isfunction(function := getattr(scheduled_actions, name))
    and function.__module__.startswith(("scheduled_actions.client.", "scheduled_actions.registry."))
}


def camel_case(name):
    first, *others = name.split("_")
    return first + "".join(map(str.title, others))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_error_of_a_camel_case_keyword_argument_has_the_name_to_use(name):
    function = FUNCTIONS[name]
    parameters = [one for one in inspect.signature(function).parameters if "_" in one]

    for parameter in parameters:
        with pytest.raises(TypeError) as refused:
            function(**{camel_case(parameter): "x"})

        assert str(refused.value) == (
            f"{name}() got an unexpected keyword argument '{camel_case(parameter)}'; did you mean \"{parameter}\"?"
        )


def test_a_follow_up_of_a_handler_is_refused_with_the_name_to_use():
    with pytest.raises(TypeError, match=r"schedule\(\) got .* 'maxAttempts'; did you mean \"max_attempts\"\?"):
        Context.schedule(None, "test:run", {}, maxAttempts=3)


def test_the_error_of_an_unrelated_keyword_argument_lists_the_arguments():
    with pytest.raises(TypeError, match=r"'colour'; it takes action_id, team_id$"):
        scheduled_actions.get_action("x", colour="red")


@pytest.mark.parametrize("argument", ["reminders", "escalation", "recipients", "auto_actions"])
@pytest.mark.parametrize("name", ["schedule_recurring_action", "update_schedule", "action"])
def test_arguments_of_deadlines_are_refused_with_the_call_that_takes_them(name, argument):
    with pytest.raises(TypeError) as refused:
        FUNCTIONS[name]("test:run", {}, "yearly", **{argument: []})

    assert str(refused.value) == (
        f"{name}() got an unexpected keyword argument '{argument}'; {argument} belongs to deadlines, which can recur, "
        f"too: use set_deadline(…, recurrence=…, {argument}=…), or POST /api/v1/deadlines"
    )


def test_the_error_of_a_missing_argument_stays_as_it_is():
    with pytest.raises(TypeError, match=r"missing 1 required positional argument: 'payload'$"):
        scheduled_actions.schedule_action("test:run")
