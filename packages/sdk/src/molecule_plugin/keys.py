"""The keys that sign plugins: Ed25519, written as text.

The primitive comes from `cryptography`, which is imported when it is needed; without it every use of a key
ends in a `PluginSignatureError` that names the extra to install.
"""

import base64
import binascii
import hashlib
import os
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from molecule_plugin.errors import PluginSignatureError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PUBLIC_PREFIX = "ed25519:"
SECRET_PREFIX = "ed25519-seed:"  # noqa: S105 - the form of a key file, not a key
EXTRA_NEEDED = "plugin signatures need the extra 'crypto': pip install 'molecule-ai-sdk[crypto]'"
_KEY_BYTES = 32
_KEY_FILE_BYTES = 4096


@dataclass(frozen=True)
class PublicKey:
    """The public half of a key; `text` is how it is written and `key_id` how it is named."""

    raw: bytes

    @property
    def text(self) -> str:
        return PUBLIC_PREFIX + to_base64url(self.raw)

    @property
    def key_id(self) -> str:
        return hashlib.sha256(self.raw).hexdigest()[:16]

    def verifies(self, signature: bytes, payload: bytes) -> bool:
        """Whether the signature over `said` is this key's."""
        require_cryptography()
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, payload)
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True)
class SigningKey:
    """A secret key; its representation does not show it."""

    seed: bytes = field(repr=False)

    @property
    def text(self) -> str:
        """The content of a key file. Keep it secret."""
        return SECRET_PREFIX + to_base64url(self.seed)

    @property
    def public(self) -> PublicKey:
        return PublicKey(self._private().public_key().public_bytes_raw())

    def sign(self, payload: bytes) -> bytes:
        """The signature over `said`."""
        return self._private().sign(payload)

    def _private(self) -> "Ed25519PrivateKey":
        require_cryptography()
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return Ed25519PrivateKey.from_private_bytes(self.seed)


def generate_key() -> SigningKey:
    """A new secret key from the system's randomness."""
    require_cryptography()
    return SigningKey(os.urandom(_KEY_BYTES))


def parse_public_key(text: str) -> PublicKey:
    """Read `ed25519:…`; `PluginSignatureError` when it is no such key."""
    raw = _after_prefix(text, PUBLIC_PREFIX)
    if raw is None:
        raise PluginSignatureError(
            f"{text[:60]!r} is no public key: write it like {PUBLIC_PREFIX}<43 characters>"
        )
    return PublicKey(raw)


def parse_signing_key(text: str) -> SigningKey:
    """Read `ed25519-seed:…`; the error of a wrong text does not repeat it."""
    seed = _after_prefix(text, SECRET_PREFIX)
    if seed is None:
        raise PluginSignatureError(
            f"this is no signing key: the file must hold {SECRET_PREFIX}<43 characters>"
        )
    return SigningKey(seed)


def read_key_file(path: Path) -> SigningKey:
    """The secret key in a file."""
    with Path(path).open("rb") as file:
        content = file.read(_KEY_FILE_BYTES)
    try:
        return parse_signing_key(content.decode("ascii"))
    except (UnicodeDecodeError, PluginSignatureError):
        raise PluginSignatureError(
            f"{path} holds no signing key; make one with: molecule-plugin keygen --out <file>"
        ) from None


def write_key_file(path: Path, key: SigningKey) -> None:
    """Write a secret key to a new file with mode 0600; `FileExistsError` rather than replace one."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(key.text + "\n")


def require_cryptography() -> None:
    """`PluginSignatureError` naming the extra, when `cryptography` is not installed."""
    try:
        import_module("cryptography.hazmat.primitives.asymmetric.ed25519")
    except ImportError:
        raise PluginSignatureError(EXTRA_NEEDED) from None


def to_base64url(data: bytes) -> str:
    """Base64 for URLs, without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def from_base64url(text: str) -> bytes:
    """Undo `to_base64url`; `ValueError` on anything that it would not have written."""
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("not base64url without padding") from None
    if to_base64url(data) != text:
        raise ValueError("not base64url without padding")
    return data


def _after_prefix(text: str, prefix: str) -> bytes | None:
    written = text.strip()
    if not written.startswith(prefix):
        return None
    try:
        raw = from_base64url(written.removeprefix(prefix))
    except ValueError:
        return None
    return raw if len(raw) == _KEY_BYTES else None
