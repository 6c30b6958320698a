"""Intervals: `every 30 minutes`, `daily at 09:00`, `P1M`."""
