"""Limit keys: which are valid, which pattern applies, and how the templates of handlers are filled in."""

from __future__ import annotations

import pytest

from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.registry import limit_keys

PATTERNS = {"api:*", "api:acme", "api:acme:*", "mail", "*x"}


@pytest.mark.parametrize(("given", "keys"), [("api:acme", ["api:acme"]), (("a", "b", "c"), ["a", "b", "c"])])
def test_a_key_or_up_to_three_keys_are_valid(given, keys):
    assert limit_keys.check(given) == keys


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ([], "a list of 1 to 3 keys"),
        (["a", "b", "c", "d"], "a list of 1 to 3 keys"),
        ({"a": 1}, "a list of 1 to 3 keys"),
        (7, "a list of 1 to 3 keys"),
        ("", "a string of 1 to 255 characters"),
        ("k" * 256, "a string of 1 to 255 characters"),
        ([["a"]], "a string of 1 to 255 characters"),
        ("a\nb", "a key without control characters"),
        ("a\x9fb", "a key without control characters"),
        ("a\ud800", "surrogate"),
        (["a", "a"], "keys that differ from each other"),
    ],
)
def test_an_invalid_key_is_an_error_that_names_what_is_expected(given, problem):
    with pytest.raises(InvalidArgument, match=problem):
        limit_keys.check(given)


@pytest.mark.parametrize("key", ["Zürich\u00a0Süd", "顧客\u200b", "a b"])
def test_letters_and_spaces_of_any_script_are_valid(key):
    assert limit_keys.check(key) == [key]


@pytest.mark.parametrize(
    ("key", "pattern"),
    [
        ("api:acme", "api:acme"),
        ("api:acme:eu", "api:acme:*"),
        ("api:other", "api:*"),
        ("mail", "mail"),
        ("mail:x", None),
        ("api:*", "api:*"),
        ("x", None),
    ],
)
def test_the_exact_pattern_applies_then_the_longest_prefix(key, pattern):
    assert limit_keys.pattern_of(key, PATTERNS) == pattern


def test_a_key_without_a_pattern_is_refused_with_a_suggestion():
    with pytest.raises(
        InvalidArgument, match=r'"apis:acme", which matches no pattern of \[limits\]; did you mean "api:acme"'
    ):
        limit_keys.check_known(["mail", "apis:acme"], PATTERNS)


def test_a_pattern_is_not_a_key():
    with pytest.raises(
        InvalidArgument, match=r'^limit is the pattern "api:\*"; give a key that it matches, such as "api:acme"$'
    ):
        limit_keys.check_known(["api:*"], ["api:*"])


@pytest.mark.parametrize(
    ("template", "is_possible"),
    [
        ("mail", True),
        ("post", False),
        ("api:{payload.customer}", True),
        ("api:acme:{user_id}", True),
        ("ap{user_id}", True),
        ("apis:{user_id}", False),
        ("mail:{user_id}", False),
        ("{user_id}", True),
    ],
)
def test_a_template_can_match_a_pattern_that_agrees_with_the_text_before_its_first_field(template, is_possible):
    assert limit_keys.can_match(template, PATTERNS) is is_possible


@pytest.mark.parametrize(
    ("template", "payload", "key"),
    [
        ("api:{payload.customer}", {"customer": "acme"}, "api:acme"),
        ("{payload.a.b}-{payload.a.c}", {"a": {"b": 1, "c": 2.5}}, "1-2.5"),
        ("n:{payload.number}", {"number": 5.0}, "n:5"),
        ("n:{payload.number}", {"number": 1e22}, "n:10000000000000000000000"),
        ("api:{payload.customer}", {"customer": "{team_id}"}, "api:{team_id}"),
        ("api:{payload.customer}", {"customer": ""}, "api:"),
        ("api:{payload.customer}", [{"customer": "first"}, {"customer": "second"}], "api:first"),
        ("{team_id}:{user_id}", {}, "red:u1"),
        ("fixed", None, "fixed"),
    ],
)
def test_fields_are_replaced_by_the_values_of_the_action(template, payload, key):
    assert limit_keys.check_templates(template) == [template]
    assert limit_keys.fill_in([template], payload, team_id="red", user_id="u1") == [key]


def test_keys_that_become_equal_are_given_once():
    templates = ["a:{payload.x}", "a:{payload.y}", "b"]
    assert limit_keys.fill_in(templates, {"x": 1, "y": "1"}, team_id=None, user_id=None) == ["a:1", "b"]


@pytest.mark.parametrize(
    ("template", "payload", "problem"),
    [
        (
            "api:{payload.customer}",
            {},
            "limit 'api:{payload.customer}' of the handler needs payload.customer, which is missing",
        ),
        ("{payload.a.b}", {"a": "text"}, "needs payload.a.b, which is missing"),
        ("{payload.a}", {"a": None}, "needs payload.a, which is missing"),
        ("{payload.a}", [], "needs payload.a, which is missing"),
        ("{payload.a}", "text", "needs payload.a, which is missing"),
        ("{payload.a}", {"a": True}, "needs payload.a to be a string or a number"),
        ("{payload.a}", {"a": {"b": 1}}, "needs payload.a to be a string or a number"),
        ("{team_id}", {}, "needs team_id, which is missing"),
        ("{user_id}", {}, "needs user_id, which is missing"),
        ("{payload.a}", {"a": ""}, "1 to 255 characters"),
        ("{payload.a}", {"a": "x" * 256}, "1 to 255 characters"),
        ("{payload.a}", {"a": 10**4000}, "1 to 255 characters"),
        ("{payload.a}", {"a": "x\ty"}, "without control characters"),
    ],
)
def test_a_field_without_a_usable_value_is_an_error_that_names_it(template, payload, problem):
    with pytest.raises(InvalidArgument) as refused:
        limit_keys.fill_in([template], payload, team_id=None, user_id=None)
    assert problem in str(refused.value)
