"""The report of the benchmarks: it shows all measurements, marks missing ones, and is self-contained."""

from __future__ import annotations

import json
import re
import shutil
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest

from benchmarks.comparison import Comparison, Point, Target
from benchmarks.output import write
from benchmarks.peers import installing
from benchmarks.peers.__main__ import absolute, prepare
from benchmarks.peers.contenders import PEERS
from benchmarks.peers.serve import MARK_EVERY, Marks
from benchmarks.report.__main__ import main
from benchmarks.report.documents import PAGE, README, replace_table, write_pages
from benchmarks.report.plots import Line, bars_plot, distribution_plot, lines_plot


def a_run(path: Path, **changes: object) -> Path:
    line = Comparison(
        name="drain", baseline_name="same <SQL>", unit="actions/s", measured=[5_000.0, 6_000.0, 9_000.0],
        baseline=[10_000.0, 10_000.0, 10_000.0], target=Target("ratio", "at least", 0.7),
    )  # fmt: skip
    point = Point(
        plot="Throughput against batch size", x_name="batch_size", y_name="actions/s", line="1 worker", x=100,
        values=[5_000.0, 6_000.0],
    )  # fmt: skip
    points = changes.pop("points", [point])
    write(path, {"PostgreSQL": "18.4"}, [line], {}, is_smoke=False, seconds=3, points=points)
    if changes:
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return path


def test_a_report_shows_the_settings_the_plots_and_each_line_with_its_spread(tmp_path, capsys):
    code = main([str(a_run(tmp_path / "run.json"))])

    page = capsys.readouterr().out
    assert code == 0
    assert "PostgreSQL</dt><dd>18.4" in page
    assert "<polyline" in page
    assert "0.50 to 0.90" in page
    assert "same &lt;SQL&gt;" in page


def test_a_report_is_self_contained(tmp_path, capsys):
    main([str(a_run(tmp_path / "run.json", lateness={"linger": [1.0, 2.0]}))])

    page = capsys.readouterr().out
    assert not re.search(r"https?://|<script|<link|@import|url\(", page)


def test_plots_that_were_not_measured_are_marked_as_missing(tmp_path, capsys):
    main([str(a_run(tmp_path / "run.json", points=[]))])

    page = capsys.readouterr().out
    missing = re.findall(r"<h2>([^<]+)</h2><p class=\"missing\">", page)
    assert {"Throughput against batch size", "Lateness: start minus scheduled_at"} <= set(missing)


@pytest.mark.parametrize("given", [[float(one) for one in range(1, 101)], {"linger": list(range(1, 101))}])
def test_lateness_from_a_file_is_drawn_with_its_percentiles(tmp_path, capsys, given):
    file = tmp_path / "lateness.json"
    file.write_text(json.dumps(given))

    main([str(a_run(tmp_path / "run.json")), "--lateness", str(file)])

    page = capsys.readouterr().out
    assert '<td class="n">100</td><td class="n">50.5</td>' in page


@pytest.mark.parametrize("content", ["[1, 2]", "{}", "no JSON"])
def test_a_file_that_no_benchmark_wrote_is_wrong_usage(tmp_path, capsys, content):
    file = tmp_path / "run.json"
    file.write_text(content)

    with pytest.raises(SystemExit) as left:
        main([str(file)])

    assert left.value.code == 2


def test_lateness_that_is_not_a_list_of_numbers_is_wrong_usage(tmp_path):
    file = tmp_path / "lateness.json"
    file.write_text('{"linger": ["late"]}')

    with pytest.raises(SystemExit) as left:
        main([str(a_run(tmp_path / "run.json")), "--lateness", str(file)])

    assert left.value.code == 2


def test_all_points_are_inside_the_plot():
    plot = lines_plot(
        [Line("a", [(1, [3.0]), (1_000_000, [5.0, 9.0])]), Line("b", [(10, [0.0])])], x_name="n", y_name="ms"
    )

    places = [float(number) for number in re.findall(r'c[xy]="([0-9.-]+)"', plot)]
    assert len(places) == 6
    assert all(0 <= place <= 640 for place in places)


def test_a_plot_with_one_point_or_equal_values_is_drawn():
    assert "<circle" in lines_plot([Line("a", [(1, [2.0])])], x_name="n", y_name="ms")
    assert "<rect" in bars_plot([("ours", [5.0, 5.0])], unit="jobs/s")
    assert "<polyline" in distribution_plot([("linger", [0.0, 0.0])], x_name="ms")


def a_peers_run():
    def line(name, baseline, measured, other):
        return Comparison(name=name, baseline_name=baseline, unit="jobs/s", measured=measured, baseline=other)

    ours = "ours, HTTP, 2 workers"
    return {
        "setting": {"date": "2026-11-30", "PostgreSQL": "18.4", "celery (celery 5.7.0)": "jobs in Redis"},
        "results": [
            line(ours, "graphile-worker x1", [10.0, 20.0, 20.0], [20.0, 25.0, 20.0]).as_json(),
            line(ours, "graphile-worker x2", [10.0, 20.0, 20.0], [10.0, 20.0, 10.0]).as_json(),
            line(ours, "celery x2", [10.0, 20.0, 20.0], [1.0, 2.0, 1.0]).as_json(),
        ],
    }


def test_the_tables_of_the_docs_are_written_from_the_results(tmp_path):
    page, readme, plot = tmp_path / "page.md", tmp_path / "README.md", tmp_path / "plot.svg"
    shutil.copy(PAGE, page)
    shutil.copy(README, readme)

    write_pages([a_peers_run()], page=page, readme=readme, plot=plot)
    write_pages([json.loads(a_run(tmp_path / "run.json").read_text())], page=page, readme=readme, plot=plot)

    written = page.read_text()
    assert (
        "| Comparison with other queues |  |\n| --- | --- |\n| date | 2026-11-30 |\n| PostgreSQL | 18.4 |\n" in written
    )
    assert "| ours, HTTP, 2 workers | 20 | 10 to 20 |\n| graphile-worker x1 | 20 | 20 to 25 |\n" in written
    assert "| celery x2 | 10.00 (10.00 to 20.00) |\n" in written
    assert "| celery (celery 5.7.0) | jobs in Redis |\n" in written
    assert (
        "| drain | 6,000 actions/s | same <SQL> | 10,000 actions/s | 0.60 (0.50 to 0.90) | ≥ 0.7: missed |" in written
    )
    quoted = readme.read_text().partition("| compared with |")[2].splitlines()[2:5]
    assert quoted == [
        "| graphile-worker, 1 process | 0.80 (0.50 to 1.00) |",
        "| celery, 2 processes | 10.00 (10.00 to 20.00) |",
        "",
    ]
    assert ET.fromstring(plot.read_text()).tag == "{http://www.w3.org/2000/svg}svg"


def test_a_page_without_the_table_is_refused(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("| a | b |\n| --- | --- |\n| 1 | 2 |\n")

    replace_table(page, "| a | b |\n| --- | --- |\n| 3 | 4 |")
    assert page.read_text() == "| a | b |\n| --- | --- |\n| 3 | 4 |\n"
    with pytest.raises(ValueError, match="must contain one table"):
        replace_table(page, "| c | d |\n| --- | --- |")


def test_every_peer_is_pinned_without_a_registry_url():
    pinned = installing.pinned()

    assert {package for peer in PEERS for package in peer.packages} <= pinned.keys()
    assert all(re.fullmatch(r"[0-9][0-9A-Za-z.]*", version) for version in pinned.values())
    here = Path(installing.__file__).parent
    assert "://" not in (here / "requirements.txt").read_text() + (here / "package.json").read_text()


def test_a_peer_that_cannot_be_installed_is_left_out_with_the_reason(monkeypatch):
    def broken(packages, _say):
        raise installing.NotInstalledError(f"{packages[0]} could not be installed")

    monkeypatch.setattr(installing, "python", broken)
    monkeypatch.setattr(installing, "node", broken)
    contenders = {f"{peer.name} x{count}": (peer, count) for peer in PEERS for count in (1, 2)}
    said = []

    with ExitStack() as stack:
        drains, failures, left_out = prepare(stack, SimpleNamespace(say=said.append), (), contenders)

    assert (drains, failures) == ({}, {})
    assert left_out == {peer.name: f"{peer.package} could not be installed" for peer in PEERS}
    assert len(said) == len(PEERS)


def test_the_rates_of_the_peers_are_shown_with_their_spread_fastest_first():
    lines = absolute({"slow x2": [90.0, 100.0, 120.0], "fast x1": [20_000.0, 1_000.0, 30_000.0]}).splitlines()

    assert [line.split() for line in lines[1:]] == [
        ["fast", "x1", "20,000", "1,000", "-", "30,000"],
        ["slow", "x2", "100", "90", "-", "120"],
    ]


def test_handlers_are_counted_and_every_hundredth_is_timed():
    marks = Marks()
    for _ in range(2 * MARK_EVERY + 1):
        marks.note()

    taken = marks.take()

    assert taken["count"] == 2 * MARK_EVERY + 1
    assert len(taken["times"]) == 2
    assert marks.take() == {"count": 0, "times": []}
