"""The card of a workspace, as the platform and its peers read it."""

from collections.abc import Iterable
from typing import Any

from molecule_wire import JSON, JSONObject

MODES: list[JSON] = ["text/plain", "application/json"]


def agent_card(config: Any, url: str, skills: Iterable[Any] = ()) -> JSONObject:
    """The card of a workspace config; one skill stands for all when none was loaded."""
    listed: list[JSON] = [_skill(skill.metadata) for skill in skills]
    fallback: JSONObject = {
        "id": "default",
        "name": config.name,
        "description": config.description or f"Talks to {config.name}",
        "tags": [],
        "examples": [],
    }
    return {
        "name": config.name,
        "description": config.description,
        "version": config.version,
        "url": url,
        "skills": listed or [fallback],
        "defaultInputModes": MODES,
        "defaultOutputModes": MODES,
        "capabilities": {"streaming": bool(config.a2a.streaming), "pushNotifications": False},
        "securitySchemes": {"bearer": {"httpAuthSecurityScheme": {"scheme": "bearer"}}},
        "securityRequirements": [{"schemes": {"bearer": {"list": []}}}],
    }


def _skill(metadata: Any) -> JSONObject:
    return {
        "id": metadata.id,
        "name": metadata.name,
        "description": metadata.description,
        "tags": [*metadata.tags],
        "examples": [*metadata.examples],
    }
