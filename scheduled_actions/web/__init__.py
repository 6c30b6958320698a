"""What answers over HTTP: the tick, health, metrics, the management API and the dashboard."""
