"""Checks that take too long or need too many tools for the test suite; each has a target in the Makefile."""
