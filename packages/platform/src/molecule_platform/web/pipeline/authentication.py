"""Coming in: whose credential it is, how often they came, and as whom; for requests and for sockets."""

from collections.abc import Callable
from dataclasses import dataclass

from molecule_platform.domain import credentials
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.principals import Principal
from molecule_platform.services.identity.authentication import (
    AuthenticationService,
    PresentedCredential,
)
from molecule_platform.services.identity.authorizer import Authorizer
from molecule_platform.web.pipeline.concurrency_limits import (
    RETRY_AFTER_SECONDS,
    ConcurrencyLimiter,
    ConcurrencySlot,
)
from molecule_platform.web.pipeline.idempotent_handler import IdempotentHandler
from molecule_platform.web.pipeline.rate_limits import FAILED_LOGIN_COSTS, RateBudget, RateLimiter
from molecule_platform.web.pipeline.request import Request
from molecule_platform.web.pipeline.route import Route

LIVE = "/ws"
_ORG = "x-molecule-org-id"
_ACTED = ("x-workspace-id", "x-source-workspace-id")
_ROLES = frozenset({_ORG, *_ACTED})
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


@dataclass(frozen=True)
class AdmissionControl:
    """Who decides whether a request may come in."""

    identity: AuthenticationService
    authority: Authorizer
    limits: RateLimiter
    idempotent_handler: IdempotentHandler
    open_requests: ConcurrencyLimiter


@dataclass(slots=True)
class AuthContext:
    """What is learnt of one request, or one socket, on its way in."""

    request: Request
    route: Route | None = None
    caller: Principal | None = None
    budget: RateBudget | None = None
    # Counts its connection for a verified principal; False if the principal has too many.
    identify: Callable[[str], bool] = lambda _principal: True
    # Its place among the open requests, which it leaves when it is over.
    slot: ConcurrencySlot | None = None

    def close(self) -> None:
        """It is answered, or its stream or socket has ended."""
        if self.slot is not None:
            self.slot.release()


class Authenticator:
    """Lets in whoever shows a credential, within their limits."""

    def __init__(self, gate: AdmissionControl) -> None:
        self._gate = gate

    async def authenticate(
        self, visit: AuthContext, route: Route, stranger_cost: int = FAILED_LOGIN_COSTS
    ) -> Principal:
        """Return the caller, in its organisation and role. A wrong credential costs the address it came from.

        A visit is counted for the owner of the credential before anything is written down for it.
        """
        presented = presented_credential(visit.request, route)
        try:
            caller = visit.caller = await self._gate.identity.authenticate(presented)
        except ApiError as refusal:
            if refusal.status == 401 and stranger_cost:
                self.count_anonymous(visit, stranger_cost)
            raise
        self._count(visit, route, caller)
        if presented.is_cookie:
            self._check_page(visit.request, route)
        if not _ROLES.isdisjoint(visit.request.headers):
            caller = visit.caller = await self._in_the_role(visit.request, caller)
        return caller

    async def _in_the_role(self, arrival: Request, principal: Principal) -> Principal:
        authority = self._gate.authority
        org = arrival.headers.get(_ORG)
        if org is not None:
            principal = await authority.check_org(principal, org)
        for header in _ACTED:
            named = arrival.headers.get(header)
            if named:
                principal = await authority.acting_as(principal, named, arrival.request_id)
        return principal

    def _check_page(self, arrival: Request, route: Route) -> None:
        """A browser sends its cookie for any page: a change, or a socket, comes from our own."""
        if route.path != LIVE and route.method in _SAFE_METHODS:
            return
        if not arrival.is_from_own_page:
            raise ApiError("csrf", "a browser may do this from our own page only")
        expected = credentials.csrf_token(arrival.session or "")
        if route.path != LIVE and not credentials.same(arrival.headers.get("x-csrf-token", ""), expected):
            raise ApiError("csrf", "a change from the browser needs X-CSRF-Token, from GET /auth/session")

    # How often

    def _count(self, visit: AuthContext, route: Route, caller: Principal) -> None:
        """One more visit of a known caller."""
        if route.unlimited:
            return
        key = caller.text if route.rate is None else f"{route.name} {caller.text}"
        visit.budget = self._gate.limits.take(key, known=True, own=route.rate)
        if visit.budget is not None:
            visit.budget.check()
        if not visit.identify(caller.text):
            text = "you have too many connections: close some of them first"
            raise ApiError("rate-limited", text, retry_after=RETRY_AFTER_SECONDS, limit="connections")
        arrival = visit.request
        # The server counts the connections of every address but those of a trusted proxy.
        by_address = (f"address {arrival.address}",) if arrival.is_proxied else ()
        visit.slot = self._gate.open_requests.acquire(caller.text, *by_address)

    def count_anonymous(self, visit: AuthContext, cost: int = 1) -> None:
        """One more visit that shows no credential, or a wrong one, or finds nothing."""
        route = visit.route
        if route is not None and route.unlimited:
            return
        rate = None if route is None else route.rate
        key = f"address {visit.request.address}" + (f" {route.name}" if route and rate else "")
        visit.budget = self._gate.limits.take(key, known=False, cost=1 if rate else cost, own=rate)
        if visit.budget is not None:
            visit.budget.check()


def presented_credential(arrival: Request, route: Route) -> PresentedCredential:
    """The credentials that a visit shows; a ticket only where a stream is opened."""
    ticket = arrival.first("ticket") if route.stream else None
    return PresentedCredential(arrival.bearer, arrival.session, ticket)
