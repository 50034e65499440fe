"""Agent skills as typed Python functions. This version reserves the name."""

__all__ = ["__version__"]

__version__ = "0.1.0"
