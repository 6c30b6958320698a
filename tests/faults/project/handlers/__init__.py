"""Handlers of the proofs; the repository's own join them when a proof copies the project."""
