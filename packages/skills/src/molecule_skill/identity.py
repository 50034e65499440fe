"""Identity of a caller: the models that `ctx.auth` holds, and what makes them from a credential."""

import functools
import inspect
from collections.abc import Awaitable, Mapping
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict


class _AuthModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class NoAuth(_AuthModel):
    """A caller that proved nothing."""


NOBODY = NoAuth()


class APIKeyAuth(_AuthModel):
    """A caller known by an API key; the id has no characters of the key."""

    api_key_id: str
    scopes: tuple[str, ...] = ()


class JWTAuth(_AuthModel):
    """A caller known by a verified JSON Web Token."""

    sub: str
    org_id: str | None = None
    email: str | None = None
    scopes: tuple[str, ...] = ()


class PlatformAuth(_AuthModel):
    """A caller that the platform vouches for."""

    principal: str
    org_id: str | None = None
    workspace_id: str | None = None
    scopes: tuple[str, ...] = ()
    delegation_depth: int = 0


class AuthResolver(Protocol):
    """Authenticator: turns a credential into a model."""

    def resolve(
        self, token: str | None, *, headers: Mapping[str, str], agent: Any
    ) -> BaseModel | Awaitable[BaseModel]:
        """The caller. Raises `AuthError` for a credential that does not hold; header names are lower case."""
        ...

    def principal_id(self, model: BaseModel) -> str:
        """The caller as one text, the same for the same caller: runs and answers belong to it."""
        ...


async def resolved(resolver: AuthResolver, token: str | None, headers: Mapping[str, str], agent: Any) -> Any:
    """The caller's model, from a resolver that may be synchronous or not."""
    found = resolver.resolve(token, headers=headers, agent=agent)
    return await found if not isinstance(found, BaseModel) and inspect.isawaitable(found) else found


def scopes_of(model: BaseModel) -> tuple[str, ...]:
    """What a caller may do; nothing where its model does not say."""
    return tuple(model.scopes or ()) if _says(type(model), "scopes") else ()  # type: ignore[attr-defined]


def organisation_of(model: BaseModel) -> str | None:
    """The organisation of a caller, where its model says."""
    return model.org_id if _says(type(model), "org_id") else None  # type: ignore[attr-defined]


@functools.lru_cache(maxsize=256)
def _says(model: type[BaseModel], name: str) -> bool:
    """Whether instances have an attribute: pydantic takes its time to find that they have not."""
    return name in model.model_fields or hasattr(model, name) or model.model_config.get("extra") == "allow"
