"""What the package costs beside the bare SQL that does the same: `python -m benchmarks`."""
