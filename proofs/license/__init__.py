"""The licence that almost expired, and what would have saved it."""
