"""Failures of the bridge: fixed sentences for the caller, with a reference that the log has too.

A text of the gateway is shown only scrubbed and cut; a traceback, a header or a key never.
"""

import os

from molecule_runtime.domain.turns import TurnError
from molecule_runtime.kit.state.known_secrets import known_secret_values
from molecule_runtime.runtimes.hermes import settings
from molecule_wire import redaction

PLUGIN_ERROR = "[hermes plugin error]"
MAX_BODY_CHARACTERS = 500
MAX_REASON_CHARACTERS = 200
# Scrubbing takes milliseconds per kilobyte, and what is shown is much shorter.
_MAX_SCRUBBED_CHARACTERS = 4096


class ExecutorStopping(RuntimeError):
    """Why a message that waits for its reply has none: the executor is being stopped."""

    def __init__(self) -> None:
        super().__init__("executor shutting down")


class TurnNotAnswered(RuntimeError):
    """The plugin says that hermes will not answer a message; `is_retryable` when the gateway was stopped."""

    def __init__(self, sentence: str, *, is_retryable: bool) -> None:
        self.is_retryable = is_retryable
        super().__init__(sentence.removeprefix(PLUGIN_ERROR).strip())


def failure(code: str, sentence: str, *, retryable: bool = False) -> TurnError:
    """A failure that the caller is told in this sentence, with a reference."""
    reference = os.urandom(4).hex()
    return TurnError(code, f"{sentence} [ref {reference}]", retryable, reference)


def no_content() -> TurnError:
    """The failure of an answer that is none."""
    return TurnError("hermes-no-content", "(hermes-agent returned no content)")


def scrubbed(text: str, secret: str = "") -> str:
    """A text without the secrets of the process, the gateway's key and the plugin's secret."""
    known = (*known_secret_values(), settings.api_key(), secret)
    start = text[:_MAX_SCRUBBED_CHARACTERS]
    return redaction.redact(start, redaction.LOG, filter(None, known))


def scrubbed_body(body: bytes) -> str:
    """The beginning of a body, fit to be shown."""
    return scrubbed(body.decode(errors="replace"))[:MAX_BODY_CHARACTERS]


def scrubbed_line(text: str, secret: str) -> str:
    """A reason in one line, fit to be shown."""
    return " ".join(scrubbed(text, secret).split())[:MAX_REASON_CHARACTERS]
