"""Caller assertions of a fake platform, for tests of an agent's own door."""

import base64
import hashlib
from typing import TYPE_CHECKING, Any

from molecule_agent import errors
from molecule_agent.testing.clock import FakeClock
from molecule_agent.testing.http_messages import PlatformRequest, PlatformResponse
from molecule_wire import JSONObject, ids, jsontext

if TYPE_CHECKING:
    from molecule_agent.testing.platform import FakePlatform

KEYS_PATH = "/.well-known/jwks.json"
LIFETIME_SECONDS = 120


class Signer:
    """The platform's key. Its route is there from the first signature on: a test without one has no keys."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._key: Any = None

    def serves(self, request: PlatformRequest) -> bool:
        """Whether this is the question for the keys."""
        return self._key is not None and (request.method, request.path) == ("GET", KEYS_PATH)

    def keys(self, request: PlatformRequest) -> PlatformResponse:
        """The public half."""
        key: JSONObject = {
            "kty": "OKP",
            "crv": "Ed25519",
            "x": _base64url(self._public()),
            "kid": self._kid(),
            "alg": "EdDSA",
            "use": "sig",
        }
        return PlatformResponse(200, {"issuer": request.base, "keys": [key]})

    def sign(self, claims: JSONObject) -> str:
        """A JWT with these claims."""
        if self._key is None:
            self._key = _new_key()
        head: JSONObject = {"alg": "EdDSA", "typ": "JWT", "kid": self._kid()}
        signed = ".".join(_base64url(jsontext.encode(part)) for part in (head, claims))
        return f"{signed}.{_base64url(self._key.sign(signed.encode()))}"

    def _public(self) -> bytes:
        return self._key.public_key().public_bytes_raw()

    def _kid(self) -> str:
        return hashlib.sha256(self._public()).hexdigest()[:16]


def caller_token(
    platform: "FakePlatform",
    sub: str,
    aud: str,
    *,
    issuer: str = "",
    message_id: str = "",
    org: str = "",
    lifetime: float = LIFETIME_SECONDS,
    **claims: Any,
) -> str:
    """The header `X-Molecule-Caller` with which the platform vouches for a caller (extra `crypto`).

    `sub` is the principal that calls (`user:ann`, `workspace:<id>`), `aud` the workspace that is called, by
    its id or as `workspace:<id>`; `issuer` is the URL that `serve` gave. Other claims replace what is
    said otherwise, also with `None` to leave one out.
    """
    now = int(platform.clock.time())
    payload: dict[str, Any] = {
        "iss": issuer or platform._origin,
        "sub": sub,
        "aud": aud if ":" in aud else f"workspace:{aud}",
        "org": org or None,
        "mid": message_id or None,
        "iat": now,
        "nbf": now,
        "exp": now + int(lifetime),
        "jti": ids.uuid7(),
        **claims,
    }
    return platform._signer.sign({name: value for name, value in payload.items() if value is not None})


def _new_key() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ImportError as missing:
        raise errors.ConfigurationError("caller tokens need the extra molecule-ai-sdk[crypto]") from missing
    return Ed25519PrivateKey.generate()


def _base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
