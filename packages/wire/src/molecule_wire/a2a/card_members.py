"""The members that A2A 1.0 knows of a card, as the JSON of protocol buffers writes them.

Readers built on protocol buffers drop what they do not know and never write what is empty or by default. They
sign and check what is left.
"""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple, TypeAlias

from molecule_wire import JSON, JSONObject
from molecule_wire.a2a.cards import without_empty


class Leaf(Enum):
    """A member without members that the protocol names. A false that is the default is not written."""

    PLAIN = "plain"
    FALSE_BY_DEFAULT = "false-by-default"


class Each(NamedTuple):
    """A list whose entries have a shape, or an object whose values have one under any name."""

    shape: "Members"


Shape: TypeAlias = "Leaf | Each | Members"
Members: TypeAlias = Mapping[str, Shape]


def _plain(*names: str, **others: Shape) -> dict[str, Shape]:
    return dict.fromkeys(names, Leaf.PLAIN) | others


_REQUIREMENT = _plain(schemes=Each(_plain("list")))
_FLOWS: Members = {
    "authorizationCode": _plain(
        "authorizationUrl", "tokenUrl", "refreshUrl", "scopes", pkceRequired=Leaf.FALSE_BY_DEFAULT
    ),
    "clientCredentials": _plain("tokenUrl", "refreshUrl", "scopes"),
    "implicit": _plain("authorizationUrl", "refreshUrl", "scopes"),
    "password": _plain("tokenUrl", "refreshUrl", "scopes"),
    "deviceCode": _plain("deviceAuthorizationUrl", "tokenUrl", "refreshUrl", "scopes"),
}
_SCHEME: Members = {
    "apiKeySecurityScheme": _plain("description", "location", "name"),
    "httpAuthSecurityScheme": _plain("description", "scheme", "bearerFormat"),
    "oauth2SecurityScheme": _plain("description", "oauth2MetadataUrl", flows=_FLOWS),
    "openIdConnectSecurityScheme": _plain("description", "openIdConnectUrl"),
    "mtlsSecurityScheme": _plain("description"),
}
_EXTENSION = _plain("uri", "description", "params", required=Leaf.FALSE_BY_DEFAULT)
_SKILL = _plain(
    "id",
    "name",
    "description",
    "tags",
    "examples",
    "inputModes",
    "outputModes",
    securityRequirements=Each(_REQUIREMENT),
)

CARD: Members = _plain(
    "name",
    "description",
    "version",
    "documentationUrl",
    "iconUrl",
    "defaultInputModes",
    "defaultOutputModes",
    supportedInterfaces=Each(_plain("url", "protocolBinding", "tenant", "protocolVersion")),
    provider=_plain("url", "organization"),
    capabilities=_plain("streaming", "pushNotifications", "extendedAgentCard", extensions=Each(_EXTENSION)),
    securitySchemes=Each(_SCHEME),
    securityRequirements=Each(_REQUIREMENT),
    skills=Each(_SKILL),
)
"""What a signature covers: all members of a card but its signatures."""


def known(card: JSONObject) -> JSONObject:
    """The members of 1.0 alone, without any that is empty or by default."""
    kept = without_empty(_known(card, CARD))
    return kept if isinstance(kept, dict) else {}


def _known(value: JSON, shape: Shape) -> JSON:
    if isinstance(shape, Leaf):
        return None if shape is Leaf.FALSE_BY_DEFAULT and value is False else value
    if isinstance(shape, Each):
        return _each(value, shape.shape)
    if not isinstance(value, dict):
        return value
    return {name: _known(value[name], inner) for name, inner in shape.items() if name in value}


def _each(value: JSON, shape: Members) -> JSON:
    if isinstance(value, list):
        return [_known(one, shape) for one in value]
    if isinstance(value, dict):
        return {name: _known(one, shape) for name, one in value.items()}
    return value
