"""Signing keys in SQL."""

from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, insert, select, update

from molecule_platform.ports.signing import SigningKey
from molecule_platform.storage.tables import signing_keys


class SqlSigningKeys:
    """See `ports.signing.SigningKeys`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def insert(self, key: SigningKey) -> None:
        """Keep a new key."""
        self._connection.execute(insert(signing_keys).values(asdict(key)))

    def all(self) -> list[SigningKey]:
        """Every key, the newest first."""
        newest = select(signing_keys).order_by(signing_keys.c.created_at.desc(), signing_keys.c.kid)
        return [SigningKey(**row) for row in self._connection.execute(newest).mappings()]

    def reseal(self, kid: str, private_sealed: str) -> None:
        """Keep the same private half under another seal."""
        self._change(kid, private_sealed=private_sealed)

    def retire(self, kid: str, now: datetime) -> None:
        """Another takes over."""
        self._change(kid, retired_at=now)

    def destroy(self, kid: str) -> None:
        """Forget the private half."""
        self._change(kid, private_sealed="")

    def _change(self, kid: str, **values: Any) -> None:
        self._connection.execute(update(signing_keys).where(signing_keys.c.kid == kid).values(values))
