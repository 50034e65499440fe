"""Secret redaction of memories before they are stored: a plain `[REDACTED]`, which says nothing of the kind.

Memories are read by other agents, so the lengths that count as a secret are those of real tokens: a sentence
about `sk-…` keys stays readable.
"""

from collections.abc import Iterable

from molecule_runtime.domain.secrets import MEMORY_RULES, redact

REDACTED = "[REDACTED]"


def redact_secrets(text: str, known_values: Iterable[str] = ()) -> str:
    """The text with `[REDACTED]` in the place of every secret."""
    return redact(text, MEMORY_RULES, _plain, known_values) if text else text


def _plain(_label: str) -> str:
    return REDACTED


_redact_secrets = redact_secrets  # the name of the original `builtin_tools.security`
