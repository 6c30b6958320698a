"""Actions: validation, scheduling, search, changes, claims, settlement, waits."""
