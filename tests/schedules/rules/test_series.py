"""Rules of series: whether a claimed occurrence runs, and which occurrence is next, for every policy."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduled_actions.recurrence.model import Occurrence
from scheduled_actions.schedules.rules import series
from scheduled_actions.schedules.rules.series import NextOccurrence, OccurrenceDecision
from tests.factories import NOW, a_schedule

SECOND, MINUTE, HOUR, DAY = (timedelta(seconds=seconds) for seconds in (1, 60, 3600, 86400))


class Every:
    """A rule that occurs every `step` from NOW until an optional end; counts the calls of `next_after`."""

    def __init__(self, step, until=None):
        self.step, self.until, self.calls = step, until, 0

    def next_after(self, moment):
        self.calls += 1
        at = NOW + self.step * max(0, (moment - NOW) // self.step + 1)
        return None if self.until is not None and at > self.until else Occurrence(at)

    def between(self, start, end, *, limit):
        found = []
        while len(found) < limit and (occurrence := self.next_after(start)) is not None and occurrence.at <= end:
            found.append(occurrence)
            start = occurrence.at
        return found


# -- decisions about a claimed occurrence ------------------------------------------------------------------------------


def decision(*, due_at=NOW, now=NOW, running_since=None, has_unhandled=False, **schedule):
    return series.decide(
        a_schedule(**schedule), due_at=due_at, now=now, running_since=running_since, has_unhandled=has_unhandled
    )


def test_an_occurrence_claimed_in_time_runs():
    assert decision(now=NOW + 40 * SECOND) == OccurrenceDecision("run")


@pytest.mark.parametrize("misfire", ["fire_once", "catch_up"])
def test_a_late_occurrence_runs_with_fire_once_and_catch_up(misfire):
    assert decision(now=NOW + 3 * DAY, misfire=misfire) == OccurrenceDecision("run")


@pytest.mark.parametrize(("late", "verdict"), [(300 * SECOND, "run"), (301 * SECOND, "skip"), (3 * DAY, "skip")])
def test_the_policy_skip_runs_only_occurrences_within_the_grace_period(late, verdict):
    assert decision(now=NOW + late, misfire="skip").verdict == verdict


def test_the_reason_of_a_missed_occurrence_contains_its_lateness():
    assert decision(now=NOW + 3 * DAY, misfire="skip").reason == "missed: claimed 3 days late"
    just_late = decision(now=NOW + SECOND, misfire="skip", misfire_grace_seconds=0.0)
    assert just_late.reason == "missed: claimed 1 second late"


@pytest.mark.parametrize(
    ("overlap", "started", "verdict"),
    [
        ("skip", NOW - MINUTE, "skip"),
        ("skip", NOW, "wait"),
        ("skip", NOW + SECOND, "wait"),
        ("queue", NOW - MINUTE, "run"),
        ("allow", NOW - MINUTE, "run"),
    ],
)
def test_the_overlap_policy_decides_while_another_occurrence_runs(overlap, started, verdict):
    assert decision(now=NOW + MINUTE, running_since=started, overlap=overlap).verdict == verdict


def test_an_occurrence_is_skipped_while_an_earlier_one_waits_for_a_handler():
    assert decision(has_unhandled=True).verdict == "skip"


# -- next occurrences --------------------------------------------------------------------------------------------------


def following(rule, after, now, **schedule):
    return series.following(a_schedule(**schedule), rule, after=after, now=now)


@pytest.mark.parametrize("misfire", ["fire_once", "skip", "catch_up"])
def test_without_delay_the_next_occurrence_is_that_of_the_rule(misfire):
    assert following(Every(DAY), NOW, NOW + 30 * SECOND, misfire=misfire) == NextOccurrence(NOW + DAY)


@pytest.mark.parametrize("misfire", ["fire_once", "skip", "catch_up"])
def test_jitter_of_pings_misses_no_occurrence(misfire):
    # 12:00 was claimed at 12:01:00.1; 12:01 is still on time.
    assert following(Every(MINUTE), NOW, NOW + 60.1 * SECOND, misfire=misfire) == NextOccurrence(NOW + MINUTE)


@pytest.mark.parametrize(
    ("misfire", "expected"),
    [
        ("fire_once", NextOccurrence(NOW + 4 * DAY, missed=2)),
        ("skip", NextOccurrence(NOW + 4 * DAY, missed=2)),
        ("catch_up", NextOccurrence(NOW + 2 * DAY, selected_until=NOW + 3 * DAY + HOUR)),
    ],
)
def test_after_an_outage_of_three_days_the_misfire_policy_decides(misfire, expected):
    assert following(Every(DAY), NOW + DAY, NOW + 3 * DAY + HOUR, misfire=misfire) == expected


def test_a_next_occurrence_within_the_grace_period_is_not_missed():
    assert following(Every(DAY), NOW, NOW + DAY + 200 * SECOND, misfire="skip") == NextOccurrence(NOW + DAY)


def test_catching_up_is_bounded_by_count_and_dropped_occurrences_are_counted():
    found = following(Every(HOUR), NOW, NOW + 10.5 * HOUR, misfire="catch_up", catch_up_limit=3)

    assert (found.at, found.missed) == (NOW + 8 * HOUR, 7)


def test_catching_up_is_bounded_by_age_and_dropped_occurrences_are_counted():
    found = following(Every(HOUR), NOW, NOW + 10.5 * HOUR, misfire="catch_up", catch_up_seconds=3.0 * 3600)

    assert (found.at, found.missed) == (NOW + 8 * HOUR, 7)


def test_if_all_missed_occurrences_are_too_old_the_next_one_is_in_the_future():
    found = following(Every(HOUR), NOW, NOW + 10.5 * HOUR, misfire="catch_up", catch_up_seconds=60.0)

    assert found == NextOccurrence(NOW + 11 * HOUR, missed=10)


def caught_up(rule, after, now, **schedule):
    """Return the instants that a catch-up runs; each is planned by the claim of the previous occurrence."""
    schedule, instants, selected_until = a_schedule(misfire="catch_up", **schedule), [], None
    while True:
        found = series.following(schedule, rule, after=after, now=now, selected_until=selected_until)
        if found.at is None or found.at > now:
            return instants
        instants.append(found.at)
        after, selected_until = found.at, found.selected_until


@pytest.mark.parametrize("limit", [1, 2, 100, 1000])
def test_catching_up_runs_the_latest_occurrences_within_its_limit(limit):
    rule, now = Every(SECOND), NOW + 6 * DAY

    instants = caught_up(rule, NOW, now, catch_up_limit=limit)

    assert instants == [now - number * SECOND for number in reversed(range(limit))]


class Irregular(Every):
    """Every second for an hour from noon, every hour otherwise."""

    def next_after(self, moment):
        self.calls += 1
        since = (moment - NOW) % DAY
        step = SECOND if since < HOUR - SECOND else HOUR
        return Occurrence(moment - since % step + step)


@pytest.mark.parametrize("limit", [1, 30, 5000])
@pytest.mark.parametrize("later", [timedelta(0), HOUR / 2, 7 * HOUR, 23 * HOUR])
def test_catching_up_finds_the_latest_occurrences_of_an_irregular_rule(limit, later):
    rule, now = Irregular(None), NOW + 5 * DAY + later
    every, at = [], NOW
    while (at := rule.next_after(at).at) <= now:
        every.append(at)

    found = series.following(a_schedule(misfire="catch_up", catch_up_limit=limit), rule, after=NOW, now=now)

    assert found.at == every[-limit]


def test_the_cost_of_a_catch_up_is_linear_in_its_occurrences():
    rule = Every(SECOND)

    assert len(caught_up(rule, NOW, NOW + 3 * DAY, catch_up_limit=5000)) == 5000

    assert rule.calls < 10 * 5000


def test_an_outdated_catch_up_selection_is_recalculated():
    schedule = a_schedule(misfire="catch_up", catch_up_seconds=3600.0)

    found = series.following(schedule, Every(MINUTE), after=NOW, now=NOW + 5 * HOUR, selected_until=NOW + HOUR)

    assert found.at == NOW + 4 * HOUR + MINUTE


def test_dropped_occurrences_of_one_outage_are_counted_up_to_a_hundred():
    assert following(Every(MINUTE), NOW, NOW + 3 * DAY + 5 * SECOND).missed == 100


@pytest.mark.parametrize("misfire", ["fire_once", "skip", "catch_up"])
def test_an_ended_rule_has_no_next_occurrence(misfire):
    rule = Every(DAY, until=NOW + 2 * DAY)

    assert following(rule, NOW + 2 * DAY, NOW + 3 * DAY, misfire=misfire) == NextOccurrence(None)


def test_a_rule_that_ended_during_an_outage_has_ended():
    assert following(Every(DAY, until=NOW + 2 * DAY), NOW, NOW + 5 * DAY) == NextOccurrence(None, missed=2)


# -- first occurrences -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("anchor", "is_explicit", "expected"),
    [
        (NOW, False, NOW + DAY),
        (NOW + HOUR, True, NOW + HOUR),
        (NOW, True, NOW),
        (NOW - 30 * SECOND, True, NOW),
    ],
)
def test_the_first_occurrence_is_at_an_explicit_start_or_after_now(anchor, is_explicit, expected):
    rule = Every(DAY) if anchor == NOW else Every(HOUR)
    now = NOW + 30 * SECOND if anchor < NOW else NOW

    assert series.first(rule, anchor=max(anchor, NOW), is_explicit=is_explicit, now=now) == expected


def test_occurrences_between_a_past_start_and_now_are_not_created():
    assert series.first(Every(DAY), anchor=NOW, is_explicit=True, now=NOW + 10 * DAY + HOUR) == NOW + 11 * DAY
