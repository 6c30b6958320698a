"""Schedules: made and changed, and operated on as a whole."""
