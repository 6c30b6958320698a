"""Deadlines over HTTP."""
