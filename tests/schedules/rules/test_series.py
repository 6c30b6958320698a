"""What becomes of a claimed occurrence, and which comes next: every policy, row by row."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduled_actions.recurrence.model import Occurrence
from scheduled_actions.schedules.rules import series
from scheduled_actions.schedules.rules.series import Judgement, Next
from tests.factories import NOW, a_schedule

SECOND, MINUTE, HOUR, DAY = (timedelta(seconds=seconds) for seconds in (1, 60, 3600, 86400))


class Every:
    """The instants of a step from NOW on, up to an end."""

    def __init__(self, step, until=None):
        self.step, self.until, self.asked = step, until, 0

    def next_after(self, moment):
        self.asked += 1
        at = NOW + self.step * max(0, (moment - NOW) // self.step + 1)
        return None if self.until is not None and at > self.until else Occurrence(at)

    def between(self, start, end, *, limit):
        found = []
        while len(found) < limit and (one := self.next_after(start)) is not None and one.at <= end:
            found.append(one)
            start = one.at
        return found


# -- whether it runs ---------------------------------------------------------------------------------------------------


def judged(*, due_at=NOW, now=NOW, running_since=None, has_unhandled=False, **schedule):
    return series.judge(
        a_schedule(**schedule), due_at=due_at, now=now, running_since=running_since, has_unhandled=has_unhandled
    )


def test_an_occurrence_that_is_found_in_time_runs():
    assert judged(now=NOW + 40 * SECOND) == Judgement("run")


@pytest.mark.parametrize("misfire", ["fire_once", "catch_up"])
def test_a_late_one_runs_where_the_policy_makes_up_for_it(misfire):
    assert judged(now=NOW + 3 * DAY, misfire=misfire) == Judgement("run")


@pytest.mark.parametrize(("late", "verdict"), [(300 * SECOND, "run"), (301 * SECOND, "skip"), (3 * DAY, "skip")])
def test_the_policy_skip_runs_only_what_is_found_within_its_grace(late, verdict):
    assert judged(now=NOW + late, misfire="skip").verdict == verdict


def test_one_that_was_missed_says_how_late_it_was_found():
    assert judged(now=NOW + 3 * DAY, misfire="skip").reason == "missed: found 3 days late"


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
def test_one_that_came_due_while_another_was_at_work_does_as_the_overlap_policy_says(overlap, started, verdict):
    assert judged(now=NOW + MINUTE, running_since=started, overlap=overlap).verdict == verdict


def test_one_whose_forerunner_waits_for_a_handler_does_not_add_to_the_pile():
    assert judged(has_unhandled=True).verdict == "skip"


# -- which comes next --------------------------------------------------------------------------------------------------


def following(rule, after, now, **schedule):
    return series.following(a_schedule(**schedule), rule, after=after, now=now)


@pytest.mark.parametrize("misfire", ["fire_once", "skip", "catch_up"])
def test_in_good_times_it_is_the_rules_next_instant(misfire):
    assert following(Every(DAY), NOW, NOW + 30 * SECOND, misfire=misfire) == Next(NOW + DAY)


@pytest.mark.parametrize("misfire", ["fire_once", "skip", "catch_up"])
def test_pings_that_come_apart_by_seconds_miss_nothing(misfire):
    # 12:00 found at 12:01:00.1: 12:01 is on time.
    assert following(Every(MINUTE), NOW, NOW + 60.1 * SECOND, misfire=misfire) == Next(NOW + MINUTE)


@pytest.mark.parametrize(
    ("misfire", "expected"),
    [
        ("fire_once", Next(NOW + 4 * DAY, missed=2)),
        ("skip", Next(NOW + 4 * DAY, missed=2)),
        ("catch_up", Next(NOW + 2 * DAY, selected_until=NOW + 3 * DAY + HOUR)),
    ],
)
def test_after_three_days_of_silence_the_misfire_policy_decides(misfire, expected):
    assert following(Every(DAY), NOW + DAY, NOW + 3 * DAY + HOUR, misfire=misfire) == expected


def test_a_next_one_within_the_grace_is_not_missed():
    assert following(Every(DAY), NOW, NOW + DAY + 200 * SECOND, misfire="skip") == Next(NOW + DAY)


def test_catching_up_is_bounded_by_count_and_what_falls_off_is_counted():
    found = following(Every(HOUR), NOW, NOW + 10.5 * HOUR, misfire="catch_up", catch_up_limit=3)

    assert (found.at, found.missed) == (NOW + 8 * HOUR, 7)


def test_catching_up_is_bounded_by_age_and_what_falls_off_is_counted():
    found = following(Every(HOUR), NOW, NOW + 10.5 * HOUR, misfire="catch_up", catch_up_seconds=3.0 * 3600)

    assert (found.at, found.missed) == (NOW + 8 * HOUR, 7)


def test_where_all_that_was_missed_is_too_old_the_future_comes_next():
    found = following(Every(HOUR), NOW, NOW + 10.5 * HOUR, misfire="catch_up", catch_up_seconds=60.0)

    assert found == Next(NOW + 11 * HOUR, missed=10)


def caught_up(rule, after, now, **schedule):
    """Return the instants that a catch-up runs one after the other, each planned by the claim of the one before."""
    schedule, instants, selected_until = a_schedule(misfire="catch_up", **schedule), [], None
    while True:
        found = series.following(schedule, rule, after=after, now=now, selected_until=selected_until)
        if found.at is None or found.at > now:
            return instants
        instants.append(found.at)
        after, selected_until = found.at, found.selected_until


@pytest.mark.parametrize("limit", [1, 2, 100, 1000])
def test_catching_up_runs_the_latest_however_many_were_missed(limit):
    rule, now = Every(SECOND), NOW + 6 * DAY

    instants = caught_up(rule, NOW, now, catch_up_limit=limit)

    assert instants == [now - number * SECOND for number in reversed(range(limit))]


class Irregular(Every):
    """Dense for an hour, every day at noon; else once an hour."""

    def next_after(self, moment):
        self.asked += 1
        since = (moment - NOW) % DAY
        step = SECOND if since < HOUR - SECOND else HOUR
        return Occurrence(moment - since % step + step)


@pytest.mark.parametrize("limit", [1, 30, 5000])
@pytest.mark.parametrize("later", [timedelta(0), HOUR / 2, 7 * HOUR, 23 * HOUR])
def test_the_latest_of_a_rule_that_comes_in_bursts_are_found_too(limit, later):
    rule, now = Irregular(None), NOW + 5 * DAY + later
    every, at = [], NOW
    while (at := rule.next_after(at).at) <= now:
        every.append(at)

    found = series.following(a_schedule(misfire="catch_up", catch_up_limit=limit), rule, after=NOW, now=now)

    assert found.at == every[-limit]


def test_the_work_of_a_catch_up_grows_with_what_it_runs_and_not_with_its_square():
    rule = Every(SECOND)

    assert len(caught_up(rule, NOW, NOW + 3 * DAY, catch_up_limit=5000)) == 5000

    assert rule.asked < 10 * 5000


def test_a_selection_that_has_grown_too_old_meanwhile_is_made_again():
    schedule = a_schedule(misfire="catch_up", catch_up_seconds=3600.0)

    found = series.following(schedule, Every(MINUTE), after=NOW, now=NOW + 5 * HOUR, selected_until=NOW + HOUR)

    assert found.at == NOW + 4 * HOUR + MINUTE


def test_what_one_outage_drops_is_counted_to_a_hundred():
    assert following(Every(MINUTE), NOW, NOW + 3 * DAY + 5 * SECOND).missed == 100


@pytest.mark.parametrize("misfire", ["fire_once", "skip", "catch_up"])
def test_a_rule_that_has_ended_names_none(misfire):
    rule = Every(DAY, until=NOW + 2 * DAY)

    assert following(rule, NOW + 2 * DAY, NOW + 3 * DAY, misfire=misfire) == Next(None)


def test_an_end_that_passed_in_an_outage_is_an_end():
    assert following(Every(DAY, until=NOW + 2 * DAY), NOW, NOW + 5 * DAY) == Next(None, missed=2)


# -- the first ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("anchor", "is_explicit", "expected"),
    [
        (NOW, False, NOW + DAY),
        (NOW + HOUR, True, NOW + HOUR),
        (NOW, True, NOW),
        (NOW - 30 * SECOND, True, NOW),
    ],
)
def test_the_first_occurrence_is_at_a_named_start_and_else_after_now(anchor, is_explicit, expected):
    rule = Every(DAY) if anchor == NOW else Every(HOUR)
    now = NOW + 30 * SECOND if anchor < NOW else NOW

    assert series.first(rule, anchor=max(anchor, NOW), is_explicit=is_explicit, now=now) == expected


def test_what_a_start_in_the_past_names_before_now_never_was():
    assert series.first(Every(DAY), anchor=NOW, is_explicit=True, now=NOW + 10 * DAY + HOUR) == NOW + 11 * DAY
