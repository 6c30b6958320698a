"""The import of the ready-made application, beside that of the libraries it stands on."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from benchmarks.children import answer_of
from benchmarks.comparison import Comparison, Wanted
from benchmarks.serving import environment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.harness import Bench

_WAYS = ("import_app", "import_libraries", "import_names")


def run(bench: Bench) -> list[Comparison]:
    """Return the import, each time in a new process; no database is needed for it."""
    environ = environment(bench.project, "")
    for way in _WAYS:
        _milliseconds(environ, way)  # Byte code is written now, and files are in memory.
    took = bench.take_turns({way: partial(_milliseconds, environ, way) for way in _WAYS}, rounds=bench.scale.starts)
    return [
        Comparison(
            name="import of the WSGI app",
            beside_name=beside_name,
            unit="ms",
            measured=took["import_app"],
            beside=took[beside],
            wanted=Wanted("ratio", "at most", 1.3),
        )
        for beside_name, beside in (
            ("flask, psycopg, pydantic", "import_libraries"),
            ("the same, parts not yet loaded", "import_names"),
        )
    ]


def _milliseconds(environ: Mapping[str, str], way: str) -> float:
    return float(answer_of(environ, way)["seconds"]) * 1000
