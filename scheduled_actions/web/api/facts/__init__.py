"""Facts over HTTP."""
