"""Authentication resolvers: the interface, the one that asks nobody, and API keys."""

import hashlib
import hmac
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from pydantic import BaseModel

from molecule_skill.errors import AuthError
from molecule_skill.identity import NOBODY, APIKeyAuth, AuthResolver, NoAuth
from molecule_wire import times

LOCAL_PRINCIPAL = "local"


class NoAuthResolver(AuthResolver):
    """Asks nobody. Servers use it on a loopback address only, where every caller is the same person."""

    def resolve(self, token: str | None, *, headers: Mapping[str, str], agent: str) -> NoAuth:
        """Any caller."""
        return NOBODY

    def principal_id(self, model: BaseModel) -> str:
        """The one principal of a server that asks nobody."""
        return LOCAL_PRINCIPAL


class APIKeyAuthResolver(AuthResolver):
    """API keys, kept as digests: each is `{"id", "sha256", "scopes"?, "expires_at"?}`.

    `sha256` is the digest of the key in hexadecimal. `expires_at` is a datetime with its zone, RFC 3339 text
    or seconds since the epoch.
    """

    def __init__(self, keys: Sequence[Mapping[str, Any]], *, clock: Callable[[], float] = time.time) -> None:
        if not keys:
            raise ValueError("no API keys are configured: give at least one {'id', 'sha256'}")
        self._keys = [_ApiKey(key) for key in keys]
        self._clock = clock
        named = [key.auth.api_key_id for key in self._keys]
        if len(set(named)) != len(named):
            raise ValueError("two API keys have the same id: give each an id of its own")

    def resolve(self, token: str | None, *, headers: Mapping[str, str], agent: str) -> APIKeyAuth:
        """The key whose digest fits. Raises AuthError."""
        if not token:
            raise AuthError("an API key is needed: send it as 'Authorization: Bearer <key>'")
        digest = hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()
        found: _ApiKey | None = None
        for key in self._keys:  # every key is compared, so the time tells nothing about which one fits
            if hmac.compare_digest(digest, key.digest):
                found = key
        if found is None:
            raise AuthError("the API key is not known here")
        if found.expires_at is not None and self._clock() >= found.expires_at:
            raise AuthError("the API key has expired: ask the operator for a new one")
        return found.auth

    def principal_id(self, model: BaseModel) -> str:
        """`key:` and the id of the key."""
        return f"key:{cast('APIKeyAuth', model).api_key_id}"


class _ApiKey:
    """One configured key."""

    def __init__(self, keys: Mapping[str, Any]) -> None:
        unknown = sorted(set(keys) - {"id", "sha256", "scopes", "expires_at"})
        name, digest = keys.get("id"), keys.get("sha256")
        if not isinstance(name, str) or not name.strip() or unknown:
            raise ValueError("an API key is {'id', 'sha256', 'scopes'?, 'expires_at'?} and nothing else")
        if not isinstance(digest, str) or not _is_digest(digest):
            raise ValueError(
                f"the API key {name!r} needs 'sha256': 64 hexadecimal digits, never the key itself"
            )
        self.digest = digest.lower()
        if hashlib.sha256(name.encode()).hexdigest() == self.digest:
            raise ValueError("the id of an API key is shown in logs: it must not be the key")
        scopes = keys.get("scopes") or ()
        if isinstance(scopes, str):
            raise ValueError(f"the scopes of the API key {name!r} are a list of texts")
        self.auth = APIKeyAuth(api_key_id=name, scopes=tuple(scopes))
        self.expires_at = _seconds(keys.get("expires_at"))


def _is_digest(text: str) -> bool:
    return len(text) == 64 and all(digit in "0123456789abcdef" for digit in text.lower())


def _seconds(moment: Any) -> float | None:
    if moment is None:
        return None
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise ValueError("expires_at needs its zone: use datetime.now(UTC) + …")
        return moment.timestamp()
    if isinstance(moment, str):
        return times.parse_time(moment).timestamp()
    return float(moment)


def bearer_token(headers: Mapping[str, str]) -> str | None:
    """The token of `Authorization: Bearer …`; None without one. Names of headers are in lower case."""
    header = headers.get("authorization")
    if not header:
        return None
    scheme, _, token = header.partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None
