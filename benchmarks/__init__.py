"""Benchmarks of the package, compared with plain SQL that does the same work: `python -m benchmarks`."""
