"""The original import paths of the snapshot modules."""
