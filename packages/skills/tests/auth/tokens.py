"""An identity provider for tests: keys of each kind, its JWKS, and tokens that it signs."""

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

ISSUER, AUDIENCE, NOW = "https://issuer.example", "agent", 1_700_000_000

ED = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
ES = ec.derive_private_key(12345678901234567890, ec.SECP256R1())
RS = rsa.generate_private_key(65537, 2048)


def b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def number(value: int, size: int) -> str:
    return b64(value.to_bytes(size))


def ed_jwk(kid: str = "ed") -> dict[str, Any]:
    raw = ED.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return {"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": b64(raw)}


def es_jwk(kid: str = "es") -> dict[str, Any]:
    numbers = ES.public_key().public_numbers()
    return {"kty": "EC", "crv": "P-256", "kid": kid, "x": number(numbers.x, 32), "y": number(numbers.y, 32)}


def rs_jwk(kid: str = "rs") -> dict[str, Any]:
    numbers = RS.public_key().public_numbers()
    return {"kty": "RSA", "kid": kid, "n": number(numbers.n, 256), "e": number(numbers.e, 3)}


ALL_KEYS = {"keys": [ed_jwk(), es_jwk(), rs_jwk()]}


def sign(algorithm: str, signed: bytes) -> bytes:
    if algorithm == "EdDSA":
        return ED.sign(signed)
    if algorithm == "ES256":
        r, s = decode_dss_signature(ES.sign(signed, ec.ECDSA(SHA256())))
        return r.to_bytes(32) + s.to_bytes(32)
    if algorithm == "RS256":
        return RS.sign(signed, padding.PKCS1v15(), SHA256())
    if algorithm == "HS256":  # the attack: the public key as the secret of a symmetric algorithm
        return hmac.digest(
            RS.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo), signed, "sha256"
        )
    return b""


def claims(**changed: Any) -> dict[str, Any]:
    values = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "exp": NOW + 60, **changed}
    return {name: value for name, value in values.items() if value is not None}


def token(
    algorithm: str = "EdDSA", kid: str | None = "ed", *, header: dict[str, Any] | None = None, **changed: Any
) -> str:
    head = {"alg": algorithm, **({} if kid is None else {"kid": kid}), **(header or {})}
    signed = f"{b64(json.dumps(head).encode())}.{b64(json.dumps(claims(**changed)).encode())}"
    return f"{signed}.{b64(sign(algorithm, signed.encode()))}"


def digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


class JwksServer:
    """A JWKS over HTTP; counts how often it was fetched."""

    def __init__(self) -> None:
        self.document: dict[str, Any] = {"keys": [ed_jwk()]}
        self.status = 200
        self.fetches = 0
        self.url = ""


@contextmanager
def serving() -> Generator[JwksServer]:
    served = JwksServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.fetches += 1
            body = json.dumps(served.document).encode()
            self.send_response(served.status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    served.url = f"http://127.0.0.1:{server.server_address[1]}/jwks.json"
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
