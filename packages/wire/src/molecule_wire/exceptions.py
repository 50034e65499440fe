"""What every package of the SDK may raise: the base of all its errors, and everything about a plugin.

They stand here because the agent SDK must name them without loading the plugin SDK.
"""


class MoleculeError(Exception):
    """The base of everything the SDK raises."""


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
