"""Redaction of memories, at its original import path."""

from molecule_wire import redaction

__all__ = ["_redact_secrets"]


def _redact_secrets(text: str) -> str:
    return redaction.redact(text, redaction.MEMORY)
