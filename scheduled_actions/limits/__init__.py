"""Limits per key, rates, and pauses: which due actions have to wait although a handler could run."""
