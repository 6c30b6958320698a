"""Deadlines: definition, stages, working calendar, operations, reminders, escalation."""
