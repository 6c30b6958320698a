"""A story from beginning to end on a project of its own: what `scheduled-actions demo` tells, each claim checked."""
