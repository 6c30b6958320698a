"""Recurrence: rules for when something occurs, as values; nothing here knows the present moment.

A rule is a text: an interval, a cron expression, an RRULE, a business day, or a function of the project.
`compile_recurrence` makes it a `Recurrence` in a time zone, which answers what comes next.
"""

from __future__ import annotations

from scheduled_actions.recurrence.compiling import Recurrence, compile_recurrence
from scheduled_actions.recurrence.custom import Functions
from scheduled_actions.recurrence.jitter import jittered
from scheduled_actions.recurrence.model import Kind, Occurrence
from scheduled_actions.recurrence.skips import Skips

__all__ = ["Functions", "Kind", "Occurrence", "Recurrence", "Skips", "compile_recurrence", "jittered"]
