"""The benchmarks: ratios and targets are computed correctly, and failures are reported."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from benchmarks import plain_sql
from benchmarks.__main__ import main
from benchmarks.comparison import Comparison, Target, table
from benchmarks.databases import URL_VARIABLE
from benchmarks.harness import WrongResultError
from benchmarks.serving import checked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scheduled_actions.database.embedded import LocalPostgres


def a_comparison(**changes: object) -> Comparison:
    usual = {"name": "x", "baseline_name": "y", "unit": "ms", "measured": [1.0], "baseline": [1.0]}
    return Comparison(**{**usual, **changes})


def test_the_ratio_is_the_median_of_the_rounds_and_not_the_ratio_of_the_medians():
    one = a_comparison(measured=[1.0, 4.0, 30.0], baseline=[1.0, 2.0, 1.0])

    assert one.ratios == [1.0, 2.0, 30.0]
    assert one.ratio == 2.0


@pytest.mark.parametrize(
    ("target", "is_met"),
    [
        (None, None),
        (Target("ratio", "at least", 0.5), True),
        (Target("ratio", "at least", 0.51), False),
        (Target("ratio", "at most", 0.5), True),
        (Target("ratio", "at most", 0.49), False),
        (Target("measured", "at most", 10), True),
        (Target("measured", "at most", 9), False),
    ],
)
def test_a_target_is_met_within_its_bound(target, is_met):
    one = a_comparison(measured=[10.0], baseline=[20.0], target=target)

    assert one.is_met is is_met


def test_the_table_shows_value_baseline_ratio_spread_and_target():
    one = a_comparison(
        name="drain", baseline_name="same SQL", unit="actions/s", measured=[5_000.0, 6_000.0, 9_000.0],
        baseline=[10_000.0, 10_000.0, 10_000.0], target=Target("ratio", "at least", 0.7),
    )  # fmt: skip

    line = table([one]).splitlines()[-1]

    cells = [cell.strip() for cell in line.split("  ") if cell.strip()]
    assert cells == [
        "drain", "6,000 actions/s", "same SQL", "10,000 actions/s", "0.60", "0.50 - 0.90", "≥ 0.7", "NO",
    ]  # fmt: skip


def test_a_drain_that_leaves_an_action_claimed_or_failed_is_a_wrong_result(connection):
    plain_sql.fill_due(connection, 3)
    connection.execute("update scheduled_actions set status = 'failed' where payload = '{\"n\": 2}'")

    with pytest.raises(WrongResultError):
        plain_sql.count_completed(connection)


def test_a_tick_with_an_unsuccessful_action_is_a_wrong_result():
    with pytest.raises(WrongResultError):
        checked({"processed": 3, "succeeded": 2, "errors": []})


@pytest.mark.parametrize("drain", [plain_sql.drain, plain_sql.bare_drain])
def test_the_baseline_sql_of_a_drain_completes_every_due_action_once(connection, drain):
    plain_sql.fill_due(connection, 250)

    completed = drain(connection)

    assert completed == plain_sql.count_completed(connection) == 250


def test_one_benchmark_runs_by_its_name_and_writes_the_values_of_its_rounds(
    postgres_server: LocalPostgres, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv(URL_VARIABLE, postgres_server.dsn)
    file = tmp_path / "results" / "run.json"

    code = main(["--smoke", "--only", "schedule-bulk", "--json", str(file)])

    written = json.loads(file.read_text(encoding="utf-8"))
    assert code == 0
    assert written["failures"] == {}
    assert "PostgreSQL" in written["setting"]
    assert all(len(one["measured_rounds"]) == 1 for one in written["results"])


def test_a_failed_benchmark_is_reported_and_sets_the_exit_code(
    powerless_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv(URL_VARIABLE, powerless_url)

    code = main(["--smoke", "--only", "drain"])

    assert code == 1
    assert "FAILED drain: InsufficientPrivilege" in capsys.readouterr().out


def test_an_unknown_name_is_wrong_usage():
    with pytest.raises(SystemExit) as left:
        main(["--only", "everything"])

    assert left.value.code == 2


@pytest.fixture
def powerless_url(postgres_server: LocalPostgres, admin: psycopg.Connection) -> Iterator[str]:
    """Yield the DSN of the server for a role without CREATEDB."""
    role = f"powerless_{uuid4().hex}"
    admin.execute(sql.SQL("create role {} login password 'powerless'").format(sql.Identifier(role)))
    yield make_conninfo(postgres_server.dsn, user=role, password="powerless")
    admin.execute(sql.SQL("drop role {}").format(sql.Identifier(role)))
