from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

from scheduled_actions.operations.doctor.rules import Level
from scheduled_actions.operations.doctor.rules.heartbeat import ANSWERED, UNSENT, HeartbeatFound
from scheduled_actions.operations.doctor.rules.ticks import Ping
from scheduled_actions.operations.doctor.rules.work import (
    BacklogFound,
    DisabledEndpointsFound,
    FailuresFound,
    StoppedSchedulesFound,
    UnhandledFound,
    WaitingCyclesFound,
)

OK, WARNING, FAULT = Level.OK, Level.WARNING, Level.FAULT
MINUTE = timedelta(minutes=1)
ONE, TWO = UUID(int=1), UUID(int=2)


def heartbeat(*outcomes, is_set=True, problem=None):
    """Return the heartbeat as the ticks of the last minutes tell of it, the latest first."""
    pings = [Ping(ago=minute * MINUTE, heartbeat=outcome) for minute, outcome in enumerate(outcomes, start=2)]
    return HeartbeatFound(is_set=is_set, problem=problem, pings=pings)


def backlog(due, minutes, *, is_missing=False):
    return BacklogFound(due=due, oldest=None if minutes is None else minutes * MINUTE, is_missing=is_missing)


@pytest.mark.parametrize(
    ("fact", "level", "detail", "remedy"),
    [
        (heartbeat(is_set=False), OK, "none is wanted", None),
        (heartbeat(None, None, None, is_set=False), OK, "none is wanted", None),
        (heartbeat(), OK, "is set; no tick knows yet how one went", None),
        (heartbeat(None, None), OK, "is set; no tick knows yet how one went", None),
        (heartbeat(UNSENT, UNSENT), OK, "is set; no tick knows yet how one went", None),
        (
            heartbeat(UNSENT, UNSENT, UNSENT),
            OK,
            "is set; every tick of the last hour was the first of its process",
            None,
        ),
        (
            heartbeat(UNSENT, UNSENT, UNSENT, is_set=False),
            OK,
            "is set; every tick of the last hour was the first",
            None,
        ),
        (heartbeat(UNSENT, ANSWERED, "was refused: HTTP 404"), OK, "the last one was answered", None),
        (
            heartbeat(None, UNSENT, "was refused: HTTP 404", ANSWERED, is_set=False),
            WARNING,
            "the last heartbeat was refused: HTTP 404, says the tick of 4 minutes ago",
            "see whether what SCHEDULED_ACTIONS_HEARTBEAT_URL names is still there",
        ),
        (heartbeat(None, None, None), WARNING, "SCHEDULED_ACTIONS_HEARTBEAT_URL is set here, but no tick", "set it"),
        (
            heartbeat(ANSWERED, problem="the URL has no scheme"),
            FAULT,
            "SCHEDULED_ACTIONS_HEARTBEAT_URL: the URL has no scheme",
            "set SCHEDULED_ACTIONS_HEARTBEAT_URL to the address that your monitoring gave you, or unset it",
        ),
        (backlog(0, None), OK, "nothing is due", None),
        (backlog(1, 5), OK, "1 action due, the oldest for 5 minutes", None),
        (backlog(9, 60, is_missing=True), OK, "9 actions due, the oldest for 60 minutes", None),
        (
            backlog(10_000, 6),
            WARNING,
            "10,000+ actions due, the oldest for 6 minutes: ticks do not keep up",
            "`scheduled-actions list --status pending` and `explain ID`",
        ),
        (FailuresFound(0), OK, "none failed in the last day", None),
        (FailuresFound(2), WARNING, "2 actions failed in the last day", "`scheduled-actions list --status failed`"),
        (UnhandledFound(()), OK, "no action waits for a handler", None),
        (UnhandledFound(("a:b", "c:d")), WARNING, "actions wait for a handler that the build which ticks does", "depl"),
        (StoppedSchedulesFound(()), OK, "none is paused after failures", None),
        (
            StoppedSchedulesFound(tuple("abcdefg")),
            WARNING,
            "paused after failures: a, b, c, d, e and 2 more",
            "mend what failed",
        ),
        (WaitingCyclesFound(()), OK, "no actions wait for one another", None),
        (
            WaitingCyclesFound(((ONE, TWO), (TWO,))),
            WARNING,
            f"actions wait for one another for ever: {ONE} -> {TWO} -> {ONE}, {TWO} -> {TWO}",
            "give one of them another `after`",
        ),
        (DisabledEndpointsFound(()), OK, "none is disabled for its failures", None),
        (DisabledEndpointsFound(("crm",)), WARNING, "disabled for failures: crm", "once its receiver works again"),
    ],
)
def test_what_stands_there_means(fact, level, detail, remedy):
    check = fact.judged()

    assert check.level is level
    assert check.detail.startswith(detail)
    assert (check.remedy or "").startswith(remedy or "")
    assert (check.remedy is None) is (remedy is None)
