"""Delivery of messages to agents with a URL."""
