"""Outbound HTTP: a bounded client, the guard of addresses, the reach of a post."""
