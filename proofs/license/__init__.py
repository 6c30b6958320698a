"""A license renewal with reminders, escalation and completion, on a simulated clock."""
