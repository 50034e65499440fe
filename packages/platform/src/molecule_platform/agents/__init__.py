"""Clients for agents and webhooks."""
