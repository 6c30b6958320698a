"""Measure what an action costs on each path, and compute what a rate of actions needs."""
