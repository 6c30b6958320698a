"""The benchmark of the cost per action: it counts statements correctly, and a comparison marks growth."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import psycopg
import pytest

from benchmarks.cost.__main__ import main, write_page
from benchmarks.cost.lifecycle import LIFE, MANY, ONE, PARTS, PRUNE, TICKS
from benchmarks.cost.meter import RUN, Meter, check_steps
from benchmarks.cost.report import Costs, Growth, compare, features_table, growth, steps_table, table
from benchmarks.databases import URL_VARIABLE, connected
from benchmarks.harness import WrongResultError
from benchmarks.report.documents import COST_PAGE

if TYPE_CHECKING:
    from pathlib import Path

    from scheduled_actions.database.embedded import LocalPostgres


def costs_of(*rounds: dict[str, float], step: str = PRUNE) -> Costs:
    costs = Costs()
    for one in rounds:
        costs.add("plain action", "action", {step: one})
    return costs


def test_statements_and_transaction_control_and_round_trips_are_counted_apart(database_url):
    with Meter(database_url, attributes_wal=False) as meter, connected(database_url) as connection:
        with meter.step() as cost, connection.transaction():
            connection.execute("select 1")
            with connection.transaction():
                connection.execute("select 2; select 3")
        connection.execute("select 'not measured'")

    assert (cost.statements, cost.control, cost.round_trips) == (3, 4, 6)


def test_a_statement_that_the_server_refuses_is_counted_and_the_next_one_too(database_url):
    with (
        Meter(database_url, attributes_wal=True) as meter,
        connected(database_url) as connection,
        meter.step() as cost,
    ):
        with pytest.raises(psycopg.errors.DivisionByZero), connection.transaction():
            connection.execute("select 1 / 0")
        connection.execute("select 1")

    assert (cost.statements, cost.control) == (2, 2)


def test_cpu_time_and_wal_bytes_are_those_of_the_measured_work(database_url):
    insert = "insert into scheduled_actions (action_type, scheduled_at) select 'a:b', now() from generate_series(1, %s)"
    with Meter(database_url, attributes_wal=False) as meter, connected(database_url) as connection:
        connection.execute(insert, [5_000])
        with meter.step() as few:
            connection.execute(insert, [10])
        with meter.step() as many:
            connection.execute(insert, [5_000])

    assert few.wal > 10 * 100
    assert many.wal > 5_000 * 100
    assert few.process > 0
    assert many.postgres > few.postgres > 0


def test_statements_of_a_tick_are_divided_by_what_they_do_and_by_their_thread(database_url):
    with (
        Meter(database_url, attributes_wal=True) as meter,
        connected(database_url) as connection,
        meter.ticks() as (steps, total),
    ):
        connection.execute("select 1")

    with pytest.raises(WrongResultError, match="claim"):
        check_steps(steps)
    assert total.statements == 1
    assert steps[RUN].statements == 0


@pytest.mark.parametrize(
    ("metric", "before", "after", "found"),
    [
        ("cpu", [100, 110], [103, 110], None),
        ("cpu", [100, 100], [105, 104], (0.045, True)),
        ("cpu", [100, 110, 120], [101, 120, 130], (120 / 110 - 1, False)),
        ("wal", [1000, 1001], [1004, 1003], None),
        ("wal", [1000, 1010], [1030, 1040], (1035 / 1005 - 1, True)),
        ("wal", [1000, 1010], [1015, 1030], (1022.5 / 1005 - 1, False)),
        ("wal", [1000, 1030], [1020, 1040], (1030 / 1015 - 1, False)),
        ("statements", [0.01, 0.01], [0.01, 0.01], None),
        ("statements", [0.01, 0.01], [0.02, 0.02], (1.0, True)),
        ("statements", [0.01], [0.02], (1.0, False)),
        ("statements", [0.02, 0.02], [0.01, 0.01], None),
        ("control", [0, 0], [1, 1], (float("inf"), True)),
        ("wal", [], [1000], None),
    ],
)
def test_growth_beyond_the_tolerance_is_certain_only_beyond_the_spread_of_the_rounds(metric, before, after, found):
    expected = found and Growth(metric, pytest.approx(found[0]), is_certain=found[1])

    assert growth(metric, before, after) == expected


def test_a_comparison_lists_growth_and_leaves_parts_out_of_its_summary():
    before, after = ({"process": 10, "postgres": 20, "statements": 1}, {"process": 10, "postgres": 20, "statements": 2})
    old, new = costs_of(before, before), costs_of(after, after)
    old.merge(costs_of(before, before, step=RUN))
    new.merge(costs_of(after, after, step=RUN))

    text = compare(old, new, parts=PARTS)

    assert text.count("1 → 2") == 2
    assert "statements equal or fewer: NO: plain action, prune +100.0 %" in text
    assert f"plain action, {RUN}" not in text
    assert "CPU within 3 %: yes" in text


def test_rounds_of_several_files_are_combined(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    files = [tmp_path / "one.json", tmp_path / "two.json"]
    for file, wal in zip(files, (100, 300), strict=True):
        file.write_text(json.dumps({"costs": costs_of({"wal": wal}).as_json()}), encoding="utf-8")

    code = main(["--measured", *map(str, files), "--compare", str(files[0])])

    printed = capsys.readouterr().out
    assert code == 0
    assert "200 (100 - 300)" in printed
    assert "2.000" in printed


def test_metrics_that_were_not_measured_are_shown_as_not_available():
    assert "n/a" in table(costs_of({"statements": 1.0}))


def test_a_feature_is_measured_on_each_step_from_schedule_to_prune(
    postgres_server: LocalPostgres, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv(URL_VARIABLE, postgres_server.dsn)
    file = tmp_path / "cost.json"

    code = main(["--smoke", "--only", "plain", "--json", str(file)])

    steps = json.loads(file.read_text(encoding="utf-8"))["costs"]["plain action"]["steps"]
    assert code == 0
    assert list(steps) == [ONE, MANY, *PARTS, TICKS, PRUNE, LIFE]
    ticks = sum(steps[part]["statements"][0] for part in PARTS)
    assert steps[TICKS]["statements"] == [pytest.approx(ticks)]
    assert steps[LIFE]["process"][0] > 0


def test_the_tables_of_the_docs_show_medians_and_what_a_feature_adds_to_as_many_plain_actions():
    costs = Costs()
    counts = {"statements": 1.0, "control": 0.5, "round_trips": 2.0}
    for cpu in (10.0, 12.0, 30.0):
        costs.add("plain action", "action", {LIFE: {"process": cpu, "postgres": 20.0, "wal": 1_000.0, **counts}})
        costs.add("after", "pair", {LIFE: {"process": 100.0, "postgres": cpu, "wal": 2_500.0, **counts}})

    steps = steps_table(costs, "plain action").splitlines()
    features = features_table(
        costs, plain="plain action", life=LIFE, actions={"plain action": 1, "after": 2}
    ).splitlines()

    assert steps[2:] == ["| life | 12 | 20 | 1,000 | 1.5 | 2 |"]
    assert features[2:] == [
        "| plain action (action) | 32 | 1,000 | 1.5 |  |  |  |",
        "| after (pair, 2 actions) | 112 | 2,500 | 1.5 | +48 | +500 | -1.5 |",
    ]


def test_the_page_of_the_costs_is_written_from_results(tmp_path):
    costs = Costs()
    costs.add("plain action", "action", {LIFE: {"process": 1.0, "postgres": 2.0, "wal": 3.0}})
    page = tmp_path / "page.md"
    page.write_text(COST_PAGE.read_text())

    write_page(costs, {"date": "2026-11-30"}, page)

    written = page.read_text()
    assert "| Measured |  |\n| --- | --- |\n| date | 2026-11-30 |\n\n" in written
    assert "| life | 1 | 2 | 3 |  |  |\n\n" in written
    assert "| plain action (action) | 3 | 3 |  |  |  |  |\n\n" in written
