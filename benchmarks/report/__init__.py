"""Report of benchmark results, as one HTML page or in the docs: `python -m benchmarks.report RESULTS.json …`."""
