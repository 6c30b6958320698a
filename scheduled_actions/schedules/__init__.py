"""Schedules: recurring definitions, planning of occurrences, operations."""
