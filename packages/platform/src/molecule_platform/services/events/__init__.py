"""Event feed, subscriptions and the activity log."""
