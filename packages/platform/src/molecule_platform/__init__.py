"""The Molecule control plane."""

__version__ = "0.1.0"

__all__ = ["__version__"]
