"""Channels of notifications: mail, webhooks and apprise services; templates."""
