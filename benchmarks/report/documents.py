"""Write measured figures into the pages of the documentation, so that no figure is typed by hand."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.report.plots import bars_plot, number_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "benchmarks.md"
COST_PAGE = ROOT / "docs" / "explanation" / "performance.md"
README = ROOT / "README.md"
PLOT = ROOT / "docs" / "images" / "benchmark-peers.svg"
PEERS_UNIT = "jobs/s"
#: The contender that the README compares, and the peers it names: the fastest of Node, the fastest of Python, and the
#: best-known one. Of several numbers of processes, the fastest counts.
_OURS = "ours, HTTP, 2 workers"
_QUOTED = ("graphile-worker", "pgqueuer", "celery")
#: Facts about a run that the pages show.
_FACTS = ("date", "machine", "PostgreSQL", "server settings", "Python", "psycopg", "scheduled-actions")
#: The plot has its own background, so that it is legible on light and dark pages.
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#59636e} .name{fill:#1f2328} .card{fill:#fff;stroke:#8c959f} "
    ".grid{stroke:#d9dde2} .over{stroke:#1c1e21;stroke-width:2;opacity:.6} .c0{fill:#0b62c4} .c1{fill:#c2570c}"
)


def replace_table(page: Path, table: str) -> None:
    """Replace the table of a page that has the same first cell as `table`.

    Raises:
        ValueError: The page does not contain exactly one table with this cell.
    """
    lines = page.read_text(encoding="utf-8").splitlines()
    cell = f"| {table.split('|')[1].strip()} |"
    found = [number for number, line in enumerate(lines) if line.startswith(cell)]
    if len(found) != 1:
        message = f"{page} must contain one table that begins with {cell!r}"
        raise ValueError(message)
    first = last = found[0]
    while last < len(lines) and lines[last].startswith("|"):
        last += 1
    page.write_text("\n".join([*lines[:first], *table.splitlines(), *lines[last:], ""]), encoding="utf-8")


def write_pages(
    runs: Sequence[Mapping[str, Any]], *, page: Path = PAGE, readme: Path = README, plot: Path = PLOT
) -> None:
    """Write the results of the runs into the page of the benchmarks, and those of the peers also into README and plot.

    Args:
        runs: Results of one or more runs, as written by `--json`; tables of a kind that no run measured are unchanged.
        page: The page of the benchmarks.
        readme: The page with the three quoted ratios.
        plot: The plot of the peers.
    """
    for run in runs:
        peers = [one for one in run["results"] if one["unit"] == PEERS_UNIT]
        if peers:
            rates = rates_of(peers)
            replace_table(page, setting_table("Comparison with other queues", run["setting"]))
            replace_table(page, rates_table(rates))
            replace_table(page, ratios_table(peers))
            replace_table(page, configurations_table(run["setting"]))
            replace_table(readme, quoted_table(rates))
            plot.write_text(peers_plot(rates), encoding="utf-8")
        else:
            replace_table(page, setting_table("Own benchmarks", run["setting"]))
            replace_table(page, results_table(run["results"]))


def rates_of(results: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """Return the rates of each contender, fastest first."""
    rates: dict[str, list[float]] = {}
    for one in results:
        rates.setdefault(one["name"], one["measured_rounds"])
        rates.setdefault(one["baseline"], one["baseline_rounds"])
    return dict(sorted(rates.items(), key=lambda pair: median(pair[1]), reverse=True))


def setting_table(title: str, setting: Mapping[str, Any]) -> str:
    """Return the date, machine and versions of a run."""
    return _table([title, ""], [[name, str(setting[name])] for name in _FACTS if name in setting])


def rates_table(rates: Mapping[str, Sequence[float]]) -> str:
    """Return the absolute rates with their spread."""
    rows = [[name, number_text(median(values)), _spread(values)] for name, values in rates.items()]
    return _table(["queue", "jobs/s", "range of the rounds"], rows, numbers=(1,))


def ratios_table(results: Sequence[Mapping[str, Any]]) -> str:
    """Return the ratios of our configurations to each peer: a column per configuration."""
    ours = list(dict.fromkeys(one["name"] for one in results))
    peers = list(dict.fromkeys(one["baseline"] for one in results if one["baseline"] not in ours))
    ratios = {(one["name"], one["baseline"]): one["ratio"] for one in results}
    rows = [[peer, *(_ratio(ratios[name, peer]) for name in ours)] for peer in peers]
    return _table(["ratio to", *ours], rows, numbers=range(1, len(ours) + 1))


def configurations_table(setting: Mapping[str, Any]) -> str:
    """Return the configuration of each contender, and the peers that were left out."""
    known = {*_FACTS, "load at the beginning"}
    return _table(
        ["contender", "configuration"], [[name, value] for name, value in setting.items() if name not in known]
    )


def results_table(results: Sequence[Mapping[str, Any]]) -> str:
    """Return every line of the own benchmarks."""
    rows = [
        [
            one["name"],
            f"{number_text(median(one['measured_rounds']))} {one['unit']}",
            one["baseline"],
            f"{number_text(median(one['baseline_rounds']))} {one['unit']}",
            _ratio(one["ratio"]),
            _target(one),
        ]
        for one in results
    ]
    return _table(["measured", "value", "baseline", "baseline value", "ratio", "target"], rows, numbers=(1, 3, 4))


def quoted_table(rates: Mapping[str, Sequence[float]]) -> str:
    """Return the ratios that the README quotes."""
    rows = []
    for peer in _QUOTED:
        # Fastest first.
        name = next((name for name in rates if name.rpartition(" x")[0] == peer), None)
        if name is not None:
            ratios = [one / other for one, other in zip(rates[_OURS], rates[name], strict=True)]
            ratio = {"median": median(ratios), "least": min(ratios), "most": max(ratios)}
            count = int(name.rpartition(" x")[2])
            rows.append([f"{peer}, {count} process{'es' if count > 1 else ''}", _ratio(ratio)])
    return _table(["compared with", "ratio (range of the rounds)"], rows)


def peers_plot(rates: Mapping[str, Sequence[float]]) -> str:
    """Return the plot of the rates as a separate SVG document."""
    drawn = bars_plot(list(rates.items()), unit=PEERS_UNIT)
    attributes, _, content = drawn.removeprefix("<svg ").partition(">")
    background = '<rect class="card" width="100%" height="100%"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {attributes}><style>{_STYLE}</style>{background}{content}\n'


def _ratio(ratio: Mapping[str, float]) -> str:
    return f"{ratio['median']:.2f} ({ratio['least']:.2f} to {ratio['most']:.2f})"


def _spread(values: Sequence[float]) -> str:
    return f"{number_text(min(values))} to {number_text(max(values))}"


def _target(one: Mapping[str, Any]) -> str:
    target = one["target"]
    if target is None:
        return ""
    sign = "≥" if target["side"] == "at least" else "≤"
    unit = "" if target["of"] == "ratio" else f" {one['unit']}"
    return f"{sign} {target['bound']:g}{unit}: {'met' if one['met'] else 'missed'}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Sequence[int] = ()) -> str:
    """Return a Markdown table; columns in `numbers` are aligned to the right."""
    rule = ["---:" if column in numbers else "---" for column in range(len(heads))]
    return "\n".join("| " + " | ".join(row) + " |" for row in [heads, rule, *rows])
