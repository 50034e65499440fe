"""Hosted runs: the gate that every transport goes through, and the context that only the gate makes."""

from molecule_skill.hosted.context import HostedRunContext
from molecule_skill.hosted.gate import RunGate
from molecule_skill.hosted.interface import Gate
from molecule_skill.hosted.invocation import Answerer, GateSettings, Invocation, Readiness

__all__ = ["Answerer", "Gate", "GateSettings", "HostedRunContext", "Invocation", "Readiness", "RunGate"]
