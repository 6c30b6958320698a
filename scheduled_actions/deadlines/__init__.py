"""Deadlines: made, kept, moved and ended; each reminder is looked at once more when it would go out."""
