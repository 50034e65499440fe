"""A deterministic engine without a model, for tests and demonstrations."""

from molecule_runtime.runtimes.echo.adapter import EchoAdapter
from molecule_runtime.runtimes.echo.adapter import EchoAdapter as Adapter

__all__ = ["Adapter", "EchoAdapter"]
