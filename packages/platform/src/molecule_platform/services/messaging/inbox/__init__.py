"""The inbox that polling agents lease messages from."""
