"""Web: the cron endpoint, health, metrics, the management API, the dashboard."""
