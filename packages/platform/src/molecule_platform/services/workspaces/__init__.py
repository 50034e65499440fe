"""Workspaces: creation, registration, lifecycle, directory."""
