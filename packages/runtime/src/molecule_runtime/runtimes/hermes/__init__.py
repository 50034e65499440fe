"""Hermes (hermes-agent) as the engine of a workspace; its gateway has an environment of its own."""

from molecule_runtime.runtimes.hermes.adapter import HermesAgentAdapter
from molecule_runtime.runtimes.hermes.adapter import HermesAgentAdapter as Adapter
from molecule_runtime.runtimes.hermes.adapter import HermesAgentAdapter as HermesAdapter

__all__ = ["Adapter", "HermesAdapter", "HermesAgentAdapter"]
