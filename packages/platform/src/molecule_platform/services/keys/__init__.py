"""Secrets, signing keys and their rotation."""
