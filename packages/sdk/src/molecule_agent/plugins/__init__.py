"""Plugins in an agent's own directory: fetched, verified, swapped in whole, and taken out again."""
