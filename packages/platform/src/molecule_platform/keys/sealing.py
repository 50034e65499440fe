"""Sealing secrets at rest: AES-256-GCM under a key that lies outside the database."""

import base64
import binascii
import contextlib
import hashlib
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

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


class Keyring:
    """Seals with the current key; opens with it and with the older ones that were not rotated away yet."""

    def __init__(self, current: bytes, older: Sequence[bytes] = ()) -> None:
        self.current_id = key_id_of(current)
        self._ciphers = {key_id_of(key): aead.AESGCM(key) for key in (current, *older)}

    def __repr__(self) -> str:
        return f"Keyring({', '.join(self._ciphers)})"

    @property
    def key_ids(self) -> frozenset[str]:
        """The ids of all keys that can open something."""
        return frozenset(self._ciphers)

    def seal(self, plaintext: bytes, bound_to: str) -> Sealed:
        """Seal under the current key. It opens only with the same `bound_to`: where the secret belongs."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        ciphertext = self._ciphers[self.current_id].encrypt(nonce, plaintext, bound_to.encode())
        return Sealed(self.current_id, nonce, ciphertext)

    def open(self, sealed: Sealed, bound_to: str) -> bytes:
        """The plaintext, or `KeyProblem` when the key is not here or the row is not what was sealed."""
        cipher = self._ciphers.get(sealed.key_id)
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


def key_id_of(key: bytes) -> str:
    """The name of a key, which tells nothing about it: the first 16 hex digits of its SHA-256."""
    if len(key) != KEY_BYTES:
        raise KeyProblem(f"An encryption key is {KEY_BYTES} bytes.")
    return hashlib.sha256(key).hexdigest()[:16]


def load_keyring(data_dir: Path, configured: str | None) -> Keyring:
    """The configured key, with the key file's as the older one; else the key file's, which is made once."""
    path = data_dir / KEY_FILE
    if configured:
        current = read_key(configured, SETTING)
        return Keyring(current, [_read_file(path)] if path.exists() else [])
    _create_if_missing(path)
    return Keyring(_read_file(path))


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


def _read_file(path: Path) -> bytes:
    try:
        text = path.read_text("ascii").strip()
    except OSError as problem:
        raise KeyProblem(f"{path} cannot be read ({problem.strerror}): make it readable.") from problem
    except UnicodeDecodeError:
        text = ""
    return read_key(text, str(path))


def _create_if_missing(path: Path) -> None:
    """Never seen half-written, and the first of several starters wins: all of them then read one key."""
    if path.exists():
        return
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        _write_durably(draft, base64.b64encode(secrets.token_bytes(KEY_BYTES)) + b"\n")
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
        _sync_folder(path.parent)
    except OSError as problem:
        raise KeyProblem(
            f"{path} cannot be created ({problem.strerror}): "
            f"make the data directory writable or set {SETTING}."
        ) from problem
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()


def _write_durably(path: Path, content: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
