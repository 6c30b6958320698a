"""The calendar: past and future entries, by page and by day, and iCalendar feeds."""
