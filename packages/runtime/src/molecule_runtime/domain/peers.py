"""A peer as its row and its agent card describe it."""

from collections.abc import Iterable
from dataclasses import dataclass

from molecule_wire import JSON, JSONObject, jsontext


@dataclass(frozen=True)
class PeerProfile:
    """What is known of another workspace. All texts were written by others."""

    id: str
    name: str
    status: str = ""
    role: str = ""
    parent_id: str = ""
    active_tasks: int = 0
    has_card: bool = False
    skill_names: tuple[str, ...] = ()
    skill_ids: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    descriptions: tuple[str, ...] = ()
    """Of the agent and of its skills."""


def peer_of(row: JSONObject) -> PeerProfile:
    """Read a row of `GET /registry/{id}/peers`; whatever is missing or of another type counts as absent."""
    card = card_of(row)
    skills = _objects(card.get("skills"))
    active = row.get("active_tasks")
    named = [(_text(skill.get("name")) or _text(skill.get("id")), _text(skill.get("id"))) for skill in skills]
    return PeerProfile(
        id=_text(row.get("id")),
        name=_text(row.get("name")) or _text(card.get("name")) or _text(row.get("id")),
        status=_text(row.get("status")) or "unknown",
        role=_text(row.get("role")),
        parent_id=_text(row.get("parent_id")),
        active_tasks=active if isinstance(active, int) and not isinstance(active, bool) else 0,
        has_card=bool(card),
        skill_names=tuple(name for name, _ in named if name),
        skill_ids=tuple(skill_id for _, skill_id in named if skill_id),
        tags=tuple(tag for skill in skills for tag in _texts(skill.get("tags"))),
        descriptions=_filled([card.get("description"), *(skill.get("description") for skill in skills)]),
    )


def card_of(row: JSONObject) -> JSONObject:
    """The agent card of a row, which may be JSON in a text; empty when there is none."""
    card = row.get("agent_card")
    if isinstance(card, str):
        try:
            card = jsontext.decode(card.encode())
        except ValueError:
            return {}
    return card if isinstance(card, dict) else {}


def children_of(rows: Iterable[JSONObject], workspace_id: str) -> list[JSONObject]:
    """Of some peers, those whose parent is the workspace."""
    return [row for row in rows if workspace_id and row.get("parent_id") == workspace_id]


def _text(value: JSON) -> str:
    return value.strip() if isinstance(value, str) else ""


def _texts(value: JSON) -> list[str]:
    return list(_filled(value)) if isinstance(value, list) else []


def _objects(value: JSON) -> list[JSONObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _filled(values: Iterable[JSON]) -> tuple[str, ...]:
    return tuple(text for value in values if (text := _text(value)))
