"""Webhook endpoints: declared in the settings file, or stored in the database."""
