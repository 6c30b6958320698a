"""Conditions: data that says when an action may run, read with clear errors and judged without touching the world."""
