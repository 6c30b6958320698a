from __future__ import annotations

import time

import pytest
from hypothesis import given, strategies as st

from scheduled_actions.core.config import EndpointSection
from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.webhooks.rules.routing import NAME_LIMIT, STAR_LIMIT, matches, matching, route, split_event

#: Few letters, so that patterns often match events.
sides = st.text("ab", min_size=1, max_size=5)
pattern_sides = st.text("ab*", min_size=1, max_size=6).filter(lambda side: side.count("*") <= STAR_LIMIT // 2)
events = st.builds("{}:{}".format, sides, st.text("ab:", min_size=1, max_size=5))
patterns = st.builds("{}:{}".format, pattern_sides, pattern_sides)


def an_endpoint(*wanted, enabled=True):
    return EndpointSection(env_var="SOME_URL", patterns=wanted, enabled=enabled)


@pytest.mark.parametrize(
    ("event", "pattern", "wanted"),
    [
        ("task:created", "task:created", True),
        ("task:created", "task:deleted", False),
        ("task:created", "Task:created", False),
        ("task:created", "task:*", True),
        ("tasks:created", "task:*", False),
        ("subtask:created", "task:*", False),
        ("task:created", "*:created", True),
        ("task:uncreated", "*:created", False),
        ("task:created", "*:*", True),
        ("invoice.line:paid", "invoice.line:paid", True),
        ("invoice.line:paid", "invoice.*:paid", True),
        ("invoice:paid", "invoice.*:paid", False),
        ("invoice.line:paid", "invoice*:p*d", True),
        ("invoiceXline:paid", "invoice.line:paid", False),
        ("a:b:c", "a:b:c", True),
        ("a:b:c", "a:*", True),
        ("a:b:c", "a:b:*", True),
        ("a:b:c", "*:b:c", True),
        ("a:b:c", "*:c", False),
        ("a:b:c", "a:*:c", True),
        ("a:b", "a:*:c", False),
        ("aba:x", "aba*ba:x", False),
        ("ab:x", "a*b*b:x", False),
        ("aba:x", "*ab*ba*:x", False),
        ("abba:x", "*ab*ba*:x", True),
        ("task:created", "**:**", True),
        ("task:created", "task:c?eated", False),
        ("task:created", "task:[a-z]*", False),
        ("task:created", ".*:.*", False),
        ("rüstung:geprüft", "rüst*:*prüft", True),
    ],
)
def test_a_pattern_matches_events_that_fit_both_of_its_sides(event, pattern, wanted):
    assert matches(event, pattern) is wanted


@given(events)
def test_every_event_matches_itself_and_the_catch_all_pattern(event):
    assert matches(event, event)
    assert matches(event, "*:*")


@given(events, st.data())
def test_replacing_any_part_of_a_side_with_a_star_still_matches(event, data):
    side_pair = list(split_event(event))
    which = data.draw(st.sampled_from([0, 1]))
    start = data.draw(st.integers(0, len(side_pair[which])))
    end = data.draw(st.integers(start, len(side_pair[which])))
    side_pair[which] = side_pair[which][:start] + "*" + side_pair[which][end:]

    pattern = ":".join(side_pair)

    assert matches(event, pattern)


def fits_by_table(text, pattern):
    """Return whether a glob matches a text, by the textbook algorithm with a table of all prefixes."""
    row = [True] + [False] * len(text)
    for sign in pattern:
        above, row = row, [sign == "*" and row[0]]
        for place, letter in enumerate(text):
            row.append(above[place + 1] or row[place] if sign == "*" else above[place] and letter == sign)
    return row[-1]


@given(events, patterns)
def test_the_matcher_agrees_with_the_table_of_all_prefixes(event, pattern):
    entity, verb = split_event(event)
    entity_pattern, verb_pattern = pattern.split(":", 1)

    wanted = fits_by_table(entity, entity_pattern) and fits_by_table(verb, verb_pattern)

    assert matches(event, pattern) is wanted


def test_matching_an_adversarial_pattern_takes_linear_time():
    pattern = "x:" + "*a" * STAR_LIMIT + "b"
    event = "x:" + "a" * (NAME_LIMIT - 2)
    started = time.perf_counter()

    for _ in range(200):
        assert not matches(event, pattern)

    assert time.perf_counter() - started < 1


@pytest.mark.parametrize(
    "pattern",
    ["", "*", "task", "task:", ":created", "x:" + "a" * NAME_LIMIT, "x:" + "*" * (STAR_LIMIT + 1)],
    ids=["empty", "a star alone", "no colon", "no verb", "no entity", "too long", "too many stars"],
)
def test_an_invalid_pattern_is_rejected_by_name(pattern):
    with pytest.raises(InvalidArgument, match=r"webhook pattern: .* is not a pattern such as task:created"):
        matches("task:created", pattern)


@pytest.mark.parametrize(
    "event",
    ["", "task", "task:", ":created", "x:" + "a" * NAME_LIMIT, "task:cre\nated", "task:\0"],
    ids=["empty", "no colon", "no verb", "no entity", "too long", "two lines", "nul"],
)
def test_an_invalid_event_is_rejected_by_name(event):
    with pytest.raises(InvalidArgument, match=r"event: .* is not an event such as task:created"):
        matches(event, "*:*")


def test_matching_returns_the_endpoints_in_declared_order():
    wanted = {"z": ["a:b", "task:*"], "b": ["nothing:here"], "a": ["*:*"], "none": []}

    assert matching("task:created", wanted) == ("z", "a")


def test_routing_all_returns_every_enabled_matching_endpoint_in_declared_order():
    endpoints = {
        "crm": an_endpoint("*:created"),
        "off": an_endpoint("task:created", enabled=False),
        "other": an_endpoint("invoice:*"),
        "audit": an_endpoint("*:*"),
    }

    assert route("task:created", endpoints=endpoints) == ("crm", "audit")


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ("task:created", "task:*"),
        ("task:*", "*:created"),
        ("*:created", "*:*"),
        ("task:created", "*:*"),
        ("task:cre*", "task:*"),
        ("ta*:created", "*:created"),
        ("task:*", "tas*:created"),
        ("ta*:c*", "*:*"),
        ("task:*", "ta*:created"),
    ],
)
def test_the_more_specific_pattern_is_selected_in_any_order(better, worse):
    first = {"better": an_endpoint(better), "worse": an_endpoint(worse)}
    last = {"worse": an_endpoint(worse), "better": an_endpoint(better)}

    winners = [route("task:created", endpoints=one, routing="most_specific") for one in (first, last)]

    assert winners == [("better",), ("better",)]


def test_an_endpoint_is_ranked_by_its_most_specific_matching_pattern():
    endpoints = {"first": an_endpoint("task:*"), "second": an_endpoint("*:*", "other:event", "task:created")}

    assert route("task:created", endpoints=endpoints, routing="most_specific") == ("second",)


def test_of_equally_specific_endpoints_the_first_declared_is_selected():
    endpoints = {"z": an_endpoint("task:*"), "a": an_endpoint("task:*")}

    assert route("task:created", endpoints=endpoints, routing="most_specific") == ("z",)


@given(events, st.lists(st.tuples(st.lists(patterns, min_size=1, max_size=3), st.booleans()), max_size=5))
def test_most_specific_routing_selects_one_endpoint_of_all_routing(event, wanted):
    endpoints = {str(n): an_endpoint(*some, enabled=enabled) for n, (some, enabled) in enumerate(wanted)}

    everyone = route(event, endpoints=endpoints, routing="all")
    one = route(event, endpoints=endpoints, routing="most_specific")

    assert len(one) == min(1, len(everyone))
    assert set(one) <= set(everyone)


@pytest.mark.parametrize("routing", ["all", "most_specific"])
def test_the_default_endpoint_receives_unmatched_events(routing):
    endpoints = {"crm": an_endpoint("invoice:*"), "rest": an_endpoint("nothing:else")}

    assert route("task:x", endpoints=endpoints, routing=routing, default_endpoint="rest") == ("rest",)
    assert route("invoice:x", endpoints=endpoints, routing=routing, default_endpoint="rest") == ("crm",)


def test_a_disabled_default_endpoint_receives_nothing():
    endpoints = {"rest": an_endpoint("nothing:else", enabled=False)}

    assert route("task:x", endpoints=endpoints, default_endpoint="rest") == ()


def test_without_endpoints_an_event_is_routed_to_none():
    assert route("task:created", endpoints={}) == ()
