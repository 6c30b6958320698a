"""Skips: weekends, holidays, dates and maintenance windows in which nothing occurs; occurrences there may be moved."""
