"""Report of benchmark results as one HTML page: `python -m benchmarks.report RESULTS.json … > report.html`."""
