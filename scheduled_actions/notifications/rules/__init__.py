"""Pure rules of notifications: people, channels, quiet hours, urgency, and the content of reminders."""
