"""What the kit needs of the world: protocols whose docstrings are their contracts."""
