"""Who may give the agent work.

The platform proves itself by a signed assertion. Where that cannot be checked, only a request that carries
the dispatch secret, or one straight from this machine to a server nobody else can reach, is let in.
"""

import hmac
import ipaddress
import logging
from typing import Literal, TypeAlias

from molecule_agent import errors
from molecule_agent.a2a_server import web

VerifyCallers: TypeAlias = bool | Literal["auto"]

_EXTRA = "molecule-ai-sdk[crypto]"
_REMEDY = "bind the server to 127.0.0.1, give it a dispatch_secret, or pass verify_callers=False"
_SIGNS_OF_ANOTHER_ORIGIN = (
    "forwarded",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
    "origin",
)

log = logging.getLogger("molecule_agent")


class Admission:
    """The rule for one server."""

    def __init__(self, host: str, verify_callers: VerifyCallers, dispatch_secret: str | None) -> None:
        self._on_loopback = is_loopback(host)
        self._verify_callers = verify_callers
        self._secret = dispatch_secret or ""

    def check_at_start(self) -> None:
        """Refuse to serve where nobody could be refused later."""
        if self._verify_callers is False:
            log.warning("the server does not verify its callers: anybody who reaches it gives the agent work")
            return
        if self._verify_callers is True or not (self._on_loopback or self._secret):
            raise errors.ConfigurationError(
                f"callers cannot be verified: that needs the extra {_EXTRA}; until then {_REMEDY}"
            )

    def refusal(self, request: web.Incoming) -> web.Outgoing | None:
        """Why a request is not served, or `None` when it is."""
        if self._secret:
            return (
                None if self._has_secret(request) else _unverified("the dispatch secret is missing or wrong")
            )
        if self._verify_callers is False or (self._on_loopback and _is_direct(request)):
            return None
        return _unverified(f"only direct requests from this machine are served; {_REMEDY}")

    def _has_secret(self, request: web.Incoming) -> bool:
        scheme, _, given = request.header("Authorization").partition(" ")
        same = hmac.compare_digest(given.strip().encode(), self._secret.encode())
        return same and scheme.lower() == "bearer"


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def _is_direct(request: web.Incoming) -> bool:
    relayed = any(request.header(name) for name in _SIGNS_OF_ANOTHER_ORIGIN)
    return is_loopback(request.peer_address) and not relayed


def _unverified(sentence: str) -> web.Outgoing:
    return web.refusal(401, f"caller not verified: {sentence}", "caller-unverified")
