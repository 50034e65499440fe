"""Hosts one agent engine as a Molecule workspace."""

__all__ = ["__version__"]

__version__ = "0.1.0"
