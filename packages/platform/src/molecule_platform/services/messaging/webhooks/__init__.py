"""Push notifications: configurations, outbox and sender."""
