"""Making key pairs: Ed25519 for what the platform says of callers, P-256 for agent cards."""

import base64
import hashlib

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from molecule_platform.ports.signing import FreshKey

KID_LENGTH = 16


def new_key(alg: str) -> FreshKey:
    """A key pair for `EdDSA` or `ES256`."""
    return {"EdDSA": _ed25519, "ES256": _p256}[alg]()


def _ed25519() -> FreshKey:
    private = ed25519.Ed25519PrivateKey.generate()
    raw = private.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    public = {"kty": "OKP", "crv": "Ed25519", "x": _text(raw)}
    return FreshKey(_kid(raw), "EdDSA", public, _pem(private))


def _p256() -> FreshKey:
    private = ec.generate_private_key(ec.SECP256R1())
    numbers = private.public_key().public_numbers()
    x, y = numbers.x.to_bytes(32, "big"), numbers.y.to_bytes(32, "big")
    public = {"kty": "EC", "crv": "P-256", "x": _text(x), "y": _text(y)}
    return FreshKey(_kid(x + y), "ES256", public, _pem(private))


def _pem(private: ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey) -> str:
    plain = serialization.NoEncryption()
    return private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain
    ).decode()


def _kid(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()[:KID_LENGTH]


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
