"""Comparison with other Postgres queues on no-op jobs: `python -m benchmarks.peers`."""
