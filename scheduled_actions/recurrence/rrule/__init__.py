"""iCalendar recurrence rules."""
