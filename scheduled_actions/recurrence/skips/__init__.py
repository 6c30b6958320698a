"""Skips: weekends, holidays, dates and maintenance windows whose occurrences are dropped or moved."""
