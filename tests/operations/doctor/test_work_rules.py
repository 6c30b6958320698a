from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from scheduled_actions.executors.model import ExecutorState
from scheduled_actions.operations.doctor.rules import (
    Level,
    executors as executor_rules,
    limits as limit_rules,
    project as project_rules,
    ticks as tick_rules,
)
from scheduled_actions.operations.doctor.rules.ticks import ANSWERED, UNSENT, Ping
from tests.factories import NOW

OK, WARNING, FAULT = Level.OK, Level.WARNING, Level.FAULT
MINUTE = timedelta(minutes=1)
ONE, TWO = UUID(int=1), UUID(int=2)


def heartbeat(*outcomes, is_set=True, problem=None):
    """Return the check for these heartbeat outcomes of past ticks, latest first."""
    pings = [Ping(ago=minute * MINUTE, heartbeat=outcome) for minute, outcome in enumerate(outcomes, start=2)]
    return tick_rules.heartbeat(pings, is_set=is_set, problem=problem)


def backlog(due, minutes, *, is_missing=False):
    return project_rules.backlog(due=due, oldest=None if minutes is None else minutes * MINUTE, is_missing=is_missing)


QUEUE = limit_rules.LongQueue("api:a", "blue", 3, 3, None, 1_000, 60 * MINUTE)


def limits(name, **facts):
    """Return the named check of limit keys when only these values need attention."""
    nothing = {"long": (), "unknown": (), "stale_slots": 0, "is_missing": False}
    return next(check for check in limit_rules.limit_keys(**nothing | facts) if check.name == name)


DECLARED = {"media": ("video:*",)}


def executors(name, *, declared=DECLARED, known=("video:cut",), types=("video:*",), **changes):
    """Return the named check of the executor `media` with these values."""
    values = {
        "name": "media", "types": types, "carrier": "postgres", "untaken": 0, "oldest_untaken_at": None,
        "due": 3, "queued": 0, "oldest_due_at": None, "running": 0, "workers": 0,
        "last_taken_at": None, "last_seen_at": None, "is_attended": False, "seen_workers": (),
    }  # fmt: skip
    checks = executor_rules.executors([ExecutorState(**values | changes)], declared, known, now=NOW)
    return next(check for check in checks if check.name == name)


def attention(name, **facts):
    """Return the named check when only these values need attention."""
    nothing = {
        "failed": 0,
        "unhandled": (),
        "returned_failures": (),
        "schedules": (),
        "held_up": (),
        "deadlines": (),
        "endpoints": (),
        "cycles": (),
    }
    return next(check for check in project_rules.attention(**nothing | facts) if check.name == name)


@pytest.mark.parametrize(
    ("check", "level", "detail", "remedy"),
    [
        (heartbeat(is_set=False), OK, "not configured (optional)", None),
        (heartbeat(None, None, None, is_set=False), OK, "not configured (optional)", None),
        (heartbeat(), OK, "configured; its first result is not known yet", None),
        (heartbeat(None, None), OK, "configured; its first result is not known yet", None),
        (heartbeat(UNSENT, UNSENT), OK, "configured; its first result is not known yet", None),
        (
            heartbeat(UNSENT, UNSENT, UNSENT),
            OK,
            "configured; results are unknown, because every process",
            None,
        ),
        (
            heartbeat(UNSENT, UNSENT, UNSENT, is_set=False),
            OK,
            "configured; results are unknown",
            None,
        ),
        (heartbeat(UNSENT, ANSWERED, "was refused: HTTP 404"), OK, "the last one was answered", None),
        (
            heartbeat(None, UNSENT, "was refused: HTTP 404", ANSWERED, is_set=False),
            WARNING,
            "the last heartbeat was refused: HTTP 404, according to the tick of 4 minutes ago",
            "check that the address in SCHEDULED_ACTIONS_HEARTBEAT_URL exists",
        ),
        (heartbeat(None, None, None), WARNING, "SCHEDULED_ACTIONS_HEARTBEAT_URL is set here, but not in", "set it"),
        (
            heartbeat(ANSWERED, problem="the URL has no scheme"),
            FAULT,
            "SCHEDULED_ACTIONS_HEARTBEAT_URL: the URL has no scheme",
            "set SCHEDULED_ACTIONS_HEARTBEAT_URL to the address from your monitoring service, or unset it",
        ),
        (backlog(0, None), OK, "nothing is due", None),
        (backlog(1, 5), OK, "1 action due, the oldest for 5 minutes", None),
        (backlog(9, 60, is_missing=True), OK, "9 actions due, the oldest for 60 minutes", None),
        (
            backlog(10_000, 6),
            WARNING,
            "10,000+ actions due, the oldest for 6 minutes: ticks do not keep up",
            "`scheduled-actions explain ID` shows why",
        ),
        (limits("limit_keys_full", long=[QUEUE], is_missing=True), OK, "no action has waited for longer", None),
        (
            limits("limit_keys_full", long=[QUEUE] * 7),
            WARNING,
            "due actions have waited for longer than 10 minutes for: api:a of team blue (3 of 3 in use, 1,000+ ",
            "raise at_once, rate or burst",
        ),
        (limits("limit_keys_unknown"), OK, "every limit key of queued actions matches a pattern", None),
        (
            limits("limit_keys_unknown", unknown=["api:a", "b"]),
            WARNING,
            "queued actions have limit keys that match no pattern: api:a, b",
            'add a pattern to scheduled_actions.toml, such as [limits."api:a"] with at_once = 3',
        ),
        (limits("limit_slots", stale_slots=2, is_missing=True), OK, "every slot in use", None),
        (limits("limit_slots", stale_slots=2), WARNING, "2 slots of limit keys are in use although", "ticks free such"),
        (
            executors("executors", last_taken_at=datetime(2026, 11, 30, 12, 3, tzinfo=UTC)),
            WARNING,
            "executor media: no worker has taken an action since 2026-11-30 12:03:00Z (3 due actions)",
            "start a worker: `scheduled-actions executors work media`",
        ),
        (
            executors("executors", due=10_000),
            WARNING,
            "executor media: no worker has taken an action within the last day (10,000+ due actions)",
            "start a worker",
        ),
        (executors("executors", due=0), OK, "0 workers of 1 executor", None),
        (executors("executors", is_attended=True, workers=1), OK, "1 worker of 1 executor seen in the last", None),
        (
            executors("executors", carrier="celery", due=0, untaken=5, oldest_untaken_at=NOW - timedelta(minutes=3)),
            WARNING,
            "executor media: no worker has taken a ticket within the last day (5 untaken tickets)",
            "check that its workers run",
        ),
        (
            executors("executors", carrier="celery", untaken=5, oldest_untaken_at=NOW - timedelta(minutes=1)),
            OK,
            "0 workers of 1 executor",
            None,
        ),
        # Removed: ticks return its queue.
        (executors("executors", types=(), declared={}), OK, "0 workers", None),
        (executors("executor_settings"), OK, "the settings and the database have the same executors", None),
        (
            executors("executor_settings", types=(), declared={}),
            OK,
            "the settings and the database have the same executors",
            None,
        ),
        (
            executors("executor_settings", declared={}),
            WARNING,
            "executors in the database that the settings do not have: media; no tick runs their types",
            "add their sections",
        ),
        (
            executors("executor_settings", declared=DECLARED | {"gpu": ("model:*",)}),
            WARNING,
            "executors of the settings that are not in the database, so that ticks run their types: gpu",
            "run `scheduled-actions migrate`",
        ),
        (
            executors("executor_settings", types=("audio:*",)),
            WARNING,
            "executors whose types differ between the settings and the database: media",
            "run `scheduled-actions migrate` with the settings that apply",
        ),
        (executors("executor_types"), OK, "every type of an executor has a handler", None),
        (
            executors("executor_types", declared={"media": ("video:*", "audio:cut", "film:*")}, known=("video:cut",)),
            WARNING,
            "types of executors without a handler in this build: audio:cut (media), film:* (media)",
            "correct the types",
        ),
        (limit_rules.pauses(active=0, endless=(), paused=0), OK, "nothing is paused", None),
        (limit_rules.pauses(active=2, endless=(), paused=1), OK, "2 active pauses, 1 due action held back", None),
        (
            limit_rules.pauses(active=2, endless=[("action_type", "a:b")], paused=10_000),
            WARNING,
            "paused for longer than a day, without an end: action type a:b; 10,000+ due actions held back",
            "resume what should run again, or set an end",
        ),
        (attention("failed_actions", failed=0), OK, "none failed in the last day", None),
        (
            attention("failed_actions", failed=2),
            WARNING,
            "2 actions failed in the last day",
            "`scheduled-actions actions list --status failed`",
        ),
        (attention("no_action", unhandled=()), OK, "no action waits for a handler", None),
        (
            attention("no_action", unhandled=("a:b", "c:d")),
            WARNING,
            "the running build has no handler for stored actions of these types: a:b, c:d",
            "depl",
        ),
        (
            attention("returned_failures", returned_failures=()),
            OK,
            "none of the latest actions completed with a result that reports a failure",
            None,
        ),
        (
            attention("returned_failures", returned_failures=("a:b", "c:d")),
            WARNING,
            'completed in the last day although their handler returned {"success": false}: a:b, c:d',
            "raise Fail or any other exception in these handlers: an action whose handler returns has succeeded",
        ),
        (attention("held_up_schedules", held_up=()), OK, "no schedule waits for a failed occurrence", None),
        (
            attention("held_up_schedules", held_up=[("a", "7", "failed", 3 * MINUTE)]),
            WARNING,
            (
                "skip every occurrence until the previous one has completed (requires_previous): "
                "a (action 7, failed 3 minutes ago)"
            ),
            "fix the cause, then run `scheduled-actions actions retry ID`",
        ),
        (
            attention("schedules", schedules=()),
            OK,
            "no schedule is paused after failures, and every call of schedule_recurring_action from SQL is applied",
            None,
        ),
        (
            attention("schedules", schedules=tuple("abcdefg")),
            WARNING,
            (
                "paused after failures, or a call of schedule_recurring_action from SQL was refused or is not applied: "
                "a, b, c, d, e and 2 more"
            ),
            "`scheduled-actions schedules show REF` shows why; fix the cause",
        ),
        (attention("deadlines", deadlines=()), OK, "every call of set_deadline from SQL is applied", None),
        (
            attention("deadlines", deadlines=("audit",)),
            WARNING,
            "a call of set_deadline from SQL was refused or is not applied: audit",
            "`scheduled-actions deadlines show REF`",
        ),
        (attention("waiting_cycles", cycles=()), OK, "no actions wait for one another", None),
        (
            attention("waiting_cycles", cycles=((ONE, TWO), (TWO,))),
            WARNING,
            f"these actions wait for one another and never run: {ONE} -> {TWO} -> {ONE}, {TWO} -> {TWO}",
            "change or remove `after` of one of them",
        ),
        (attention("webhook_endpoints", endpoints=()), OK, "no endpoint is disabled after failures", None),
        (
            attention("webhook_endpoints", endpoints=("crm",)),
            WARNING,
            "disabled after failures: crm",
            "once the receiver works again",
        ),
    ],
)
def test_each_check_of_work_has_the_expected_level_detail_and_remedy(check, level, detail, remedy):
    assert check.level is level
    assert check.detail.startswith(detail)
    assert (check.remedy or "").startswith(remedy or "")
    assert (check.remedy is None) is (remedy is None)
