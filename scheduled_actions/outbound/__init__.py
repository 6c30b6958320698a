"""Outbound HTTP: a bounded client, and the addresses that a request may reach."""
