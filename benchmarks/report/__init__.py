"""A page of plots from what the benchmarks wrote: `python -m benchmarks.report RESULTS.json … > report.html`."""
