"""Handlers of the fault tests; those of the repository are added when a test copies the project."""
