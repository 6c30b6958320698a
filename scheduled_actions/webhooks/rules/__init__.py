"""What is decided about webhooks: which endpoints want an event, and when one is disabled."""
