"""Build the HTML page of the report: settings, plots, and tables with the spread of each value."""

from __future__ import annotations

from html import escape
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

from benchmarks.report.documents import PEERS_UNIT
from benchmarks.report.plots import Line, bars_plot, distribution_plot, lines_plot, number_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Plots that are always on the page, even if they were not measured.
_EXPECTED = (
    "Throughput against batch size",
    "Throughput against processes",
    "Claim of a hundred against backlog",
)
_LATENESS = "Lateness: start minus scheduled_at"

_STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --soft: #5f6670; --rule: #d9dde2; --paper: #fff;
  --c0: #0b62c4; --c1: #c2570c; --c2: #2a7d3f; --c3: #8a3fa0; --c4: #b3261e; --c5: #5f6670; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --soft: #a3abb5; --rule: #3a4048; --paper: #16181b;
  --c0: #6fb1ff; --c1: #ffa45c; --c2: #7fd494; --c3: #d79cf0; --c4: #ff8f87; --c5: #a3abb5; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 76rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
figure { margin: 0; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(30rem, 1fr)); gap: 1.5rem; }
@media (max-width: 34rem) { .plots { grid-template-columns: 1fr; } }
svg { width: 100%; height: auto; } svg text { font: 12px system-ui, sans-serif; fill: var(--soft); }
svg .name { fill: var(--ink); } .grid { stroke: var(--rule); } .line { fill: none; stroke-width: 2; }
.whisker { stroke-width: 2; opacity: .55; } .over { stroke: var(--ink); stroke-width: 2; opacity: .6; }
.legend { list-style: none; padding: 0; margin: .2rem 0; display: flex; flex-wrap: wrap; gap: .2rem 1rem;
  font-size: 13px; }
.c0 { stroke: var(--c0); fill: var(--c0); color: var(--c0); }
.c1 { stroke: var(--c1); fill: var(--c1); color: var(--c1); }
.c2 { stroke: var(--c2); fill: var(--c2); color: var(--c2); }
.c3 { stroke: var(--c3); fill: var(--c3); color: var(--c3); }
.c4 { stroke: var(--c4); fill: var(--c4); color: var(--c4); }
.c5 { stroke: var(--c5); fill: var(--c5); color: var(--c5); }
svg g text, svg polyline.line { stroke-linejoin: round; } svg g text { stroke: none; } polyline.line { fill: none; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .25rem .7rem .25rem 0; border-bottom: 1px solid var(--rule); }
td.n, th.n { text-align: right; } .missing { color: var(--soft); font-style: italic; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; font-size: 13px; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
"""


def page(runs: Sequence[Mapping[str, Any]], lateness: Mapping[str, Sequence[float]]) -> str:
    """Return the report as one self-contained HTML document.

    Args:
        runs: Results of one or more runs, as written by `--json`.
        lateness: Milliseconds by mechanism (`linger`, `listen`, `wake`).
    """
    figures = [*_expected_figures(runs), _lateness_figure(lateness), *_peer_figures(runs)]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Scheduled Actions: benchmarks</title><style>{_STYLE}</style></head><body>"
        "<h1>Scheduled Actions: benchmarks</h1>"
        "<p>Compare ratios rather than absolute values: both values of a ratio were measured in the same interleaved "
        "rounds. Dots and bars are medians of the rounds; whiskers show the minimum and maximum.</p>"
        f'<div class="plots">{"".join(figures)}</div>'
        f"{''.join(_run(number, run) for number, run in enumerate(runs, start=1))}</body></html>\n"
    )


def _expected_figures(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    points = [point for run in runs for point in run.get("points", [])]
    names = [*_EXPECTED, *sorted({point["plot"] for point in points} - set(_EXPECTED))]
    return [_lines_figure(name, [point for point in points if point["plot"] == name]) for name in names]


def _lines_figure(name: str, points: Sequence[Mapping[str, Any]]) -> str:
    if not points:
        return _figure(name, None)
    lines: dict[str, list[tuple[float, Sequence[float]]]] = {}
    for point in points:
        lines.setdefault(point["line"], []).append((point["x"], point["values"]))
    drawn = [Line(line, places) for line, places in lines.items()]
    return _figure(name, lines_plot(drawn, x_name=points[0]["x_name"], y_name=points[0]["y_name"]))


def _lateness_figure(lateness: Mapping[str, Sequence[float]]) -> str:
    measured = [(name, values) for name, values in lateness.items() if values]
    if not measured:
        return _figure(_LATENESS, None)
    rows = "".join(
        f'<tr><td>{escape(name)}</td><td class="n">{len(values):,}</td>'
        + "".join(f'<td class="n">{number_text(value)}</td>' for value in _percentiles(values))
        + "</tr>"
        for name, values in measured
    )
    head = '<tr><th></th><th class="n">actions</th><th class="n">p50 ms</th><th class="n">p90</th>'
    head += '<th class="n">p99</th><th class="n">max</th></tr>'
    plot = distribution_plot(measured, x_name="lateness in ms")
    return _figure(_LATENESS, f'{plot}<div class="scroll"><table>{head}{rows}</table></div>')


def _percentiles(values: Sequence[float]) -> tuple[float, float, float, float]:
    if len(values) == 1:
        return values[0], values[0], values[0], values[0]
    cuts = quantiles(values, n=100, method="inclusive")
    return median(values), cuts[89], cuts[98], max(values)


def _peer_figures(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    bars: dict[str, Sequence[float]] = {}
    for run in runs:
        for one in run["results"]:
            if one["unit"] == PEERS_UNIT:
                bars.setdefault(one["name"], one["measured_rounds"])
                bars.setdefault(one["baseline"], one["baseline_rounds"])
    name = "No-op jobs through each queue, same server, same run"
    if not bars:
        return [_figure(name, None)]
    ordered = sorted(bars.items(), key=lambda bar: median(bar[1]), reverse=True)
    return [_figure(name, bars_plot(ordered, unit=PEERS_UNIT))]


def _figure(name: str, content: str | None) -> str:
    body = content or '<p class="missing">Not measured in these runs.</p>'
    return f"<figure><h2>{escape(name)}</h2>{body}</figure>"


def _run(number: int, run: Mapping[str, Any]) -> str:
    setting = "".join(f"<dt>{escape(name)}</dt><dd>{escape(str(value))}</dd>" for name, value in run["setting"].items())
    head = "<tr><th>measured</th><th></th><th>baseline</th><th></th>"
    head += '<th class="n">ratio</th><th>min to max</th><th>target</th><th>met</th></tr>'
    rows = "".join(_row(one) for one in run["results"])
    broken = "".join(f"<p>Failed: {escape(name)}: {escape(why)}</p>" for name, why in run["failures"].items())
    small = "<p>Smoke run: one round with small numbers. Do not compare its values.</p>" if run["smoke"] else ""
    return (
        f"<h2>Run {number}, {run['seconds']:.0f} seconds</h2>{small}{broken}<dl>{setting}</dl>"
        f'<div class="scroll"><table>{head}{rows}</table></div>'
    )


def _row(one: Mapping[str, Any]) -> str:
    ratio, target = one["ratio"], one["target"]
    bound = "" if target is None else f"{target['of']} {target['side']} {target['bound']:g}"
    met = {None: "", True: "yes", False: "no"}[one["met"]]
    measured, baseline = (
        f"{number_text(median(one[name]))} {one['unit']}" for name in ("measured_rounds", "baseline_rounds")
    )
    return (
        f'<tr><td>{escape(one["name"])}</td><td class="n">{escape(measured)}</td><td>{escape(one["baseline"])}</td>'
        f'<td class="n">{escape(baseline)}</td><td class="n">{ratio["median"]:.2f}</td>'
        f"<td>{ratio['least']:.2f} to {ratio['most']:.2f}</td><td>{bound}</td><td>{met}</td></tr>"
    )
