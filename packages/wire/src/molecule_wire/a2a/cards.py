"""Agent cards as agents write them, of 1.0, of 0.3 or just a name, read into the members of 1.0.

What is read holds only members that 1.0 knows, in their types, and nothing empty: then whoever checks a
signature over it gets the same bytes, whatever they do with members that are unknown, empty or by default.
"""

import math
from typing import NamedTuple

from molecule_wire import JSON, JSONObject, jcs
from molecule_wire.a2a import errors, versions

DEFAULT_VERSION = "1.0.0"
DEFAULT_MODES: tuple[str, ...] = ("text/plain",)
MAX_DEPTH = 32


class Interface(NamedTuple):
    """One way to reach an agent; where it is reached is said apart."""

    binding: str
    version: str
    tenant: str = ""


def read(given: JSONObject, name: str) -> JSONObject:
    """The members that describe an agent, in the form of 1.0; `name` stands in for a missing one.

    How it is reached and what that needs (interfaces, security, signatures) is not among them.
    """
    named = _text(given.get("name")) or name
    card: JSONObject = {
        "name": named,
        "description": _text(given.get("description")) or named,
        "version": _text(given.get("version")) or DEFAULT_VERSION,
        "provider": _provider(given.get("provider")),
        "documentationUrl": _text(given.get("documentationUrl")),
        "iconUrl": _text(given.get("iconUrl")),
        "capabilities": {"extensions": _extensions(given.get("capabilities"))},
        "defaultInputModes": _texts(given.get("defaultInputModes")) or list[JSON](DEFAULT_MODES),
        "defaultOutputModes": _texts(given.get("defaultOutputModes")) or list[JSON](DEFAULT_MODES),
        "skills": _skills(given.get("skills"), named),
    }
    kept = without_empty(card)
    assert isinstance(kept, dict)
    return kept


def interfaces(given: JSONObject) -> list[Interface]:
    """The ways that a card names, the preferred one first; versions as Major.Minor."""
    if _objects(given.get("supportedInterfaces")):
        found = [_interface(one) for one in _objects(given["supportedInterfaces"])]
    else:
        found = _interfaces_0_3(given)
    return [one for one in found if one.binding and one.version]


def extension_uris(given: JSONObject, *, required: bool = False) -> list[str]:
    """The extensions that a card declares, or those of them that callers must ask for."""
    declared = (one for one in _extensions(given.get("capabilities")) if isinstance(one, dict))
    return [str(one["uri"]) for one in declared if not required or one.get("required") is True]


def without_empty(value: JSON, depth: int = MAX_DEPTH) -> JSON:
    """The value without empty texts, arrays, objects and nulls at any depth; None when nothing is left."""
    if isinstance(value, dict):
        kept = {name: inner for name, member in value.items() if _is_there(inner := _inner(member, depth))}
        return kept or None
    if isinstance(value, list):
        return [inner for member in value if _is_there(inner := _inner(member, depth))] or None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _number(value)
    return None if value == "" else value


def _inner(value: JSON, depth: int) -> JSON:
    return without_empty(value, depth - 1) if depth else None


def _is_there(value: JSON) -> bool:
    return value is not None


def _number(value: float) -> float | None:
    """A number that every reader takes for the same."""
    if isinstance(value, int) and abs(value) <= jcs.LARGEST_WHOLE:
        return value
    try:
        double = float(value)
    except OverflowError:
        return None
    return double if math.isfinite(double) else None


def _interface(given: JSONObject) -> Interface:
    version = _spoken(_text(given.get("protocolVersion")) or "1.0")
    return Interface(_text(given.get("protocolBinding")), version, _text(given.get("tenant")))


def _interfaces_0_3(given: JSONObject) -> list[Interface]:
    if not _text(given.get("url")):
        return []
    preferred = _text(given.get("preferredTransport")) or "JSONRPC"
    others = [_text(one.get("transport")) for one in _objects(given.get("additionalInterfaces"))]
    return [Interface(binding, "0.3") for binding in dict.fromkeys([preferred, *others])]


def _spoken(version: str) -> str:
    try:
        return versions.supported(version)
    except errors.A2AError:
        return ""


def _provider(given: JSON) -> JSON:
    if not isinstance(given, dict):
        return None
    organization, url = _text(given.get("organization")), _text(given.get("url"))
    return {"organization": organization, "url": url} if organization and url else None


def _extensions(capabilities: JSON) -> list[JSON]:
    declared = capabilities.get("extensions") if isinstance(capabilities, dict) else None
    return [_extension(one) for one in _objects(declared) if _text(one.get("uri"))]


def _extension(given: JSONObject) -> JSONObject:
    params = given.get("params")
    extension: JSONObject = {
        "uri": _text(given.get("uri")),
        "description": _text(given.get("description")),
        "params": params if isinstance(params, dict) else None,
    }
    # False is the default, which some leave out of what they sign.
    return {**extension, "required": True} if given.get("required") is True else extension


def _skills(given: JSON, name: str) -> list[JSON]:
    listed = given if isinstance(given, list) else []
    skills = [skill for one in listed if (skill := _skill(one)) is not None]
    chat: JSONObject = {"id": "chat", "name": "Chat", "description": f"Talk to {name}", "tags": ["chat"]}
    return [*skills] or [chat]


def _skill(given: JSON) -> JSONObject | None:
    """A skill; a mere text is the name of one."""
    members: JSONObject = given if isinstance(given, dict) else {"name": given}
    name = _text(members.get("name")) or _text(members.get("id"))
    if not name:
        return None
    skill_id = _text(members.get("id")) or name
    return {
        "id": skill_id,
        "name": name,
        "description": _text(members.get("description")) or name,
        "tags": _texts(members.get("tags")) or [skill_id],
        "examples": _texts(members.get("examples")),
        "inputModes": _texts(members.get("inputModes")),
        "outputModes": _texts(members.get("outputModes")),
    }


def _text(value: JSON) -> str:
    return value if isinstance(value, str) and value.strip() else ""


def _texts(value: JSON) -> list[JSON]:
    return [one for one in value if _text(one)] if isinstance(value, list) else []


def _objects(value: JSON) -> list[JSONObject]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
