"""Delegations between agents."""
