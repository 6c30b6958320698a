"""The demo: an end-to-end story in a temporary project, run by `scheduled-actions demo`, with every claim checked."""
