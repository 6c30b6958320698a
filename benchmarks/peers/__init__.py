"""Comparison with other queues on no-op jobs: `python -m benchmarks.peers`."""
