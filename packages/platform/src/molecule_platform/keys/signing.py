"""Key pairs: Ed25519 for what the platform says of callers, P-256 for agent cards."""

import base64
import hashlib
from collections.abc import Callable

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, utils
from nacl import bindings

from molecule_platform.ports.signing import FreshKey

KID_LENGTH = 16
P256_BYTES = 32


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


def load(pem: str) -> Callable[[bytes], bytes]:
    """What signs bytes with a private key that `new_key` made. Raises `ValueError` when it is none."""
    private = serialization.load_pem_private_key(pem.encode(), None)
    if isinstance(private, ed25519.Ed25519PrivateKey):
        return _eddsa(private)
    if isinstance(private, ec.EllipticCurvePrivateKey):
        return _es256(private)
    raise ValueError("this is no key of the platform's own making")


def _eddsa(private: ed25519.Ed25519PrivateKey) -> Callable[[bytes], bytes]:
    # Every dispatch is signed, and libsodium needs little more than half the time of OpenSSL for it.
    _public, secret = bindings.crypto_sign_seed_keypair(private.private_bytes_raw())
    return lambda said: bindings.crypto_sign(said, secret)[: bindings.crypto_sign_BYTES]


def _es256(private: ec.EllipticCurvePrivateKey) -> Callable[[bytes], bytes]:
    # Deterministic where the library can: then every replica shows the same card, byte for byte.
    algorithm = ec.ECDSA(hashes.SHA256(), deterministic_signing=True)
    try:
        private.sign(b"", algorithm)
    except UnsupportedAlgorithm:
        algorithm = ec.ECDSA(hashes.SHA256())

    def sign(said: bytes) -> bytes:
        r, s = utils.decode_dss_signature(private.sign(said, algorithm))
        return r.to_bytes(P256_BYTES, "big") + s.to_bytes(P256_BYTES, "big")

    return sign


def _pem(private: ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey) -> str:
    plain = serialization.NoEncryption()
    return private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain
    ).decode()


def _kid(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()[:KID_LENGTH]


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
