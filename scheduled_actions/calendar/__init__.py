"""Calendar: what was and what is to come, by day, and iCalendar feeds."""
