"""Signatures of others: whether a key that somebody shows made one."""

from collections.abc import Callable, Mapping
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils

from molecule_wire import assertions

P256_BYTES = 32
RSA_BITS = range(2048, 8192 + 1)  # smaller ones can be broken, larger ones cost us

_Check = Callable[[bytes, bytes], None]
_HASH = hashes.SHA256()


class UnusableKey(Exception):
    """This is no key for the algorithm."""


def verify(key: Mapping[str, Any], alg: str, signature: bytes, said: bytes) -> bool | None:
    """Whether the key, a JWK, made the signature; None if it is no key for the algorithm."""
    try:
        check = _checks(key, alg)
    except (UnusableKey, ValueError, UnsupportedAlgorithm):
        return None
    try:
        check(signature, said)
    except InvalidSignature:
        return False
    return True


def _checks(key: Mapping[str, Any], alg: str) -> _Check:
    if key.get("use", "sig") != "sig" or key.get("alg", alg) != alg:
        raise UnusableKey
    operations = key.get("key_ops")
    if operations is not None and (not isinstance(operations, list) or "verify" not in operations):
        raise UnusableKey
    readers = {"ES256": _p256, "RS256": _rs256, "PS256": _ps256, "EdDSA": _ed25519}
    if alg not in readers:
        raise UnusableKey
    return readers[alg](key)


def _p256(key: Mapping[str, Any]) -> _Check:
    _of_kind(key, kty="EC", crv="P-256")
    public = ec.EllipticCurvePublicNumbers(_number(key, "x"), _number(key, "y"), ec.SECP256R1()).public_key()

    def check(signature: bytes, said: bytes) -> None:
        if len(signature) != 2 * P256_BYTES:
            raise InvalidSignature
        r, s = (int.from_bytes(half, "big") for half in (signature[:P256_BYTES], signature[P256_BYTES:]))
        public.verify(utils.encode_dss_signature(r, s), said, ec.ECDSA(_HASH))

    return check


def _rs256(key: Mapping[str, Any]) -> _Check:
    public = _rsa(key)
    return lambda signature, said: public.verify(signature, said, padding.PKCS1v15(), _HASH)


def _ps256(key: Mapping[str, Any]) -> _Check:
    public = _rsa(key)
    salted = padding.PSS(padding.MGF1(_HASH), _HASH.digest_size)
    return lambda signature, said: public.verify(signature, said, salted, _HASH)


def _rsa(key: Mapping[str, Any]) -> rsa.RSAPublicKey:
    _of_kind(key, kty="RSA")
    modulus, exponent = _number(key, "n"), _number(key, "e")
    if modulus.bit_length() not in RSA_BITS or exponent.bit_length() > 32:
        raise UnusableKey
    return rsa.RSAPublicNumbers(exponent, modulus).public_key()


def _ed25519(key: Mapping[str, Any]) -> _Check:
    _of_kind(key, kty="OKP", crv="Ed25519")
    return ed25519.Ed25519PublicKey.from_public_bytes(_bytes(key, "x")).verify


def _of_kind(key: Mapping[str, Any], **kind: str) -> None:
    if any(key.get(name) != value for name, value in kind.items()):
        raise UnusableKey


def _number(key: Mapping[str, Any], name: str) -> int:
    return int.from_bytes(_bytes(key, name), "big")


def _bytes(key: Mapping[str, Any], name: str) -> bytes:
    text = key.get(name)
    if not isinstance(text, str):
        raise UnusableKey
    try:
        return assertions.decoded(text)
    except assertions.AssertionRefused:
        raise UnusableKey from None
