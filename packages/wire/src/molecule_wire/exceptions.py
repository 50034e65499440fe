"""What every package of the SDK may raise: the base of all its errors, what a handler raises, and
everything about a plugin.

They stand here because the agent SDK must name them without loading the plugin SDK, and because the servers
on threads and on asyncio take the same handlers.
"""


class MoleculeError(Exception):
    """The base of everything the SDK raises."""


class NeedInput(MoleculeError):
    """Raised by a handler that must know more: `prompt` is the question that the sender is asked.

    The task waits for the answer, which comes to the handler as the next message of the same task.
    """

    def __init__(self, prompt: str) -> None:
        self.prompt = prompt or "the agent needs more input"
        super().__init__(self.prompt)


class Fail(MoleculeError):
    """Raised by a handler that cannot do what it was asked: `text` is what the sender is told.

    The message ends with it, unless `retry` says that another attempt may help: then it is offered again
    after the platform's pause, or after `delay` seconds, and the text is what the sender learns in the end.
    """

    def __init__(self, text: str, *, retry: bool = False, delay: float | None = None) -> None:
        self.text = text or "the agent could not handle the message"
        self.retry = retry
        self.delay = delay
        super().__init__(self.text)


class PluginError(MoleculeError):
    """A plugin cannot be used."""


class PluginNameError(PluginError, ValueError):
    """Not a plugin name."""


class UnsafeArchiveError(PluginError, ValueError):
    """A plugin's archive or directory holds what a plugin must not hold, or tries to leave its place."""


class PluginTooLargeError(UnsafeArchiveError):
    """A plugin has more bytes than it may have; `limit_bytes` is how many that is."""

    def __init__(self, message: str = "", limit_bytes: int = 0) -> None:
        self.limit_bytes = limit_bytes
        super().__init__(message)


class PluginManifestError(PluginError, ValueError):
    """A plugin's manifest cannot be read."""


class PluginIntegrityError(PluginError, ValueError):
    """A plugin is not what it should be; `expected` and `actual` are digests where two of them differ."""

    def __init__(self, message: str = "", expected: str = "", actual: str = "") -> None:
        self.expected = expected
        self.actual = actual
        super().__init__(message)


class SHA256MismatchError(PluginIntegrityError):
    """A plugin's content has another digest than promised."""


class PluginSignatureError(PluginIntegrityError):
    """A plugin's signature is missing, wrong, or cannot be checked."""


class PluginSignatureRequiredError(PluginSignatureError):
    """A plugin lacks the trusted signature that the policy, or its installed version, asks for."""


class PluginRevokedError(PluginIntegrityError):
    """A plugin was revoked by its publisher or the organisation; `reason` is what they say about it."""

    def __init__(self, message: str = "", reason: str = "") -> None:
        self.reason = reason
        super().__init__(message)


class LockMismatchError(PluginIntegrityError):
    """A plugin differs from what `plugins.lock` pins."""
