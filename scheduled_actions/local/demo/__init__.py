"""The demo: an end-to-end example in a temporary project, run by `scheduled-actions demo`, with every claim checked."""
