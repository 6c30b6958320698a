from __future__ import annotations

from datetime import timedelta

import pytest

from scheduled_actions.core.errors import SchemaShadowed, SchemaUnreleased
from scheduled_actions.operations.doctor.rules import (
    Check,
    Level,
    database as database_rules,
    in_words,
    project as project_rules,
    ticks as tick_rules,
    worst,
)
from scheduled_actions.operations.doctor.rules.database import MigrationState
from scheduled_actions.operations.doctor.rules.ticks import Ping

OK, WARNING, FAULT = Level.OK, Level.WARNING, Level.FAULT
OURS = "our own connections use ISO and read committed"


def a_secret(**changes):
    values = {"variable": "A_SECRET", "opens": "it", "is_set": True, "is_usable": True, "is_optional": False} | changes
    return project_rules.secret(values.pop("variable"), **values)


def an_endpoint(**changes):
    return project_rules.endpoint("crm", **{"problem": None, "is_signed": True} | changes)


def a_pooler(*, shared=False, relayed=False, direct=False):
    return database_rules.pooler(is_shared=shared, is_relayed=relayed, is_declared_direct=direct)


def defaults(date_style, isolation, read_only="off"):
    return database_rules.defaults(
        {
            "DateStyle": date_style,
            "default_transaction_isolation": isolation,
            "default_transaction_read_only": read_only,
        }
    )


def clocks(**apart):
    return database_rules.clocks(timedelta(**apart))


def ticks(due=0, **ago):
    return tick_rules.ticks(Ping(ago=timedelta(**ago)) if ago else None, due=due)


@pytest.mark.parametrize(
    ("check", "level", "detail"),
    [
        (project_rules.settings(None), OK, "valid"),
        (project_rules.settings(None, is_enabled=False), WARNING, "enabled is false: ticks answer but process nothing"),
        (project_rules.settings("a: 1: is not 2"), FAULT, "a: 1: is not 2"),
        (project_rules.email("smtp.example.com", is_caught=True), OK, "mails are sent through smtp.example.com"),
        (project_rules.email(None, is_caught=True), OK, "mails are caught by `scheduled-actions dev`"),
        (
            project_rules.email("", is_caught=False),
            OK,
            "no server (optional): mails fail until host is set under [email]",
        ),
        (a_secret(), OK, "A_SECRET is set"),
        (a_secret(is_usable=False), FAULT, "A_SECRET is too short, so it is closed"),
        (a_secret(is_usable=False, is_set=False), FAULT, "A_SECRET is not set, so it is closed"),
        (a_secret(is_usable=False, is_set=False, is_optional=True), WARNING, "A_SECRET is not set, so it is closed"),
        (a_secret(is_usable=False, is_optional=True), FAULT, "A_SECRET is too short, so it is closed"),
        (an_endpoint(), OK, "has a URL and a secret"),
        (an_endpoint(is_signed=False), WARNING, "deliveries are not signed: a receiver cannot verify the sender"),
        (an_endpoint(problem="CRM_URL is not set"), FAULT, "CRM_URL is not set"),
        (an_endpoint(problem="CRM_URL is not set", is_signed=False), FAULT, "CRM_URL is not set"),
        (project_rules.threads(stuck=0, concurrency=8), OK, "8 handler threads"),
        (project_rules.threads(stuck=1, concurrency=8), WARNING, "1 of 8 handler threads"),
        (
            project_rules.threads(stuck=8, concurrency=8),
            FAULT,
            "all handler threads are stuck in handlers that never returned",
        ),
        (
            project_rules.threads(stuck=0, concurrency=8, is_stopping=True),
            FAULT,
            "the process is stopping and starts nothing",
        ),
        (project_rules.registry(types=2), OK, "2 action types"),
        (project_rules.registry(types=1, is_fresh=True), OK, "1 action type, up to date"),
        (project_rules.registry(types=1, is_fresh=False), FAULT, "handlers/_registry.py does not match handlers/"),
        (project_rules.registry(types=0, is_fresh=True), WARNING, "0 action types"),
        (project_rules.registry(problem="is missing"), FAULT, "is missing"),
        (project_rules.handlers(count=1, broken=()), OK, "1 handler can be imported"),
        (project_rules.handlers(count=2, functions=1, broken=()), OK, "2 handlers and 1 function can be imported"),
        (project_rules.handlers(count=3, broken=("a is broken", "b is")), FAULT, "a is broken; b is"),
        (
            project_rules.handlers(count=3, broken=(), too_long={"a:b": 30}),
            WARNING,
            "never started, because their timeout does not fit",
        ),
        (
            project_rules.handlers(count=3, unmatched={"a:b": "api:{user_id}", "a:c": "mail"}),
            WARNING,
            "never started, because their limit matches no pattern of [limits]: a:b (api:{user_id}), a:c (mail)",
        ),
        (database_rules.database(None), OK, "answers"),
        (database_rules.database("it was refused"), FAULT, "it was refused"),
        (
            defaults("ISO, MDY", "read committed"),
            OK,
            "date style and isolation level have their usual values",
        ),
        (
            defaults("German, DMY", "serializable"),
            OK,
            f"datestyle = German, DMY, default_transaction_isolation = serializable: {OURS}",
        ),
        (
            defaults("ISO, DMY", "read committed", "on"),
            FAULT,
            "default_transaction_read_only is on: nothing can be written",
        ),
        (database_rules.server(major=13, encoding="UTF8"), FAULT, "PostgreSQL 13, UTF8"),
        (database_rules.server(major=14, encoding="UTF8"), OK, "PostgreSQL 14, UTF8"),
        (database_rules.server(major=18, encoding="UTF8"), OK, "PostgreSQL 18, UTF8"),
        (database_rules.server(major=19, encoding="UTF8"), WARNING, "PostgreSQL 19, UTF8"),
        (database_rules.server(major=16, encoding="SQL_ASCII"), FAULT, "PostgreSQL 16, SQL_ASCII"),
        (database_rules.server(major=19, encoding="LATIN1"), FAULT, "PostgreSQL 19, LATIN1"),
        (database_rules.migrations(MigrationState(found=3, wanted=3)), OK, "at migration 3"),
        (database_rules.migrations(MigrationState(found=0, wanted=3)), FAULT, "the tables do not exist"),
        (database_rules.migrations(MigrationState(found=2, wanted=3)), FAULT, "at migration 2; this code needs 3"),
        (
            database_rules.migrations(MigrationState(found=4, wanted=3)),
            WARNING,
            "at migration 4, newer than this code (3)",
        ),
        (
            database_rules.migrations(MigrationState(found=3, wanted=3, stale_functions=("a", "b"))),
            WARNING,
            "SQL functions of another version: a, b",
        ),
        (
            database_rules.migrations(MigrationState(found=0, wanted=3, unusable=SchemaUnreleased("0001_old"))),
            FAULT,
            "the tables were created by an unreleased build",
        ),
        (
            database_rules.migrations(
                MigrationState(found=0, wanted=3, unusable=SchemaShadowed(("app.scheduled_actions",), "public"))
            ),
            FAULT,
            "the search path finds app.scheduled_actions before the object",
        ),
        (clocks(seconds=2), OK, "this machine and the database agree"),
        (clocks(seconds=-2), OK, "this machine and the database agree"),
        (clocks(seconds=2.1), WARNING, "this machine is 2 seconds ahead of the database"),
        (clocks(minutes=-5), WARNING, "this machine is 5 minutes behind the database"),
        (clocks(minutes=5, seconds=1), FAULT, "this machine is 5 minutes ahead of the database"),
        (clocks(hours=-26), FAULT, "this machine is 26 hours behind the database"),
        (a_pooler(), OK, "connected to the server itself"),
        (a_pooler(direct=True), OK, "connected to the server itself"),
        (a_pooler(relayed=True), OK, "connected through a pooler or a proxy"),
        (
            a_pooler(relayed=True, direct=True),
            WARNING,
            "connected through a pooler or a proxy, but database_direct is true",
        ),
        (a_pooler(shared=True), OK, "connected through a transaction-mode pooler, which is supported"),
        (a_pooler(shared=True, direct=True), FAULT, "connected through a transaction-mode pooler, but database_direct"),
        (a_pooler(shared=True, relayed=True, direct=True), FAULT, "connected through a transaction-mode pooler"),
        (database_rules.transactions(old=(), sees_all=True), OK, "no transaction has been open for long"),
        (
            database_rules.transactions(old=(), sees_all=False),
            OK,
            "no transaction of this role has been open for long; `grant pg_monitor`",
        ),
        (
            database_rules.transactions(old=((7, timedelta(hours=3)), (9, timedelta(minutes=6))), sees_all=True),
            WARNING,
            "open too long: process 7 for 3 hours, process 9 for 6 minutes",
        ),
        (ticks(), WARNING, "nothing has called /cron/process yet"),
        (ticks(due=2), WARNING, "nothing has called /cron/process yet; 2 due actions are waiting"),
        (ticks(minutes=5), OK, "last ping 5 minutes ago"),
        (ticks(minutes=5, due=9), OK, "last ping 5 minutes ago"),
        (ticks(minutes=5, seconds=1), WARNING, "nothing has called /cron/process for 5 minutes"),
        (ticks(days=3, due=1), WARNING, "nothing has called /cron/process for 3 days; 1 due action is waiting"),
    ],
)
def test_each_check_has_the_expected_level_and_detail(check, level, detail):
    assert check.level is level
    assert check.detail.startswith(detail)
    assert (check.remedy is None) is (level is OK)


def test_the_names_of_the_checks_are_unique():
    checks = [
        project_rules.settings(None), a_secret(), an_endpoint(), project_rules.threads(stuck=0, concurrency=1),
        project_rules.registry(), project_rules.handlers(count=0), database_rules.database(None),
        database_rules.server(major=18, encoding="UTF8"),
        database_rules.migrations(MigrationState(found=1, wanted=1)), clocks(), a_pooler(),
        database_rules.transactions(old=(), sees_all=True), ticks(),
    ]  # fmt: skip

    assert [check.name for check in checks] == [
        "settings", "a_secret", "endpoint:crm", "threads", "registry", "handlers", "database", "server", "migrations",
        "clocks", "pooler", "transactions", "ticks",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("levels", "wanted"),
    [((), OK), ((OK, OK), OK), ((OK, WARNING), WARNING), ((FAULT, OK, WARNING), FAULT), ((WARNING, FAULT), FAULT)],
)
def test_the_level_of_an_installation_is_that_of_its_worst_check(levels, wanted):
    assert worst(Check("name", level, "") for level in levels) is wanted


def test_a_check_has_four_fields_in_json():
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
def test_a_duration_is_written_in_the_largest_unit_with_at_least_two(span, words):
    assert in_words(span) == words


def test_databases_of_deleted_projects_are_listed_up_to_a_limit():
    check = database_rules.stray_databases([(f"/data/{number}", f"/shop/{number}") for number in range(7)])

    assert check.level is WARNING
    assert check.detail.startswith("7 embedded databases of deleted projects: /data/0 (of /shop/0), ")
    assert check.detail.endswith("/data/4 (of /shop/4) and 2 more")
    assert "dev --purge --strays" in check.remedy
