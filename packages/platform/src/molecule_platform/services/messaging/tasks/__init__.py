"""A2A tasks, their event log and streams."""
