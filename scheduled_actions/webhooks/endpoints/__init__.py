"""Webhook endpoints: made and changed, as routing needs them, and how they are doing."""
