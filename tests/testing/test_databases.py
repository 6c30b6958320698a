"""Databases of the test kit, on a server whose role may create databases and nothing more."""

from __future__ import annotations

import threading
from contextlib import closing

import psycopg
from psycopg.conninfo import make_conninfo

from scheduled_actions.testing.databases import Databases
from tests.factories import wait_until


def test_a_database_is_dropped_once_a_session_that_its_role_may_not_end_has_left(admin, postgres_server):
    # As autovacuum's: a session of no role, or of a superuser.
    admin.execute("drop role if exists ordinary_tester")
    admin.execute("create role ordinary_tester login createdb password 'x'")
    dsn = make_conninfo(postgres_server.dsn, user="ordinary_tester", password="x")

    with Databases(dsn) as databases:
        with databases.fresh() as url:
            name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
            theirs = psycopg.connect(make_conninfo(postgres_server.dsn, dbname=name), autocommit=True)

            def leave():
                with closing(theirs):
                    wait_until(lambda: dropping(admin, name))

            leaving = threading.Thread(target=leave)
            leaving.start()
        leaving.join()

    # Refused while the role owns anything.
    admin.execute("drop role ordinary_tester")


def dropping(admin, name):
    return admin.execute(
        "select 1 from pg_stat_activity where query like 'drop database%%' and query like '%%' || %s || '%%'"
        " and query not like '%%(force)' and pid <> pg_backend_pid()",
        [name],
    ).fetchone()
