"""Sealing secrets at rest: AES-256-GCM under a key that lies outside the database."""

import base64
import binascii
import hashlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cryptography import exceptions
from cryptography.hazmat.primitives.ciphers import aead

KEY_BYTES = 32
NONCE_BYTES = 12
KEY_FILE = "secrets.key"
SETTING = "SECRETS_ENCRYPTION_KEY"


class KeyProblem(Exception):
    """A key is missing or wrong. The text says which one and what to do; it never holds a key."""


@dataclass(frozen=True)
class Sealed:
    """What is stored of a secret."""

    key_id: str
    nonce: bytes
    ciphertext: bytes


@dataclass(frozen=True)
class _Keys:
    """One state of a keyring; it is replaced as a whole, since several threads seal and open."""

    current_id: str
    ciphers: Mapping[str, aead.AESGCM]


class Keyring:
    """Seals with the current key; opens with it and with the older ones that were not rotated away yet.

    `changed` gives the keys, the current one first, when they are others than before; else None.
    """

    def __init__(
        self,
        current: bytes,
        older: Sequence[bytes] = (),
        changed: Callable[[], Sequence[bytes] | None] = lambda: None,
    ) -> None:
        self._changed = changed
        self._keys = _keys((current, *older))

    def __repr__(self) -> str:
        return f"Keyring({', '.join(self._keys.ciphers)})"

    @property
    def current_id(self) -> str:
        """The id of the key that seals."""
        return self._keys.current_id

    @property
    def key_ids(self) -> frozenset[str]:
        """The ids of all keys that can open something."""
        return frozenset(self._keys.ciphers)

    def refresh(self) -> None:
        """Take over what another process, or this one, did to the keys."""
        keys = self._changed()
        if keys is not None:
            self._keys = _keys(keys)

    def seal(self, plaintext: bytes, bound_to: str) -> Sealed:
        """Seal under the current key. It opens only with the same `bound_to`: where the secret belongs."""
        self.refresh()
        keys = self._keys
        nonce = secrets.token_bytes(NONCE_BYTES)
        ciphertext = keys.ciphers[keys.current_id].encrypt(nonce, plaintext, bound_to.encode())
        return Sealed(keys.current_id, nonce, ciphertext)

    def open(self, sealed: Sealed, bound_to: str) -> bytes:
        """The plaintext, or `KeyProblem` when the key is not here or the row is not what was sealed."""
        if sealed.key_id not in self._keys.ciphers:
            self.refresh()
        cipher = self._keys.ciphers.get(sealed.key_id)
        if cipher is None:
            raise KeyProblem(
                f"A secret was sealed with key {sealed.key_id}, which is not loaded: "
                f"set {SETTING} to that key or put its {KEY_FILE} back into the data directory."
            )
        try:
            return cipher.decrypt(sealed.nonce, sealed.ciphertext, bound_to.encode())
        except (exceptions.InvalidTag, ValueError):
            raise KeyProblem(
                f"A secret sealed with key {sealed.key_id} does not open: its row was altered or moved. "
                "Set the secret again."
            ) from None


def _keys(keys: Sequence[bytes]) -> _Keys:
    return _Keys(key_id_of(keys[0]), {key_id_of(key): aead.AESGCM(key) for key in keys})


def key_id_of(key: bytes) -> str:
    """The name of a key, which tells nothing about it: the first 16 hex digits of its SHA-256."""
    if len(key) != KEY_BYTES:
        raise KeyProblem(f"An encryption key is {KEY_BYTES} bytes.")
    return hashlib.sha256(key).hexdigest()[:16]


def read_key(text: str, source: str) -> bytes:
    """A key from base64 of 32 bytes (either alphabet, padded or not) or from 32 plain characters."""
    decoded = _from_base64(text)
    if decoded is not None and len(decoded) == KEY_BYTES:
        return decoded
    if len(text.encode()) == KEY_BYTES:
        return text.encode()
    raise KeyProblem(
        f"{source} is not an encryption key: give base64 of {KEY_BYTES} random bytes "
        f"(openssl rand -base64 {KEY_BYTES}) or {KEY_BYTES} ASCII characters."
    )


def _from_base64(text: str) -> bytes | None:
    standard = text.strip().rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
