"""Routes and models of webhooks."""
