"""Outbound HTTP: a bounded client, the guard of addresses, throttling per endpoint."""
