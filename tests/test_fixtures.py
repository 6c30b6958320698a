"""Fixtures that all tests use: loopback only, and a new database for each test."""

from __future__ import annotations

import socket

import pytest


def test_no_test_connects_beyond_this_machine():
    with socket.socket() as outward, pytest.raises(RuntimeError, match=r"192\.0\.2\.1.*only loopback"):
        outward.connect(("192.0.2.1", 80))


def test_no_test_resolves_a_name():
    with pytest.raises(RuntimeError, match=r"example\.com.*only loopback"):
        socket.getaddrinfo("example.com", 80)


def test_loopback_is_open_to_tests():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        socket.create_connection(("localhost", listening.getsockname()[1])).close()


@pytest.mark.parametrize("_", range(2))
def test_each_test_has_a_migrated_database_of_its_own(connection, _):
    connection.execute("create table left_behind ()")

    assert connection.execute("select count(*) from scheduled_actions").fetchone() == (0,)
