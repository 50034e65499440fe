"""Values and rules of a workspace: no I/O, no clock, no event loop."""
