"""Pure rules of webhooks: event routing, filters, custom headers, endpoint health and throttling."""
