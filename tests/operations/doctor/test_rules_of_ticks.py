from __future__ import annotations

import re
from datetime import timedelta

import pytest

from scheduled_actions.operations.doctor.rules import Level
from scheduled_actions.operations.doctor.rules.ticks import (
    DoublesFound,
    HangUpsFound,
    LossesFound,
    Ping,
    RefusalsFound,
    TicksFound,
)

OK, WARNING = Level.OK, Level.WARNING
MINUTE = timedelta(minutes=1)


def pings(*seconds_ago, caller="curl/8", **columns):
    return [Ping(ago=timedelta(seconds=ago), caller=caller, **columns) for ago in seconds_ago]


def every(seconds, *, count=20, since=0, **columns):
    return pings(*(since + seconds * number for number in range(count)), **columns)


def together(*lists):
    return sorted((ping for each in lists for ping in each), key=lambda ping: ping.ago)


def hung_up(*waits, caller="cron-job.org", **settings):
    found = [Ping(ago=MINUTE, caller=caller, hung_up_after=timedelta(seconds=wait)) for wait in waits]
    return HangUpsFound(
        pings=[*found, *every(60, caller=caller, count=3)],
        **{"max_run_seconds": 20, "linger_seconds": 0} | settings,
    )


def refused(*, minutes_ago=1, **columns):
    return RefusalsFound(last_ago=timedelta(minutes=minutes_ago), **columns)


@pytest.mark.parametrize(
    ("fact", "level", "detail", "remedy"),
    [
        (TicksFound(last=Ping(ago=40 * MINUTE, is_at_work=True), due=0), OK, "the last one was 40 minutes ago", None),
        (TicksFound(last=Ping(ago=40 * MINUTE, duration=39 * MINUTE), due=0), OK, "the last one was 40 minutes", None),
        (
            TicksFound(last=Ping(ago=40 * MINUTE, caller="curl/8"), due=2),
            WARNING,
            "no ping for 40 minutes: the last one came by curl/8; 2 due actions wait",
            "see whether that cron still runs",
        ),
        (DoublesFound([]), OK, "no ping comes twice", None),
        (DoublesFound(every(60)), OK, "no ping comes twice", None),
        (DoublesFound(every(5)), OK, "no ping comes twice", None),
        (DoublesFound(together(every(60), pings(61, 122))), OK, "no ping comes twice", None),
        (
            DoublesFound(together(every(60), every(60, since=1.5))),
            WARNING,
            "pings come twice: 20 of 40 began within 10 seconds of another (curl/8)",
            "keep one",
        ),
        (
            DoublesFound(together(every(60, count=4), every(60, count=4, since=0.2, caller="Vercel"))),
            WARNING,
            "pings come twice: 4 of 8 began within 10 seconds of another (curl/8, Vercel)",
            "keep one",
        ),
        (
            DoublesFound(together(every(60, count=4), every(60, count=4, since=30, caller="Vercel"))),
            WARNING,
            "two crons ping: curl/8, Vercel",
            "keep one",
        ),
        (DoublesFound(together(every(60), every(60, since=1, caller="scheduled-actions-wake"))), OK, "no ping", None),
        (DoublesFound(together(every(60), every(60, since=30, caller="cli:ada"))), OK, "no ping", None),
        (
            DoublesFound(every(60, joined=("Vercel",))),
            WARNING,
            "pings come twice: 20 came while another one's tick was at work (Vercel, curl/8)",
            "keep one",
        ),
        (DoublesFound(every(60, joined=("scheduled-actions-wake",))), OK, "no ping comes twice", None),
        (hung_up(10.1), OK, "callers wait for the answer", None),
        (
            hung_up(10.1, 10.3),
            WARNING,
            "cron-job.org hung up within 10.1 seconds in 2 of its last 5 pings",
            "let that caller wait longer (60 seconds), or set max_run_seconds = 6 (SCHEDULED_ACTIONS_MAX_RUN_SECONDS):",
        ),
        (
            hung_up(2, 2, caller=""),
            WARNING,
            "a caller hung up within 2.0 seconds",
            "let that caller wait longer (60 seconds): no tick is sure to answer in 2.0 seconds",
        ),
        (LossesFound(every(60)), OK, "every tick has ended", None),
        (
            LossesFound([*pings(1, is_lost=True), *pings(61, duration=timedelta(seconds=9.4))]),
            WARNING,
            "1 of the last 2 ticks ended without a word: their process was killed, by the host's time limit or for its",
            "set max_duration_seconds below the host's limit",
        ),
        (RefusalsFound(), OK, "none was refused", None),
        (refused(wrong=3, callers=("curl/8",)), WARNING, "a wrong secret is being tried: 3 pings in a day", "if that"),
        (refused(wrong=3, minutes_ago=90), OK, "3 pings refused in a day, the last one 90 minutes ago", None),
        (refused(without=1), OK, "1 ping refused in a day", None),
        (refused(without=1, is_missing=True), WARNING, "1 ping refused in a day", "have your cron send CRON_SECRET"),
    ],
)
def test_pings_mean(fact, level, detail, remedy):
    check = fact.judged()

    assert check.level is level
    assert check.detail.startswith(detail)
    assert (check.remedy or "").startswith(remedy or "")
    assert (check.remedy is None) is (remedy is None)


@pytest.mark.parametrize("max_run_seconds", [1, 3, 6, 20])
@pytest.mark.parametrize("linger_seconds", [0, 5, 50])
@pytest.mark.parametrize("waits", [5, 10, 30, 60])
def test_what_a_caller_that_hung_up_is_answered_with_in_time(waits, linger_seconds, max_run_seconds):
    """Whenever in the second after its goodbye it was seen to have gone."""
    for seen in (waits, waits + 0.5, waits + 1):
        fact = hung_up(seen, seen, linger_seconds=linger_seconds, max_run_seconds=max_run_seconds)
        remedy = fact.judged().remedy

        def told(pattern, otherwise, remedy=remedy):
            found = re.search(pattern, remedy)
            return int(found[1]) if found else otherwise

        starts_until = max(
            told(r"max_run_seconds = (\d+)", max_run_seconds), told(r"linger_seconds = 0, or (\d+)", linger_seconds)
        )
        assert starts_until + told(r"has (\d+) (?:seconds )?to end", None) < waits, remedy


def test_settings_that_are_short_enough_for_a_caller_are_not_to_be_lowered():
    remedy = hung_up(10.5, 11, max_run_seconds=4).judged().remedy

    assert remedy.endswith("or shorten the handlers: what a tick starts last, after 4 seconds, has 4 to end")


def test_each_check_of_the_pings_has_a_name_of_its_own():
    facts = [TicksFound(last=None, due=0), DoublesFound([]), hung_up(), LossesFound([]), RefusalsFound()]

    assert [fact.judged().name for fact in facts] == [
        "ticks", "doubled_pings", "hung_up_pings", "lost_ticks", "refused_pings",
    ]  # fmt: skip
