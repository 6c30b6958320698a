"""The same no-op work through other queues on Postgres, beside ours: `python -m benchmarks.peers`."""
