"""Secrets that prove identity: how they are made, kept and compared."""

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass
from datetime import datetime

from molecule_wire.values import value

PREFIX_LENGTH = 8
TOKEN_BYTES = 32


def new_token() -> str:
    """32 random bytes, base64url without padding: 43 characters."""
    return base64.urlsafe_b64encode(secrets.token_bytes(TOKEN_BYTES)).rstrip(b"=").decode()


def digest(token: str) -> str:
    """What is stored instead of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def same(left: str, right: str) -> bool:
    """Whether two secrets are equal, in constant time."""
    return hmac.compare_digest(left.encode(), right.encode())


def bound(secret_digest: str, to: str) -> str:
    """Proof that something was made by whoever held a secret, of no use for anything else."""
    return hmac.new(secret_digest.encode(), to.encode(), hashlib.sha256).hexdigest()


def csrf_token(session_token: str) -> str:
    """The proof that a page holds the session it was made for: derived from it, so nothing is stored."""
    idempotent_handler = hmac.new(session_token.encode(), b"molecule-csrf", hashlib.sha256).digest()
    return base64.urlsafe_b64encode(idempotent_handler).rstrip(b"=").decode()


@value
class Token:
    """A row of `tokens`: never the token itself, only its digest and its first characters."""

    id: str
    org_id: str
    kind: str
    token_hash: str
    prefix: str
    scopes: list[str]
    created_by: str
    created_at: datetime
    workspace_id: str | None = None
    name: str = ""
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None
    revoke_reason: str | None = None
    recovery_hash: str | None = None
    # The person who made it, perhaps through other tokens, and with whom it ends; empty for an agent's own.
    ends_with: str = ""


@dataclass(frozen=True)
class EnrolmentToken:
    """A row of `enrolment_tokens`: yields one token of a workspace, no more than its issuer could mint."""

    token_hash: str
    org_id: str
    workspace_id: str
    scopes: list[str]
    created_by: str
    created_at: datetime
    expires_at: datetime
    # When the token that it yields ends: together with its issuer's credential, if that ends.
    token_expires_at: datetime | None = None
    used_at: datetime | None = None
    ends_with: str = ""


@dataclass(frozen=True)
class Session:
    """A row of `sessions`: a person's signed-in browser.

    `token_id` is the token it was exchanged for, or proof of the administrator's: it ends together with that.
    """

    token_hash: str
    org_id: str
    user: str
    role: str
    scopes: list[str]
    created_at: datetime
    expires_at: datetime
    seen_at: datetime
    revoked_at: datetime | None = None
    token_id: str | None = None


@dataclass(frozen=True)
class LoginCode:
    """A row of `login_codes`: a one-time link somebody may sign in with."""

    code_hash: str
    org_id: str
    user: str
    role: str
    created_at: datetime
    expires_at: datetime
    used_at: datetime | None = None


@dataclass(frozen=True)
class StreamTicket:
    """A row of `stream_tickets`: opens one stream, as the principal of the credential it was made with.

    `org_id` is the organisation in which it was made, any for the administrator.
    """

    ticket_hash: str
    org_id: str
    credential: str
    created_at: datetime
    expires_at: datetime
    used_at: datetime | None = None
