"""The original import paths of the built-in tools."""
