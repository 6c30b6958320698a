"""Local: development server, minute cron, project template, demo."""
