"""Plugins of workspaces and the policy of an organisation."""
