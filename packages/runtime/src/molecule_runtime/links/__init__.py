"""The ways outward: the platform, and the callers of the agent."""
