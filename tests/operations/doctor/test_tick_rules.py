from __future__ import annotations

import re
from datetime import timedelta

import pytest

from scheduled_actions.operations.doctor.rules import Level
from scheduled_actions.operations.doctor.rules.ticks import (
    Ping,
    doubled_pings,
    hung_up_pings,
    lost_ticks,
    refused_pings,
    ticks,
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
    return hung_up_pings(
        [*found, *every(60, caller=caller, count=3)],
        **{"max_run_seconds": 20, "linger_seconds": 0} | settings,
    )


def refused(*, minutes_ago=1, **columns):
    return refused_pings(last_ago=timedelta(minutes=minutes_ago), **columns)


@pytest.mark.parametrize(
    ("check", "level", "detail", "remedy"),
    [
        (ticks(Ping(ago=40 * MINUTE, is_at_work=True), due=0), OK, "last ping 40 minutes ago", None),
        (ticks(Ping(ago=40 * MINUTE, duration=39 * MINUTE), due=0), OK, "last ping 40 minutes", None),
        (
            ticks(Ping(ago=40 * MINUTE, caller="curl/8"), due=2),
            WARNING,
            "nothing has called /cron/process for 40 minutes (last caller: curl/8); 2 due actions are waiting",
            "check that the cron job runs",
        ),
        (doubled_pings([]), OK, "no ping comes twice", None),
        (doubled_pings(every(60)), OK, "no ping comes twice", None),
        (doubled_pings(every(5)), OK, "no ping comes twice", None),
        (doubled_pings(together(every(60), pings(61, 122))), OK, "no ping comes twice", None),
        (
            doubled_pings(together(every(60), every(60, since=1.5))),
            WARNING,
            "pings come twice: 20 of 40 started within 10 seconds of another (curl/8)",
            "keep one",
        ),
        (
            doubled_pings(together(every(60, count=4), every(60, count=4, since=0.2, caller="Vercel"))),
            WARNING,
            "pings come twice: 4 of 8 started within 10 seconds of another (curl/8, Vercel)",
            "keep one",
        ),
        (
            doubled_pings(together(every(60, count=4), every(60, count=4, since=30, caller="Vercel"))),
            WARNING,
            "several crons ping: curl/8, Vercel",
            "keep one",
        ),
        (doubled_pings(together(every(60), every(60, since=1, caller="scheduled-actions-wake"))), OK, "no ping", None),
        (doubled_pings(together(every(60), every(60, since=30, caller="cli:ada"))), OK, "no ping", None),
        (
            doubled_pings(every(60, joined=("Vercel",))),
            WARNING,
            "pings come twice: 20 arrived during another tick (Vercel, curl/8)",
            "keep one",
        ),
        (doubled_pings(every(60, joined=("scheduled-actions-wake",))), OK, "no ping comes twice", None),
        (hung_up(10.1), OK, "callers wait for the answer", None),
        (
            hung_up(10.1, 10.3),
            WARNING,
            "cron-job.org disconnected within 10.1 seconds in 2 of its last 5 pings",
            (
                "raise that caller's timeout to 60 seconds, or set max_run_seconds = 6 "
                "(SCHEDULED_ACTIONS_MAX_RUN_SECONDS):"
            ),
        ),
        (
            hung_up(2, 2, caller=""),
            WARNING,
            "a caller disconnected within 2.0 seconds",
            "raise that caller's timeout to 60 seconds: no tick is certain to answer within 2.0 seconds",
        ),
        (lost_ticks(every(60)), OK, "no tick was lost", None),
        (
            lost_ticks([*pings(1, is_lost=True), *pings(61, duration=timedelta(seconds=9.4))]),
            WARNING,
            "1 of the last 2 ticks did not end: the process was killed, by the host's time limit or for lack of",
            "set max_duration_seconds below the host's request limit",
        ),
        (refused_pings(), OK, "none was refused", None),
        (
            refused(wrong=3, callers=("curl/8",)),
            WARNING,
            "a caller (curl/8) uses a wrong CRON_SECRET: 3 pings in a day",
            "if it is your cron",
        ),
        (refused(wrong=3, minutes_ago=90), OK, "3 pings refused in a day, last try 90 minutes ago", None),
        (refused(without=1), OK, "1 ping refused in a day", None),
        (
            refused(without=1, is_missing=True),
            WARNING,
            "a caller sends no secret, and no other pings arrive: 1 ping",
            "make your cron send",
        ),
    ],
)
def test_each_check_of_pings_has_the_expected_level_detail_and_remedy(check, level, detail, remedy):
    assert check.level is level
    assert check.detail.startswith(detail)
    assert (check.remedy or "").startswith(remedy or "")
    assert (check.remedy is None) is (remedy is None)


@pytest.mark.parametrize("max_run_seconds", [1, 3, 6, 20])
@pytest.mark.parametrize("linger_seconds", [0, 5, 50])
@pytest.mark.parametrize("waits", [5, 10, 30, 60])
def test_the_remedy_for_a_disconnecting_caller_fits_its_timeout(waits, linger_seconds, max_run_seconds):
    """The disconnection is detected up to one second after it happened."""
    for seen in (waits, waits + 0.5, waits + 1):
        remedy = hung_up(seen, seen, linger_seconds=linger_seconds, max_run_seconds=max_run_seconds).remedy

        def number_in_remedy(pattern, otherwise, remedy=remedy):
            found = re.search(pattern, remedy)
            return int(found[1]) if found else otherwise

        starts_until = max(
            number_in_remedy(r"max_run_seconds = (\d+)", max_run_seconds),
            number_in_remedy(r"linger_seconds = 0, or (\d+)", linger_seconds),
        )
        assert starts_until + number_in_remedy(r"have (\d+) (?:seconds )?to finish", None) < waits, remedy


def test_the_remedy_keeps_settings_that_already_fit_the_caller():
    remedy = hung_up(10.5, 11, max_run_seconds=4).remedy

    assert remedy.endswith("or shorten the handlers: those that start last, after 4 seconds, have 4 to finish")


def test_the_names_of_the_checks_of_pings_are_unique():
    checks = [ticks(None, due=0), doubled_pings([]), hung_up(), lost_ticks([]), refused_pings()]

    assert [check.name for check in checks] == [
        "ticks", "doubled_pings", "hung_up_pings", "lost_ticks", "refused_pings",
    ]  # fmt: skip
