"""The calendar and its feeds."""
