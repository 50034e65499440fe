"""Who may give the agent work.

The platform proves itself by a signed assertion about the caller; a dispatch secret, if there is one, is
asked for as well. Where signatures cannot be checked the secret alone proves it, and where there is none
either, only a request straight from this machine is let in.
"""

import hmac
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from molecule_agent import errors
from molecule_agent.a2a_server import callers, http_messages
from molecule_wire.a2a.server.bindings import AgentBusy, Response, refusal
from molecule_wire.assertions import HEADER
from molecule_wire.callers import is_direct

VerifyCallers: TypeAlias = bool | Literal["auto"]

_EXTRA = "molecule-ai-sdk[crypto]"
_NAME_IT = "name the platform, with platform_url=, client= or MOLECULE_PLATFORM_URL"
_REMEDY = f"{_NAME_IT}, so that its calls can be checked, or pass verify_callers=False"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Admission:
    """The rule for one server. `platform` gives the URL of the platform, or nothing while none is known.

    `is_announced` tells whether the platform knows the dispatch secret by now.
    """

    verify_callers: VerifyCallers
    dispatch_secret: str
    callers: callers.Callers
    platform: Callable[[], str]
    is_announced: Callable[[], bool] = lambda: True

    def check_at_start(self) -> None:
        """Refuse to serve where nobody could be refused later."""
        if self.verify_callers is False:
            log.warning("the server does not verify its callers: anybody who reaches it gives the agent work")
            return
        if self.verify_callers is True and not self.platform():
            raise errors.ConfigurationError(f"callers cannot be verified: {_NAME_IT}")
        if self.verify_callers is True and not callers.can_verify():
            raise errors.ConfigurationError(f"callers cannot be verified: install the extra {_EXTRA}")

    def admit(self, request: http_messages.ServerRequest) -> http_messages.ServerRequest | Response:
        """The request with the caller who was verified, or the answer that says why it is not served.

        Its body was not read yet: whether the assertion was made for the message in it is asked later.
        """
        checks = callers.can_verify()
        if self.dispatch_secret and not self._has_secret(request):
            if not self.is_announced():
                return AgentBusy("the agent is about to register").response
            beside = "" if checks else f"; to go by signatures, install the extra {_EXTRA}"
            return _unverified(f"the dispatch secret is missing or wrong{beside}")
        if self.verify_callers is False:
            return request
        platform = self.platform()
        if checks and platform:
            return self._verified(request, platform)
        if self.dispatch_secret and not checks:
            return self._verified(request, "") if request.header(HEADER) else request
        if is_direct(request.peer_address, request.headers):
            return request
        remedy = f"install the extra {_EXTRA}" if platform else _REMEDY
        return _unverified(f"only direct requests from this machine are served; {remedy}")

    def _verified(
        self, request: http_messages.ServerRequest, platform: str
    ) -> http_messages.ServerRequest | Response:
        """The request with the caller of its assertion; without a platform, whose secret vouches for it."""
        token, row = request.header(HEADER), request.header("X-Molecule-Message-Id")
        if not token:
            return _unverified(f"{HEADER} is missing: only the platform may call this agent")
        try:
            vouched = not platform
            caller = (
                self.callers.vouched(token, row) if vouched else self.callers.caller(token, platform, row=row)
            )
        except errors.CallerAssertionError as problem:
            return refusal(401, f"{HEADER} is not valid: {problem}", "caller-assertion-invalid")
        except callers.KeysUnavailable as problem:
            log.warning("a call is put off: %s", problem)
            return AgentBusy(f"the caller cannot be verified now: {problem}").response
        return replace(request, caller=caller)

    def _has_secret(self, request: http_messages.ServerRequest) -> bool:
        scheme, _, secret = request.header("Authorization").partition(" ")
        same = hmac.compare_digest(secret.strip().encode(), self.dispatch_secret.encode())
        return same and scheme.lower() == "bearer"


def _unverified(sentence: str) -> Response:
    return refusal(401, f"caller not verified: {sentence}", "caller-unverified")
