"""The project on this machine: its server, its minute cron, its secrets."""
