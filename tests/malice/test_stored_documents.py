"""Hostile values in every column of every table, stored by plain SQL: ticks answer, good actions run, pages open."""

from __future__ import annotations

import json
import random
import re
from functools import partial

import psycopg
import pytest
from hypothesis import Phase, given, settings, strategies as st
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.malice import stored
from tests.malice.conftest import IS_WHOLE
from tests.malice.measuring import GROWTH_BYTES_MOST, BadRequestAnswer, Lateness, resident_bytes, run_round
from tests.malice.sample_project import Reader, sample_project, seed

#: Number of hostile values among the good actions of one round.
_EACH_ROUND = 25
#: Number of rounds in a short run, which takes less than a minute.
_ROUNDS = 15
_SEED = 20261122


@pytest.fixture
def seeded(database_url, admin):
    """Return a function that copies a database with one row of every kind."""
    name = conninfo_to_dict(database_url)["dbname"]
    with sample_project(database_url) as made:
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
    """Run one round; return the lateness of the good actions, and the number of values that the tables accepted."""
    with sample_project(url) as made:
        made.connection.execute("set session_replication_role = replica")
        taken = sum(stored.apply(made.connection, one) for one in mutations)
        made.connection.execute("reset session_replication_role")
        lateness = run_round(made.connection, made.requests)
        if mutations:
            Reader(made).open_all()
        # Run the actions that have become due, and those that the first ticks left.
        lateness += run_round(made.connection, made.requests)
        return lateness, taken


def culprits(copy, mutations: list[stored.Mutation]) -> list[str]:
    """Return the values of a round that break a round alone."""
    found = []
    for one in mutations:
        try:
            play(copy(), [one])
        except (BadRequestAnswer, AssertionError, psycopg.Error) as error:
            found.append(f"{one}: {error}")
            print(found[-1], flush=True)
    return found


_TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
#: Documents of any shape, with field names and words of the package's documents.
_WORDS = st.sampled_from(sorted(re.findall(r"[a-z_]{3,}", " ".join(stored.DOCUMENTS)))) | _TEXTS
_GENERATED = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _WORDS,
    lambda parts: st.lists(parts, max_size=4) | st.dictionaries(_WORDS, parts, max_size=4),
    max_leaves=12,
)


def test_no_generated_document_stops_a_tick_a_good_action_or_a_page(seeded):
    with psycopg.connect(seeded(), autocommit=True) as connection:
        columns = sorted({one[:3] for one in stored.mutations(connection) if one.type in {"jsonb", "text"}})

    @settings(max_examples=200 if IS_WHOLE else 6, phases=[Phase.generate])
    @given(st.lists(st.tuples(st.sampled_from(columns), _GENERATED, _TEXTS), min_size=20, max_size=30))
    def rounds(drawn):
        play(
            seeded(),
            [stored.Mutation(*column, json.dumps(document) if column[2] == "jsonb" else text)
             for column, document, text in drawn],
        )  # fmt: skip

    rounds()


def test_no_stored_value_stops_a_tick_a_good_action_or_a_page(seeded):
    with psycopg.connect(seeded(), autocommit=True) as connection:
        everything = stored.mutations(connection)
    random.Random(_SEED).shuffle(everything)
    rounds = [everything[start : start + _EACH_ROUND] for start in range(0, len(everything), _EACH_ROUND)]
    lateness, taken, before, broken = Lateness(), [], None, []

    def among(mutations: list[stored.Mutation]) -> list[float]:
        late, count = play(seeded(), mutations)
        taken.append(count)
        return late

    for mutations in rounds if IS_WHOLE else rounds[:_ROUNDS]:
        try:
            lateness.compare(partial(among, []), partial(among, mutations))
        except BadRequestAnswer as error:
            broken += culprits(seeded, mutations) or [f"together: {error}"]
        before = before or resident_bytes()
    print(f"{len(everything):,} hostile values, {sum(taken):,} of those tried accepted by the tables")
    assert not broken, "\n".join(broken)
    assert sum(taken) > _EACH_ROUND
    assert resident_bytes() - before < GROWTH_BYTES_MOST
    lateness.check()
