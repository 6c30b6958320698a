"""The schema: numbered migrations (tables, constraints, indexes, triggers, views) and a file for each SQL function."""
