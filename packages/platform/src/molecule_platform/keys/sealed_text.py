"""A sealed value as one line of text, for columns that hold just one."""

import base64

from molecule_platform.keys.sealing import KeyProblem, Keyring, Sealed


def seal_text(keyring: Keyring, plaintext: str, bound_to: str) -> str:
    """Seal a text; the line holds key id, nonce and ciphertext."""
    sealed = keyring.seal(plaintext.encode(), bound_to)
    return ".".join((sealed.key_id, _encode(sealed.nonce), _encode(sealed.ciphertext)))


def open_text(keyring: Keyring, line: str, bound_to: str) -> str:
    """Undo `seal_text`. Raises `KeyProblem`."""
    parts = line.split(".")
    if len(parts) != 3:
        raise KeyProblem("A sealed line is not whole: set the value again.")
    sealed = Sealed(parts[0], _decode(parts[1]), _decode(parts[2]))
    return keyring.open(sealed, bound_to).decode()


def _encode(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text)
