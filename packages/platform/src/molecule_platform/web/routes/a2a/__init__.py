"""A2A endpoints of agents."""
