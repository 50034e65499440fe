"""Callers of a served agent: which resolver verifies them, and what is refused before anybody is asked.

A resolver is asked once per request. The gate asks too, and finds what was resolved already: an assertion of
the platform is good for one use.
"""

import functools
import ipaddress
import os
from collections.abc import Awaitable, Mapping
from contextvars import ContextVar
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel

from molecule_skill.auth import NoAuthResolver
from molecule_skill.errors import AuthError
from molecule_skill.identity import AuthResolver
from molecule_skill.serve.asgi import AsgiRequest
from molecule_wire.callers import is_loopback

_SIGNS_OF_A_PROXY = frozenset(
    {"forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"}
)

_resolved: ContextVar[BaseModel | None] = ContextVar("molecule_skill_caller", default=None)


class RefusedToStart(RuntimeError):
    """The server does not start as it is configured; the text says what to change."""


def choose_resolver(agent: Any, resolver: AuthResolver | None) -> AuthResolver:
    """The resolver of a server: the one given, the agent's own, the platform's in a workspace, or none."""
    if resolver is not None:
        return resolver
    own: AuthResolver | None = agent.auth_resolver
    if own is not None:
        return own
    if os.environ.get("PLATFORM_URL") and os.environ.get("WORKSPACE_ID"):
        from molecule_skill.auth import PlatformResolver

        return PlatformResolver()
    return NoAuthResolver()


def check_bind(resolver: AuthResolver, host: str) -> None:
    """Raise RefusedToStart for a server that would let in everybody in the network."""
    if isinstance(resolver, NoAuthResolver) and not is_loopback(host):
        raise RefusedToStart(
            f"refusing to listen on {host} without authentication: anybody who reaches this port could run "
            "the skills. Set auth_resolver on the agent (APIKeyAuthResolver, JWTAuthResolver), run it behind "
            "the platform (PLATFORM_URL and WORKSPACE_ID), or listen on 127.0.0.1"
        )


class OncePerRequest:
    """An `AuthResolver` that answers the gate with what this request's caller was found to be."""

    def __init__(self, inner: AuthResolver) -> None:
        self.inner = inner

    def resolve(
        self, token: str | None, *, headers: Mapping[str, str], agent: str
    ) -> BaseModel | Awaitable[BaseModel]:
        """The caller of this request. Raises AuthError."""
        model = _resolved.get()
        if model is not None:
            return model
        found = self.inner.resolve(token, headers=headers, agent=agent)
        if not isinstance(found, BaseModel):
            return self._awaited(found)
        _resolved.set(found)
        return found

    async def _awaited(self, finding: Awaitable[BaseModel]) -> BaseModel:
        model = await finding
        _resolved.set(model)
        return model

    def principal_id(self, model: BaseModel) -> str:
        """See `AuthResolver`."""
        return self.inner.principal_id(model)


def begin_request() -> None:
    """Forget the caller of the request before: some clients send several from one task."""
    if _resolved.get() is not None:
        _resolved.set(None)


def check_origin(request: AsgiRequest, resolver: AuthResolver) -> None:
    """Refuse what a web page made a browser send, and every stranger, where nobody is asked who they are.

    Raises AuthError. A page of another site reaches a loopback port by its own name (DNS rebinding), which
    `Host` shows, or names itself in `Origin`.
    """
    if not isinstance(resolver, NoAuthResolver):
        return
    named_origin = request.headers.get("origin")
    if named_origin is not None:
        own_origin = f"{request.scope.get('scheme', 'http')}://{request.headers.get('host', '')}"
        if named_origin != own_origin:
            raise AuthError("requests of other web pages are not served here", 403)
    headers = request.headers
    is_passed_on = not _SIGNS_OF_A_PROXY.isdisjoint(headers) and any(map(headers.get, _SIGNS_OF_A_PROXY))
    if is_passed_on or not _is_near(request.peer):
        raise AuthError("this agent asks for no credential, so it serves its own machine only")
    server = request.scope.get("server")
    if server and _is_loopback(str(server[0])) and not _names_loopback(request.headers.get("host", "")):
        raise AuthError("the header Host does not name this machine: use http://127.0.0.1 or localhost", 403)


# Parsing an address took a tenth of a small request.
_is_loopback = functools.lru_cache(maxsize=1024)(is_loopback)


@functools.lru_cache(maxsize=1024)
def _is_near(peer: str) -> bool:
    """Whether a peer is on this machine; one that is no address is a test client in this process."""
    try:
        ipaddress.ip_address(peer)
    except ValueError:
        return bool(peer)
    return is_loopback(peer)


@functools.lru_cache(maxsize=1024)
def _names_loopback(host: str) -> bool:
    try:
        return is_loopback(urlsplit(f"//{host}").hostname or "")
    except ValueError:
        return False
