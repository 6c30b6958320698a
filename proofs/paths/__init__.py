"""Trace the modules that `schedule_action()` and a ping run through."""
