"""Who may give the agent work.

The platform proves itself by a signed assertion about the caller. Where that cannot be checked, only a
request straight from this machine is let in. A dispatch secret, if there is one, is asked for as well.
"""

import hmac
import ipaddress
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Literal, TypeAlias

from molecule_agent import errors
from molecule_agent.a2a_server import callers, web
from molecule_wire.assertions import HEADER

VerifyCallers: TypeAlias = bool | Literal["auto"]

_EXTRA = "molecule-ai-sdk[crypto]"
_NAME_IT = "name the platform, with platform_url=, client= or MOLECULE_PLATFORM_URL"
_REMEDY = f"{_NAME_IT}, so that its calls can be checked, or pass verify_callers=False"
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
    """The rule for one server. `platform` gives the URL of the platform, or nothing while none is known."""

    def __init__(
        self,
        host: str,
        verify_callers: VerifyCallers,
        dispatch_secret: str | None,
        check: callers.Callers,
        platform: Callable[[], str],
    ) -> None:
        self._on_loopback = is_loopback(host)
        self._verify_callers = verify_callers
        self._secret = dispatch_secret or ""
        self._callers = check
        self._platform = platform

    def check_at_start(self) -> None:
        """Refuse to serve where nobody could be refused later."""
        if self._verify_callers is False:
            log.warning("the server does not verify its callers: anybody who reaches it gives the agent work")
            return
        if self._verify_callers is True and not self._platform():
            raise errors.ConfigurationError(f"callers cannot be verified: {_NAME_IT}")
        if not callers.can_verify() and (self._verify_callers is True or not self._on_loopback):
            raise errors.ConfigurationError(
                f"callers cannot be verified: install the extra {_EXTRA}, bind the server to 127.0.0.1, "
                "or pass verify_callers=False"
            )

    def admit(self, request: web.Incoming) -> web.Incoming | web.Outgoing:
        """The request with the caller who was verified, or the answer that says why it is not served."""
        if self._secret and not self._has_secret(request):
            return _unverified("the dispatch secret is missing or wrong")
        if self._verify_callers is False:
            return request
        platform = self._platform()
        if platform and callers.can_verify():
            return self._verified(request, platform)
        return request if _is_direct(request) else _unverified(_only_direct(bool(platform)))

    def _verified(self, request: web.Incoming, platform: str) -> web.Incoming | web.Outgoing:
        token, row = request.header(HEADER), request.header("X-Molecule-Message-Id")
        if not token:
            return _unverified(f"{HEADER} is missing: only the platform may call this agent")
        try:
            caller = self._callers.caller(token, platform, body=request.body, row=row)
        except errors.CallerAssertionError as problem:
            return web.refusal(401, f"{HEADER} is not valid: {problem}", "caller-assertion-invalid")
        except callers.KeysUnavailable as problem:
            log.warning("a call is put off: %s", problem)
            return web.busy(f"the caller cannot be verified now: {problem}", "agent-busy")
        return replace(request, caller=caller)

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


def _only_direct(platform_known: bool) -> str:
    remedy = f"install the extra {_EXTRA}" if platform_known else _REMEDY
    return f"only direct requests from this machine are served; {remedy}"


def _unverified(sentence: str) -> web.Outgoing:
    return web.refusal(401, f"caller not verified: {sentence}", "caller-unverified")
