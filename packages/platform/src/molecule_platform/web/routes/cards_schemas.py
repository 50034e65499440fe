"""Cards of agents, as the gateway shows them."""

from typing import Any

from molecule_platform.domain.authorisation import PUBLIC, Who, org_with
from molecule_platform.domain.cards import READERS
from molecule_platform.web.pipeline.route import Route

_AGENT = "/agents/{id}"
# What a credential may be refused for, on a route that also serves those without one.
_CREDENTIALS = (
    "unauthenticated",
    "invalid-token",
    "token-revoked",
    "token-expired",
    "forbidden",
    "scope-required",
    "identity-mismatch",
    "forged-identity",
    "not-found",
)


def _card(name: str, path: str, who: tuple[Who, ...], summary: str, *status: int, **more: Any) -> Route:
    return Route(
        name,
        "GET",
        _AGENT + path,
        who,
        summary,
        reply=dict[str, Any],
        status=(200, *status),
        errors="a2a",
        quiet=True,
        **more,
    )


def _well_known(path: str, summary: str) -> Route:
    who = (PUBLIC, *READERS)
    return _card("card.show", path, who, summary, 304, refusals=_CREDENTIALS, has_head=True)


ROUTES = (
    _well_known("/.well-known/agent-card.json", "The card of an agent; everybody's, if it is public."),
    _well_known("/.well-known/agent.json", "The card at its former address."),
    _card(
        "card.original",
        "/.well-known/agent-card.original.json",
        (org_with("org.read"),),
        "The card as the agent registered it.",
        304,
    ),
    _card("card.extended", "/extendedAgentCard", READERS, "The card for callers who are known.", 304),
    _card("card.extended", "/{tenant}/extendedAgentCard", READERS, "The same, for a tenant.", 304),
    _card("card.extended-0.3", "/v1/card", READERS, "The card for callers who are known, in 0.3.", 304),
)
