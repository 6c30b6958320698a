"""Pure rules of deadlines: arguments, offsets, calendars, planning, and validation of stored rows."""
