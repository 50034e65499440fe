"""Keys that sign what the platform says of others: in hand, and as the store keeps them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol


@dataclass(frozen=True)
class FreshKey:
    """A key pair just made. `public` is a JWK without `kid`, `alg` and `use`; `private` must not be shown."""

    kid: str
    alg: str
    public: dict[str, Any]
    private: str = field(repr=False)


@dataclass(frozen=True)
class Signer:
    """A private key in hand; `sign` gives the signature of bytes, as JOSE writes it."""

    kid: str
    alg: str
    sign: Callable[[bytes], bytes] = field(repr=False)


@dataclass(frozen=True)
class SigningKey:
    """A row of `signing_keys`; the private half is sealed, and empty once it was destroyed."""

    kid: str
    alg: str
    public: dict[str, Any]
    private_sealed: str
    created_at: datetime
    retired_at: datetime | None = None


class SigningKeys(Protocol):
    """Verbs on signing keys."""

    def insert(self, key: SigningKey) -> None:
        """Keep a new key."""
        ...

    def all(self) -> list[SigningKey]:
        """Every key, the newest first; there are few."""
        ...

    def reseal(self, kid: str, private_sealed: str) -> None:
        """Keep the same private half under another seal."""
        ...

    def retire(self, kid: str, now: datetime) -> None:
        """Another key takes over from this one."""
        ...

    def destroy(self, kid: str) -> None:
        """Forget the private half of a key; the public one stays."""
        ...
