"""Clients for other agents: calls in process, over HTTP and through the platform, and discovery."""
