from __future__ import annotations

from datetime import timedelta

import pytest

from scheduled_actions.core.errors import SchemaHidden, SchemaUnreleased
from scheduled_actions.operations.doctor.rules import (
    Check,
    EndpointFound,
    HandlersFound,
    Level,
    RegistryFound,
    SecretFound,
    SettingsFound,
    ThreadsFound,
    worst,
)
from scheduled_actions.operations.doctor.rules.database import (
    ClocksFound,
    DatabaseFound,
    DefaultsFound,
    LineFound,
    MigrationsFound,
    ServerFound,
    TransactionsFound,
    in_words,
)
from scheduled_actions.operations.doctor.rules.ticks import Ping, TicksFound

OK, WARNING, FAULT = Level.OK, Level.WARNING, Level.FAULT
OURS = "our own connections use ISO and read committed"


def a_secret(**changes):
    values = {"variable": "A_SECRET", "opens": "it", "is_set": True, "is_usable": True, "is_optional": False}
    return SecretFound(**values | changes)


def an_endpoint(**changes):
    return EndpointFound(**{"name": "crm", "problem": None, "is_signed": True} | changes)


def a_line(*, shared=False, relayed=False, direct=False):
    return LineFound(is_shared=shared, is_relayed=relayed, is_declared_direct=direct)


def clocks(**apart):
    return ClocksFound(timedelta(**apart))


def ticks(due=0, **ago):
    return TicksFound(last=Ping(ago=timedelta(**ago)) if ago else None, due=due)


@pytest.mark.parametrize(
    ("fact", "level", "detail"),
    [
        (SettingsFound(None), OK, "can be used"),
        (SettingsFound(None, is_enabled=False), WARNING, "enabled is false: ticks answer, and process nothing"),
        (SettingsFound("a: 1: is not 2"), FAULT, "a: 1: is not 2"),
        (a_secret(), OK, "A_SECRET is set"),
        (a_secret(is_usable=False), FAULT, "A_SECRET is too short, so it is closed"),
        (a_secret(is_usable=False, is_set=False), FAULT, "A_SECRET is not set, so it is closed"),
        (a_secret(is_usable=False, is_set=False, is_optional=True), WARNING, "A_SECRET is not set, so it is closed"),
        (a_secret(is_usable=False, is_optional=True), FAULT, "A_SECRET is too short, so it is closed"),
        (an_endpoint(), OK, "has a URL and signs"),
        (an_endpoint(is_signed=False), WARNING, "deliveries are not signed: a receiver cannot tell who sent them"),
        (an_endpoint(problem="CRM_URL is not set"), FAULT, "CRM_URL is not set"),
        (an_endpoint(problem="CRM_URL is not set", is_signed=False), FAULT, "CRM_URL is not set"),
        (ThreadsFound(stuck=0, concurrency=8), OK, "8 handler threads"),
        (ThreadsFound(stuck=1, concurrency=8), WARNING, "1 of 8 handler threads"),
        (ThreadsFound(stuck=8, concurrency=8), FAULT, "all are stuck in handlers that never returned"),
        (ThreadsFound(stuck=0, concurrency=8, is_stopping=True), FAULT, "the process is stopping and starts nothing"),
        (RegistryFound(types=2), OK, "2 action types"),
        (RegistryFound(types=1, is_fresh=True), OK, "1 action type, up to date"),
        (RegistryFound(types=1, is_fresh=False), FAULT, "handlers/_registry.py is not what handlers/ asks for"),
        (RegistryFound(types=0, is_fresh=True), WARNING, "0 action types"),
        (RegistryFound(problem="is missing"), FAULT, "is missing"),
        (HandlersFound(count=1, broken=()), OK, "1 handler can be loaded"),
        (HandlersFound(count=2, functions=1, broken=()), OK, "2 handlers and 1 function can be loaded"),
        (HandlersFound(count=3, broken=("a is broken", "b is")), FAULT, "a is broken; b is"),
        (HandlersFound(count=3, broken=(), too_long={"a:b": 30}), WARNING, "these may take longer than a tick has, so"),
        (DatabaseFound(None), OK, "answers"),
        (DatabaseFound("it was refused"), FAULT, "it was refused"),
        (DefaultsFound("ISO, MDY", "read committed"), OK, "date style and isolation level are the usual ones"),
        (
            DefaultsFound("German, DMY", "serializable"),
            OK,
            f"datestyle = German, DMY, default_transaction_isolation = serializable: {OURS}",
        ),
        (
            DefaultsFound("ISO, DMY", "read committed", is_read_only=True),
            FAULT,
            "default_transaction_read_only is on: nothing can be written",
        ),
        (ServerFound(major=13, encoding="UTF8"), FAULT, "PostgreSQL 13, UTF8"),
        (ServerFound(major=14, encoding="UTF8"), OK, "PostgreSQL 14, UTF8"),
        (ServerFound(major=18, encoding="UTF8"), OK, "PostgreSQL 18, UTF8"),
        (ServerFound(major=19, encoding="UTF8"), WARNING, "PostgreSQL 19, UTF8"),
        (ServerFound(major=16, encoding="SQL_ASCII"), FAULT, "PostgreSQL 16, SQL_ASCII"),
        (ServerFound(major=19, encoding="LATIN1"), FAULT, "PostgreSQL 19, LATIN1"),
        (MigrationsFound(found=3, wanted=3), OK, "at 3"),
        (MigrationsFound(found=0, wanted=3), FAULT, "the tables are not there"),
        (MigrationsFound(found=2, wanted=3), FAULT, "at 2, this code needs 3"),
        (MigrationsFound(found=4, wanted=3), WARNING, "at 4, this code knows 3"),
        (
            MigrationsFound(found=3, wanted=3, stale_functions=("a", "b")),
            WARNING,
            "SQL functions of another version: a, b",
        ),
        (
            MigrationsFound(found=0, wanted=3, unusable=SchemaUnreleased("0001_old")),
            FAULT,
            "the tables were made by a build that was never",
        ),
        (
            MigrationsFound(found=0, wanted=3, unusable=SchemaHidden(("app.scheduled_actions",), "public")),
            FAULT,
            "the search path finds app.scheduled_actions before what",
        ),
        (clocks(seconds=2), OK, "this machine and the database agree"),
        (clocks(seconds=-2), OK, "this machine and the database agree"),
        (clocks(seconds=2.1), WARNING, "this machine is 2 seconds ahead of the database"),
        (clocks(minutes=-5), WARNING, "this machine is 5 minutes behind the database"),
        (clocks(minutes=5, seconds=1), FAULT, "this machine is 5 minutes ahead of the database"),
        (clocks(hours=-26), FAULT, "this machine is 26 hours behind the database"),
        (a_line(), OK, "none stands between"),
        (a_line(direct=True), OK, "none stands between"),
        (a_line(relayed=True), OK, "a pooler or a proxy stands between"),
        (a_line(relayed=True, direct=True), WARNING, "a pooler or a proxy stands between, but database_direct is true"),
        (a_line(shared=True), OK, "a transaction-mode pooler stands between; nothing here depends on a session"),
        (a_line(shared=True, direct=True), FAULT, "a transaction-mode pooler stands between, but database_direct"),
        (a_line(shared=True, relayed=True, direct=True), FAULT, "a transaction-mode pooler stands between"),
        (TransactionsFound(old=(), sees_all=True), OK, "none is open for long"),
        (TransactionsFound(old=(), sees_all=False), OK, "this role has none open for long; others' need"),
        (
            TransactionsFound(old=((7, timedelta(hours=3)), (9, timedelta(minutes=6))), sees_all=True),
            WARNING,
            "open too long: process 7 for 3 hours, process 9 for 6 minutes",
        ),
        (ticks(), WARNING, "there was none yet"),
        (ticks(due=2), WARNING, "there was none yet; 2 due actions wait"),
        (ticks(minutes=5), OK, "the last one was 5 minutes ago"),
        (ticks(minutes=5, due=9), OK, "the last one was 5 minutes ago"),
        (ticks(minutes=5, seconds=1), WARNING, "no ping for 5 minutes"),
        (ticks(days=3, due=1), WARNING, "no ping for 3 days; 1 due action waits"),
    ],
)
def test_a_fact_means(fact, level, detail):
    check = fact.judged()

    assert check.level is level
    assert check.detail.startswith(detail)
    assert (check.remedy is None) is (level is OK)


def test_each_fact_has_a_name_of_its_own():
    facts = [
        SettingsFound(None), a_secret(), an_endpoint(), ThreadsFound(stuck=0, concurrency=1), RegistryFound(),
        HandlersFound(count=0, broken=()), DatabaseFound(None), ServerFound(major=18, encoding="UTF8"),
        MigrationsFound(found=1, wanted=1), clocks(), a_line(), TransactionsFound(old=(), sees_all=True), ticks(),
    ]  # fmt: skip

    assert [fact.judged().name for fact in facts] == [
        "settings", "a_secret", "endpoint:crm", "threads", "registry", "handlers", "database", "server", "migrations",
        "clocks", "pooler", "transactions", "ticks",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("levels", "wanted"),
    [((), OK), ((OK, OK), OK), ((OK, WARNING), WARNING), ((FAULT, OK, WARNING), FAULT), ((WARNING, FAULT), FAULT)],
)
def test_an_installation_is_as_bad_as_its_worst_check(levels, wanted):
    assert worst(Check("name", level, "") for level in levels) is wanted


def test_a_check_is_told_to_programs_in_four_words():
    assert Check("ticks", WARNING, "none", "ping").as_json() == {
        "name": "ticks",
        "status": "warning",
        "detail": "none",
        "remedy": "ping",
    }


@pytest.mark.parametrize(
    ("span", "words"),
    [
        (timedelta(seconds=-5), "0 seconds"),
        (timedelta(seconds=1.4), "1 second"),
        (timedelta(seconds=119), "119 seconds"),
        (timedelta(minutes=2), "2 minutes"),
        (timedelta(minutes=119), "119 minutes"),
        (timedelta(hours=47), "47 hours"),
        (timedelta(days=400), "400 days"),
    ],
)
def test_a_length_of_time_is_told_in_the_unit_that_says_enough(span, words):
    assert in_words(span) == words
