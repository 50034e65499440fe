"""Rules of a workspace, at the import path of the first generation."""
