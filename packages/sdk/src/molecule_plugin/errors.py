"""What the plugin SDK raises; each class is a `PluginError`, and the agent SDK raises the same ones."""

from molecule_wire.exceptions import (
    LockMismatchError,
    MoleculeError,
    PluginError,
    PluginIntegrityError,
    PluginManifestError,
    PluginNameError,
    PluginRevokedError,
    PluginSignatureError,
    PluginSignatureRequiredError,
    PluginTooLargeError,
    SHA256MismatchError,
    UnsafeArchiveError,
)

__all__ = [
    "LockMismatchError",
    "MoleculeError",
    "PluginError",
    "PluginIntegrityError",
    "PluginManifestError",
    "PluginNameError",
    "PluginRevokedError",
    "PluginSignatureError",
    "PluginSignatureRequiredError",
    "PluginTooLargeError",
    "SHA256MismatchError",
    "UnsafeArchiveError",
]
