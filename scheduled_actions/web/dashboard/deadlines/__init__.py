"""The dashboard pages for deadlines."""
