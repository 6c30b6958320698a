"""A licence renewal with reminders, escalation and completion, on a simulated clock."""
