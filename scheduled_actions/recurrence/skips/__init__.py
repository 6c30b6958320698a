"""What is left out of a recurrence, or moved: weekends, holidays, dates, maintenance windows."""
