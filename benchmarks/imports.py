"""Import of the WSGI application, compared with the import of its libraries."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from benchmarks.children import answer_of
from benchmarks.comparison import Comparison, Target
from benchmarks.serving import environment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.harness import Bench

_WAYS = ("import_app", "import_libraries", "import_names")


def run(bench: Bench) -> list[Comparison]:
    """Measure the imports, each in a new process, without a database."""
    environ = environment(bench.project, "")
    for way in _WAYS:
        _milliseconds(environ, way)  # Writes byte code and fills the file cache.
    took = bench.take_turns({way: partial(_milliseconds, environ, way) for way in _WAYS}, rounds=bench.scale.starts)
    return [
        Comparison(
            name="import of the WSGI app",
            baseline_name=baseline_name,
            unit="ms",
            measured=took["import_app"],
            baseline=took[baseline],
            target=Target("ratio", "at most", 1.3),
        )
        for baseline_name, baseline in (
            ("flask, psycopg, pydantic", "import_libraries"),
            ("the same, parts not yet loaded", "import_names"),
        )
    ]


def _milliseconds(environ: Mapping[str, str], way: str) -> float:
    return float(answer_of(environ, way)["seconds"]) * 1000
