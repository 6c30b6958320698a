"""Actions: validated, scheduled, read, changed, claimed and settled."""
