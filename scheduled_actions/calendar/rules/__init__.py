"""The order of calendar entries, and the text of iCalendar files."""
