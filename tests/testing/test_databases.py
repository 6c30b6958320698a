"""Databases of the test kit, on a server whose role has only `createdb`."""

from __future__ import annotations

import threading
from contextlib import closing

import psycopg
from psycopg.conninfo import make_conninfo

from scheduled_actions.testing.databases import Databases
from tests.factories import wait_until


def test_a_database_is_dropped_after_a_session_of_another_role_has_ended(admin, postgres_server):
    # A session of another role, such as autovacuum or a superuser.
    admin.execute("drop role if exists ordinary_tester")
    admin.execute("create role ordinary_tester login createdb password 'x'")
    dsn = make_conninfo(postgres_server.dsn, user="ordinary_tester", password="x")

    with Databases(dsn) as databases:
        with databases.fresh() as url:
            name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
            session = psycopg.connect(make_conninfo(postgres_server.dsn, dbname=name), autocommit=True)

            def end_session():
                with closing(session):
                    wait_until(lambda: dropping(admin, name))

            ending = threading.Thread(target=end_session)
            ending.start()
        ending.join()

    # Postgres rejects this while the role owns an object.
    admin.execute("drop role ordinary_tester")


def dropping(admin, name):
    return admin.execute(
        "select 1 from pg_stat_activity where query like 'drop database%%' and query like '%%' || %s || '%%'"
        " and query not like '%%(force)' and pid <> pg_backend_pid()",
        [name],
    ).fetchone()
