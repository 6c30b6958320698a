"""Pure rules of webhooks: event routing, filters, endpoint health and throttling."""
