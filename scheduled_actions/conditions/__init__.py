"""Conditions: model and evaluation, facts, named queries, external checks."""
