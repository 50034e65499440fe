"""Local verification of JSON Web Tokens against a JWKS: a dict, a file, or a URL that is fetched."""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from pydantic import BaseModel

from molecule_skill import signatures
from molecule_skill.errors import AuthError
from molecule_skill.identity import AuthResolver, JWTAuth
from molecule_wire import JSON, JSONObject, assertions, jsontext

ALGORITHMS = ("EdDSA", "ES256", "RS256")
FRESH_SECONDS = 300.0
REFETCH_SECONDS = 30.0
# A provider that is away for a while does not lock everybody out; keys that it took back are gone after this.
STALE_SECONDS = 3600.0
MAX_TOKEN_CHARACTERS = 64 * 1024
MAX_DOCUMENT_BYTES = 256 * 1024

log = logging.getLogger("molecule_skill")


class _Token(NamedTuple):
    header: JSONObject
    claims: JSONObject
    signed: bytes
    signature: bytes


class _KeysUnavailable(Exception):
    """There is no document to verify with."""


class JWTAuthResolver(AuthResolver):
    """Verifies the bearer token as a JWT of one issuer for one audience; nobody is asked per request."""

    def __init__(
        self,
        issuer: str,
        audience: str,
        jwks: str | Path | Mapping[str, Any],
        leeway: float = 30,
        algorithms: Sequence[str] = ALGORITHMS,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        unknown = [name for name in algorithms if name not in ALGORITHMS]
        if unknown or not algorithms:
            raise ValueError(f"algorithms are some of {', '.join(ALGORITHMS)}, not {unknown}")
        if not issuer or not audience:
            raise ValueError("issuer and audience are needed: without them any token of the provider fits")
        self._issuer, self._audience = issuer, audience
        self._leeway, self._algorithms = leeway, tuple(algorithms)
        self._clock = clock
        self._keys = _KeySet(jwks)

    async def resolve(self, token: str | None, *, headers: Mapping[str, str], agent: str) -> JWTAuth:
        """The subject of a token that holds. Raises AuthError: 401, or 503 while there are no keys."""
        if not token:
            raise AuthError("a bearer token is needed: send 'Authorization: Bearer <JWT>'")
        parsed = _parse(token)
        algorithm = parsed.header.get("alg")
        if algorithm not in self._algorithms:
            raise AuthError(f"the algorithm of the token is not one of {', '.join(self._algorithms)}")
        if "crit" in parsed.header:
            raise AuthError("the token demands extensions ('crit') that are not known here")
        key = await self._key(parsed.header.get("kid"))
        if not _is_for_signatures(key, str(algorithm)):
            raise AuthError("the key of the token is not one for its algorithm")
        try:
            verify = signatures.verifier(str(algorithm), key)
        except signatures.KeyUnusable as problem:
            raise AuthError(f"the key of the token is not one for its algorithm: {problem}") from problem
        if not verify(parsed.signature, parsed.signed):
            raise AuthError("the signature of the token is wrong")
        return self._checked(parsed.claims)

    def principal_id(self, model: BaseModel) -> str:
        """`user:` and the subject."""
        return f"user:{cast('JWTAuth', model).sub}"

    async def _key(self, kid: JSON) -> Mapping[str, Any]:
        if kid is not None and not isinstance(kid, str):
            raise AuthError("the 'kid' of the token is no text")
        try:
            key = await self._keys.find(kid)
        except _KeysUnavailable as problem:
            raise AuthError(f"tokens cannot be verified now: {problem}", 503) from problem
        if key is None:
            named = "names no key, and there are several" if kid is None else "names a key that is not known"
            raise AuthError(f"the token {named}")
        return key

    def _checked(self, claims: JSONObject) -> JWTAuth:
        now, leeway = self._clock(), self._leeway
        if claims.get("iss") != self._issuer:
            raise AuthError("another issuer made the token")
        audience = claims.get("aud")
        if self._audience not in (audience if isinstance(audience, list) else [audience]):
            raise AuthError("the token is meant for another audience")
        if now >= _time(claims, "exp") + leeway:
            raise AuthError("the token has expired: get a new one")
        if "nbf" in claims and now < _time(claims, "nbf") - leeway:
            raise AuthError("the token is not good yet: compare the clocks")
        subject = claims.get("sub")
        if not isinstance(subject, str) or not subject.strip():
            raise AuthError("the token does not say whom it is about ('sub')")
        return JWTAuth(
            sub=subject,
            org_id=_text(claims.get("org_id")) or _text(claims.get("org")),
            email=_text(claims.get("email")),
            scopes=_scopes(claims),
        )


def _parse(token: str) -> _Token:
    parts = token.split(".")
    if len(parts) != 3 or len(token) > MAX_TOKEN_CHARACTERS or not token.isascii():
        raise AuthError("the bearer token is no signed JWT")
    try:
        header, claims = (jsontext.decode(assertions.decoded(part)) for part in parts[:2])
        signature = assertions.decoded(parts[2])
    except (assertions.AssertionRefused, jsontext.NotJSON) as problem:
        raise AuthError("the bearer token is no signed JWT") from problem
    if not isinstance(header, dict) or not isinstance(claims, dict):
        raise AuthError("the bearer token is no signed JWT")
    return _Token(header, claims, f"{parts[0]}.{parts[1]}".encode(), signature)


def _time(claims: JSONObject, name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise AuthError(f"the token has no time {name!r}")
    return value


def _text(value: JSON) -> str | None:
    return value if isinstance(value, str) and value else None


def _scopes(claims: JSONObject) -> tuple[str, ...]:
    """The first of `scope`, `scopes`, `scp` that is there: a list, or words with spaces between them."""
    named = next((claims[name] for name in ("scope", "scopes", "scp") if name in claims), None)
    if isinstance(named, str):
        return tuple(named.split())
    return tuple(one for one in named if isinstance(one, str)) if isinstance(named, list) else ()


def _is_for_signatures(key: Mapping[str, Any], algorithm: str) -> bool:
    operations = key.get("key_ops")
    return (
        key.get("use", "sig") == "sig"
        and key.get("alg", algorithm) == algorithm
        and (operations is None or (isinstance(operations, list) and "verify" in operations))
    )


class _KeySet:
    """JWKS cache: fresh for 300 s, and asked again at most every 30 s for a key that it lacks."""

    def __init__(self, source: str | Path | Mapping[str, Any]) -> None:
        self._source = source
        self._known: list[Mapping[str, Any]] = []
        self._known_since = self._asked_at = float("-inf")
        self._has_document = False
        self._fetching = asyncio.Lock()
        if isinstance(source, Mapping):
            self._accept(dict(source))

    async def find(self, kid: str | None) -> Mapping[str, Any] | None:
        """The key of a token; None when there is none. Raises _KeysUnavailable without a document."""
        if isinstance(self._source, Mapping):
            return self._named(kid)
        async with self._fetching:
            age = time.monotonic() - self._known_since
            is_missing = self._named(kid) is None
            if age >= FRESH_SECONDS or is_missing:
                await self._refresh(must=age >= FRESH_SECONDS and not self._has_document)
            if not self._has_document or time.monotonic() - self._known_since >= STALE_SECONDS:
                raise _KeysUnavailable("the keys of the issuer cannot be fetched; try again in 30 s")
            return self._named(kid)

    def _named(self, kid: str | None) -> Mapping[str, Any] | None:
        if kid is None:
            return self._known[0] if len(self._known) == 1 else None
        found = [key for key in self._known if key.get("kid") == kid]
        if not found and len(self._known) == 1 and "kid" not in self._known[0]:
            found = self._known
        return found[0] if len(found) == 1 else None

    async def _refresh(self, *, must: bool) -> None:
        now = time.monotonic()
        if now - self._asked_at < (1.0 if must else REFETCH_SECONDS):
            return
        self._asked_at = now
        try:
            self._accept(await self._document())
            self._known_since = now
        except (OSError, ValueError) as problem:
            log.warning("the JWKS of the issuer could not be read: %s", problem)

    async def _document(self) -> JSON:
        source = str(self._source)
        if source.startswith(("http://", "https://")):
            from molecule_skill.http_client import HttpClient

            client = HttpClient(allow_private=True)
            try:
                reply = await client.send("GET", source, timeout=5.0, max_bytes=MAX_DOCUMENT_BYTES)
            finally:
                await client.close()
            if reply.status != 200:
                raise ValueError(f"it was answered with the status {reply.status}")
            return jsontext.decode(reply.body)
        return json.loads(await asyncio.to_thread(Path(source).read_bytes))

    def _accept(self, document: JSON) -> None:
        listed = document.get("keys") if isinstance(document, dict) else None
        if not isinstance(listed, list):
            raise ValueError("it is no JWKS document: {'keys': […]}")
        self._known = [cast("Mapping[str, Any]", key) for key in listed if isinstance(key, dict)]
        self._has_document = True
