"""The order of calendar entries, and iCalendar text."""
