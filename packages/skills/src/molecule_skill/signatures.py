"""Signature verification with `cryptography`, which no other module of this package knows.

It is imported with the first signature; without the extra `crypto` that raises `ImportError`.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from molecule_wire import assertions

MIN_RSA_BITS = 2048
MAX_RSA_BITS = 8192

Verify = Callable[[bytes, bytes], bool]
"""Whether a signature (first) fits what was signed (second)."""


class KeyUnusable(ValueError):
    """A JWK that is none, or not one for the algorithm."""


def require_crypto() -> None:
    """Raise an `ImportError` that names the extra, unless `cryptography` is installed."""
    try:
        import cryptography  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError as problem:
        sentence = "verifying signatures needs the extra 'crypto': pip install 'molecule-ai-skills[crypto]'"
        raise ImportError(sentence) from problem


def verifier(algorithm: str, jwk: Mapping[str, Any]) -> Verify:
    """The check of signatures that one key made with one algorithm. Raises KeyUnusable.

    The type of the key must be the algorithm's own: that is what keeps a public RSA key from being used as
    the secret of another algorithm.
    """
    require_crypto()
    make = {"EdDSA": _ed25519, "ES256": _es256, "RS256": _rs256}.get(algorithm)
    if make is None:
        raise KeyUnusable(f"the algorithm {algorithm!r} is not supported")
    try:
        return make(jwk)
    except KeyUnusable:
        raise
    except (ValueError, TypeError, KeyError, assertions.AssertionRefused) as problem:
        raise KeyUnusable("the key cannot be read") from problem


def verify_ed25519(public: bytes, signature: bytes, signed: bytes) -> bool:
    """Whether an Ed25519 signature is good, for `molecule_wire.callers`."""
    require_crypto()
    try:
        return _ed25519_key(public)(signature, signed)
    except ValueError:
        return False


def _ed25519(jwk: Mapping[str, Any]) -> Verify:
    if (jwk.get("kty"), jwk.get("crv")) != ("OKP", "Ed25519"):
        raise KeyUnusable("EdDSA needs an Ed25519 key")
    return _ed25519_key(assertions.decoded(jwk["x"]))


@functools.lru_cache(maxsize=64)
def _ed25519_key(public: bytes) -> Verify:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    key = Ed25519PublicKey.from_public_bytes(public)
    return lambda signature, signed: _is_good(lambda: key.verify(signature, signed))


def _es256(jwk: Mapping[str, Any]) -> Verify:
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
    from cryptography.hazmat.primitives.hashes import SHA256

    if (jwk.get("kty"), jwk.get("crv")) != ("EC", "P-256"):
        raise KeyUnusable("ES256 needs a P-256 key")
    x, y = (int.from_bytes(assertions.decoded(jwk[name])) for name in ("x", "y"))
    key = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()

    def verify(signature: bytes, signed: bytes) -> bool:
        if len(signature) != 64:
            return False
        r, s = int.from_bytes(signature[:32]), int.from_bytes(signature[32:])
        return _is_good(lambda: key.verify(encode_dss_signature(r, s), signed, ec.ECDSA(SHA256())))

    return verify


def _rs256(jwk: Mapping[str, Any]) -> Verify:
    from cryptography.hazmat.primitives.asymmetric import padding, rsa
    from cryptography.hazmat.primitives.hashes import SHA256

    if jwk.get("kty") != "RSA":
        raise KeyUnusable("RS256 needs an RSA key")
    n, e = (int.from_bytes(assertions.decoded(jwk[name])) for name in ("n", "e"))
    if not MIN_RSA_BITS <= n.bit_length() <= MAX_RSA_BITS:
        raise KeyUnusable(f"an RSA key has {MIN_RSA_BITS} to {MAX_RSA_BITS} bits")
    key = rsa.RSAPublicNumbers(e, n).public_key()
    return lambda signature, signed: _is_good(
        lambda: key.verify(signature, signed, padding.PKCS1v15(), SHA256())
    )


def _is_good(verify: Callable[[], object]) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        verify()
    except InvalidSignature:
        return False
    return True
