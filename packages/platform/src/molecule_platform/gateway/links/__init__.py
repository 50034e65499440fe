"""Ways to an agent. They implement ports and never call a door."""
