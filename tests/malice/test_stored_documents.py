"""Hostile values in every column of every table, put in by plain SQL: ticks answer, good actions run, pages open."""

from __future__ import annotations

import random

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.malice import stored
from tests.malice.conftest import IS_WHOLE
from tests.malice.measuring import GROWTH_BYTES_MOST, BadRequestAnswer, Lateness, resident_bytes, run_round
from tests.malice.world import Reader, seed, world

#: Hostile values among the good actions of one round.
_EACH_ROUND = 25
#: Rounds of the short form, which takes less than a minute.
_ROUNDS = 15
_SEED = 20261122


@pytest.fixture
def seeded(database_url, admin):
    """Return a function that makes a copy of a database with one of everything."""
    name = conninfo_to_dict(database_url)["dbname"]
    with world(database_url) as made:
        seed(made)
    copies = []

    def copy():
        one = f"{name}_{len(copies)}"
        admin.execute(sql.SQL("create database {} template {}").format(*map(sql.Identifier, (one, name))))
        copies.append(one)
        return make_conninfo(database_url, dbname=one)

    yield copy
    for one in copies:
        admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(one)))


def play(url: str, mutations: list[stored.Mutation]) -> tuple[list[float], int]:
    """Play one round; return how late good actions were, and how many values the tables took."""
    with world(url) as made:
        made.connection.execute("set session_replication_role = replica")
        taken = sum(stored.apply(made.connection, one) for one in mutations)
        made.connection.execute("reset session_replication_role")
        lateness = run_round(made.connection, made.requests)
        Reader(made).open_all()
        # What became due meanwhile, and what the first ticks left behind.
        lateness += run_round(made.connection, made.requests)
        return lateness, taken


def culprits(copy, mutations: list[stored.Mutation]) -> list[str]:
    """Return which of a round's values break a round alone."""
    found = []
    for one in mutations:
        try:
            play(copy(), [one])
        except (BadRequestAnswer, AssertionError, psycopg.Error) as error:
            found.append(f"{one}: {error}")
            print(found[-1], flush=True)
    return found


def test_no_stored_value_stops_a_tick_a_good_action_or_a_page(seeded):
    with psycopg.connect(seeded(), autocommit=True) as connection:
        everything = stored.mutations(connection)
    random.Random(_SEED).shuffle(everything)
    rounds = [everything[start : start + _EACH_ROUND] for start in range(0, len(everything), _EACH_ROUND)]
    lateness, taken, before, broken = Lateness(), 0, None, []
    for mutations in rounds if IS_WHOLE else rounds[:_ROUNDS]:
        try:
            alone, _ = play(seeded(), [])
        except BadRequestAnswer as error:
            broken.append(f"without any of them: {error}")
            break
        try:
            late, count = play(seeded(), mutations)
        except BadRequestAnswer as error:
            broken += culprits(seeded, mutations) or [f"together: {error}"]
            continue
        lateness.alone += alone
        lateness.among_bad += late
        taken += count
        before = before or resident_bytes()
    print(f"{len(everything):,} hostile values, {taken:,} of those tried taken by the tables")
    assert not broken, "\n".join(broken)
    assert taken > _EACH_ROUND
    assert resident_bytes() - before < GROWTH_BYTES_MOST
    lateness.check()
