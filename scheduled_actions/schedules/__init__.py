"""Schedules: definitions of recurring actions, the planning of their occurrences, and operations on schedules."""
