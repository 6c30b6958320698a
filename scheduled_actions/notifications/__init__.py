"""Notifications: people, channels, quiet hours, local times, templates, sending."""
