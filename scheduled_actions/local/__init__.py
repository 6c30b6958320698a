"""Local: a project on this machine, with its development server, minute cron, template and demo."""
