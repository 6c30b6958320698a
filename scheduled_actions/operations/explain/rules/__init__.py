"""Explain why an action has not run: the first reason that applies, in the order in which reasons stop an action.

To add a reason, add its name to `Code`, yield an `Explanation` with that code at the right place in `not_due` or `due`,
and describe the code in `docs/reference/explain.md`.
"""
