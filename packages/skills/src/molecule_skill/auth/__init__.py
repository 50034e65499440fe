"""Authentication of callers: who runs a skill, as a typed model that the handler sees as `ctx.auth`.

A resolver turns the credential of one request into a model, or raises `AuthError`. A server has one
resolver; nothing else in a request establishes identity. `JWTAuthResolver` and `PlatformResolver` need the
extra `crypto` when they verify the first signature, and are imported when somebody names them.
"""

import importlib
from typing import TYPE_CHECKING, Any

from molecule_skill.auth.resolvers import APIKeyAuthResolver, NoAuthResolver, bearer_token
from molecule_skill.errors import AuthError
from molecule_skill.identity import APIKeyAuth, AuthResolver, JWTAuth, NoAuth, PlatformAuth

if TYPE_CHECKING:
    from molecule_skill.auth.jwt import JWTAuthResolver
    from molecule_skill.auth.platform import PlatformResolver

_LAZY = {"JWTAuthResolver": "molecule_skill.auth.jwt", "PlatformResolver": "molecule_skill.auth.platform"}

__all__ = [
    "APIKeyAuth",
    "APIKeyAuthResolver",
    "AuthError",
    "AuthResolver",
    "JWTAuth",
    "JWTAuthResolver",
    "NoAuth",
    "NoAuthResolver",
    "PlatformAuth",
    "PlatformResolver",
    "bearer_token",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'molecule_skill.auth' has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)
