"""Cards as the gateway shows them: every way leads through it, and it says what the way can carry."""

from typing import Any, Literal, TypeAlias

from molecule_platform.domain.authorisation import org_with, peer_with, self_with
from molecule_wire import JSON, JSONObject
from molecule_wire.a2a import cards
from molecule_wire.a2a.cards import Interface

Form: TypeAlias = Literal["merged", "1.0", "0.3"]

READERS = (self_with(""), peer_with(""), org_with("org.read"))
SCHEME = "molecule"
# A list that is not empty, because some leave empty ones out of what they sign.
_SCOPES: list[JSON] = ["a2a"]
_BEARER: JSONObject = {"scheme": "Bearer", "description": "A token of this organisation."}
_BINDINGS = ("JSONRPC", "HTTP+JSON")
_VERSIONS = ("1.0", "0.3")
_SHARED = (
    "name",
    "description",
    "version",
    "provider",
    "documentationUrl",
    "iconUrl",
    "defaultInputModes",
    "defaultOutputModes",
    "skills",
)


def rewritten(agent_card: dict[str, Any], name: str, url: str, *, push: bool) -> JSONObject:
    """The card of an agent that is reached at `url` of the gateway, in 1.0; `push` says whether we notify."""
    card = cards.read(agent_card, name)
    capabilities = card.get("capabilities", {})
    assert isinstance(capabilities, dict)
    ways = [_as_1_0(way, url) for way in offered(cards.interfaces(agent_card))]
    return {
        **card,
        "supportedInterfaces": [*ways],
        "capabilities": {
            **capabilities,
            "streaming": True,
            "pushNotifications": push,
            "extendedAgentCard": True,
        },
        "securitySchemes": {SCHEME: {"httpAuthSecurityScheme": _BEARER}},
        "securityRequirements": [{"schemes": {SCHEME: {"list": _SCOPES}}}],
    }


def offered(own: list[Interface]) -> list[Interface]:
    """The ways through the gateway: the agent's in their order, without those we cannot carry, then the rest.

    Both versions are always there, because the gateway converts.
    """
    carried = [way for way in own if way.binding in _BINDINGS and way.version in _VERSIONS]
    tenant = next((way.tenant for way in carried if way.version == "1.0"), "")
    known = {(way.binding, way.version) for way in carried}
    missing = [
        Interface(binding, version, tenant if version == "1.0" else "")
        for version in _VERSIONS
        for binding in _BINDINGS
        if (binding, version) not in known
    ]
    return list(dict.fromkeys([*carried, *missing]))


def in_form(card: JSONObject, form: Form) -> JSONObject:
    """A rewritten card in another form; the merged one holds the members of both versions."""
    if form == "1.0":
        return card
    old = _as_0_3(card)
    if form == "0.3":
        return old
    both: JSONObject = {"httpAuthSecurityScheme": _BEARER, **_bearer_0_3()}
    return {**old, **card, "securitySchemes": {SCHEME: both}}


def signed_over(card: JSONObject, form: Form) -> list[JSONObject]:
    """What the signatures of a form cover: its own members, of the merged one also those of 1.0 alone."""
    shown = in_form(card, form)
    return [card, shown] if form == "merged" else [shown]


def _as_1_0(way: Interface, url: str) -> JSONObject:
    shape: JSONObject = {"url": url, "protocolBinding": way.binding, "protocolVersion": way.version}
    return {**shape, "tenant": way.tenant} if way.tenant else shape


def _as_0_3(card: JSONObject) -> JSONObject:
    ways = [way for way in _interfaces_of(card) if way["protocolVersion"] == "0.3"]
    capabilities = dict[str, JSON](card["capabilities"]) if isinstance(card["capabilities"], dict) else {}
    capabilities.pop("extendedAgentCard", None)
    return {
        **{name: card[name] for name in _SHARED if name in card},
        "protocolVersion": "0.3.0",
        "url": ways[0]["url"],
        "preferredTransport": ways[0]["protocolBinding"],
        "additionalInterfaces": [{"url": way["url"], "transport": way["protocolBinding"]} for way in ways],
        "capabilities": capabilities,
        "supportsAuthenticatedExtendedCard": True,
        "securitySchemes": {SCHEME: _bearer_0_3()},
        "security": [{SCHEME: _SCOPES}],
    }


def _interfaces_of(card: JSONObject) -> list[JSONObject]:
    listed = card["supportedInterfaces"]
    assert isinstance(listed, list)
    return [way for way in listed if isinstance(way, dict)]


def _bearer_0_3() -> JSONObject:
    return {"type": "http", **_BEARER}
