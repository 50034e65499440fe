"""Credentials, as the store keeps them: digests only."""

from datetime import datetime
from typing import Protocol

from molecule_platform.domain.credentials import EnrolmentToken, Token


class Tokens(Protocol):
    """Verbs on tokens and on the proofs that replace a lost one."""

    def insert(self, token: Token) -> None:
        """Keep a new token."""
        ...

    def by_hash(self, token_hash: str) -> Token | None:
        """The token with that digest, revoked and expired ones too."""
        ...

    def get(self, token_id: str) -> Token | None:
        """The token with that id, revoked and expired ones too."""
        ...

    def living_of_workspace(self, workspace_id: str, now: datetime) -> list[Token]:
        """The tokens of a workspace that are good, oldest first."""
        ...

    def living_of_org(self, org_id: str, now: datetime) -> list[Token]:
        """The organisation's own tokens that are good, oldest first."""
        ...

    def end_at(self, token_id: str, at: datetime) -> None:
        """Let a token, and its recovery secret, end at a time of its own."""
        ...

    def by_recovery_hash(self, workspace_id: str, recovery_hash: str) -> Token | None:
        """The live token of the workspace that was issued with that recovery secret."""
        ...

    def used(self, token_id: str, at: datetime) -> None:
        """Remember when a token was last used."""
        ...

    def ending_with(self, person: str, org_id: str | None, now: datetime) -> list[Token]:
        """The good tokens that end with a person, in one organisation or in all of them."""
        ...

    def revoke(self, token_id: str, at: datetime, reason: str) -> None:
        """End one token and its recovery secret."""
        ...

    def revoke_all(self, workspace_id: str, at: datetime, reason: str) -> None:
        """End every live token of a workspace."""
        ...

    def insert_enrolment(self, enrolment: EnrolmentToken) -> None:
        """Keep a new enrolment token."""
        ...

    def enrolment(self, workspace_id: str, token_hash: str, now: datetime) -> EnrolmentToken | None:
        """The enrolment token of the workspace with that digest, if it can be spent."""
        ...

    def end_enrolments(self, workspace_id: str) -> None:
        """Forget the enrolment tokens of a workspace that were not spent."""
        ...

    def end_enrolments_with(self, person: str, org_id: str | None) -> None:
        """Forget those that end with a person and nobody spent, in one organisation or in all of them."""
        ...

    def use_enrolment(self, workspace_id: str, token_hash: str, now: datetime) -> bool:
        """Spend an enrolment token; False when it is unknown, spent, expired or another workspace's."""
        ...
