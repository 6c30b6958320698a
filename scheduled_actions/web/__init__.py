"""Web: the cron endpoint, health checks, metrics, the management API and the dashboard."""
