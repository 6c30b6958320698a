"""Actions over HTTP."""
