"""The hot path: doors that agents and callers use all day, and links that carry messages to agents."""
