"""Credentials in SQL."""

from dataclasses import asdict, fields
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, bindparam, delete, insert, select, update

from molecule_platform.domain.credentials import EnrolmentToken, Token
from molecule_platform.storage.prepared import Prepared
from molecule_platform.storage.tables import enrolment_tokens, tokens

_ALL = [tokens.c[field.name] for field in fields(Token)]
_BY_HASH = Prepared(select(*_ALL).where(tokens.c.token_hash == bindparam("digest")), _ALL)


class SqlTokens:
    """See `ports.tokens.Tokens`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def insert(self, token: Token) -> None:
        """Keep a new token."""
        self._connection.execute(insert(tokens).values(asdict(token)))

    def by_hash(self, token_hash: str) -> Token | None:
        """The token with that digest."""
        row = _BY_HASH.first(self._connection, {"digest": token_hash})
        return None if row is None else Token(**row)

    def get(self, token_id: str) -> Token | None:
        """The token with that id."""
        row = self._connection.execute(select(tokens).where(tokens.c.id == token_id)).mappings().first()
        return None if row is None else Token(**row)

    def living_of_workspace(self, workspace_id: str, now: datetime) -> list[Token]:
        """The good tokens of a workspace."""
        return self._living(tokens.c.workspace_id == workspace_id, now)

    def living_of_org(self, org_id: str, now: datetime) -> list[Token]:
        """The organisation's own good tokens."""
        return self._living((tokens.c.org_id == org_id) & (tokens.c.kind == "org"), now)

    def _living(self, whose: ColumnElement[bool], now: datetime) -> list[Token]:
        good = tokens.c.revoked_at.is_(None) & (tokens.c.expires_at.is_(None) | (tokens.c.expires_at > now))
        wanted = select(tokens).where(whose, good).order_by(tokens.c.created_at, tokens.c.id)
        return [Token(**row) for row in self._connection.execute(wanted).mappings()]

    def end_at(self, token_id: str, at: datetime) -> None:
        """Let a token end."""
        mine = tokens.c.id == token_id
        self._connection.execute(update(tokens).where(mine).values(expires_at=at, recovery_hash=None))

    def by_recovery_hash(self, workspace_id: str, recovery_hash: str) -> Token | None:
        """The live token issued with that recovery secret."""
        mine = tokens.c.workspace_id == workspace_id
        live = tokens.c.revoked_at.is_(None)
        row = (
            self._connection.execute(
                select(tokens).where(mine, live, tokens.c.recovery_hash == recovery_hash)
            )
            .mappings()
            .first()
        )
        return None if row is None else Token(**row)

    def used(self, token_id: str, at: datetime) -> None:
        """Remember the last use."""
        self._connection.execute(update(tokens).where(tokens.c.id == token_id).values(last_used_at=at))

    def ending_with(self, person: str, org_id: str | None, now: datetime) -> list[Token]:
        """The good tokens that end with a person."""
        theirs = tokens.c.ends_with == person
        return self._living(theirs if org_id is None else theirs & (tokens.c.org_id == org_id), now)

    def revoke(self, token_id: str, at: datetime, reason: str) -> None:
        """End one token."""
        self._connection.execute(
            update(tokens)
            .where(tokens.c.id == token_id)
            .values(revoked_at=at, revoke_reason=reason, recovery_hash=None)
        )

    def revoke_all(self, workspace_id: str, at: datetime, reason: str) -> None:
        """End every live token of a workspace."""
        live = (tokens.c.workspace_id == workspace_id) & tokens.c.revoked_at.is_(None)
        self._connection.execute(
            update(tokens).where(live).values(revoked_at=at, revoke_reason=reason, recovery_hash=None)
        )

    def insert_enrolment(self, enrolment: EnrolmentToken) -> None:
        """Keep a new enrolment token."""
        self._connection.execute(insert(enrolment_tokens).values(asdict(enrolment)))

    def enrolment(self, workspace_id: str, token_hash: str, now: datetime) -> EnrolmentToken | None:
        """An enrolment token that can be spent."""
        found = select(enrolment_tokens).where(_is_fresh(workspace_id, token_hash, now))
        row = self._connection.execute(found).mappings().first()
        return None if row is None else EnrolmentToken(**row)

    def end_enrolments(self, workspace_id: str) -> None:
        """Forget those of a workspace."""
        self._forget_unspent(enrolment_tokens.c.workspace_id == workspace_id)

    def end_enrolments_with(self, person: str, org_id: str | None) -> None:
        """Forget those that end with a person."""
        theirs = enrolment_tokens.c.ends_with == person
        self._forget_unspent(theirs if org_id is None else theirs & (enrolment_tokens.c.org_id == org_id))

    def _forget_unspent(self, whose: ColumnElement[bool]) -> None:
        unspent = enrolment_tokens.c.used_at.is_(None)
        self._connection.execute(delete(enrolment_tokens).where(whose, unspent))

    def use_enrolment(self, workspace_id: str, token_hash: str, now: datetime) -> bool:
        """Spend an enrolment token."""
        fresh = _is_fresh(workspace_id, token_hash, now)
        spent = self._connection.execute(update(enrolment_tokens).where(fresh).values(used_at=now))
        return spent.rowcount == 1


def _is_fresh(workspace_id: str, token_hash: str, now: datetime) -> ColumnElement[bool]:
    column = enrolment_tokens.c
    mine = (column.token_hash == token_hash) & (column.workspace_id == workspace_id)
    return mine & column.used_at.is_(None) & (column.expires_at > now)
