"""Core: errors, settings, argument checks, JSON text and small values; no feature."""
