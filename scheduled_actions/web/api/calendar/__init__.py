"""The calendar and its feeds over HTTP."""
