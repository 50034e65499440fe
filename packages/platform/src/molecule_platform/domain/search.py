"""Searching agents: what a card says of its agent, and how well that fits a question."""

from dataclasses import dataclass
from typing import Any, cast

NAME_EQUAL, SKILL_EQUAL, NAME_PART, TAG_EQUAL, TEXT_PART = 8, 6, 4, 3, 1


class Unreadable(ValueError):
    """The card does not have the form of an agent card. The text says where."""


@dataclass(frozen=True)
class Skill:
    """One skill of a card, in lower case."""

    names: frozenset[str]
    tags: frozenset[str]
    description: str = ""


@dataclass(frozen=True)
class Facts:
    """What an agent says of itself, ready to be compared: all in lower case, but for capabilities."""

    names: tuple[str, ...]
    skills: frozenset[str]
    tags: frozenset[str]
    capabilities: frozenset[str]
    text: str

    def score(self, query: str) -> int:
        """How well the agent fits: the points of all words, or of the words as one text; 0 for not at all."""
        words = query.casefold().split()
        points = [self._points(word) for word in words]
        return max(sum(points), self._points(" ".join(words))) if all(points) else 0

    def _points(self, word: str) -> int:
        lines = (
            (word in self.names, NAME_EQUAL),
            (word in self.skills, SKILL_EQUAL),
            (any(word in name for name in self.names), NAME_PART),
            (word in self.tags, TAG_EQUAL),
            (word in self.text, TEXT_PART),
        )
        return next((points for holds, points in lines if holds), 0)


def facts_of(name: str, role: str, card: dict[str, Any] | None) -> Facts:
    """Read a card. Raises `Unreadable`."""
    card = card or {}
    skills = [_skill(skill) for skill in _list_in(card, "skills", "skills")]
    own_name = _text_in(card, "name", "name")
    names = frozenset[str]().union(*(skill.names for skill in skills))
    tags = frozenset[str]().union(*(skill.tags for skill in skills))
    texts = [role, own_name, _text_in(card, "description", "description"), *names, *tags]
    return Facts(
        names=tuple(one.casefold() for one in (name, own_name) if one),
        skills=names,
        tags=tags,
        capabilities=_capabilities(card),
        text="\n".join([*texts, *(skill.description for skill in skills)]).casefold(),
    )


def mentions(name: str, role: str, card: dict[str, Any] | None, query: str) -> bool:
    """Whether a name, a role or the name of a skill contains the query; what cannot be read says nothing."""
    wanted = query.casefold()
    texts = [name, role, *_skill_names((card or {}).get("skills"))]
    return any(wanted in text.casefold() for text in texts)


def _skill_names(skills: object) -> list[str]:
    listed = cast("list[object]", skills) if isinstance(skills, list) else []
    named = (cast("dict[str, object]", one).get("name") if isinstance(one, dict) else one for one in listed)
    return [one for one in named if isinstance(one, str)]


def _skill(skill: object) -> Skill:
    """A skill is an object; old agents write only its name."""
    if isinstance(skill, str):
        return Skill(frozenset({skill.casefold()}), frozenset())
    if not isinstance(skill, dict):
        raise Unreadable("a skill is neither an object nor a name")
    said = cast("dict[str, object]", skill)
    names = (_text_in(said, key, f"the {key} of a skill") for key in ("id", "name"))
    tags = _list_in(said, "tags", "the tags of a skill")
    if not all(isinstance(tag, str) for tag in tags):
        raise Unreadable("the tags of a skill are not all texts")
    return Skill(
        frozenset(name.casefold() for name in names if name),
        frozenset(str(tag).casefold() for tag in tags),
        _text_in(said, "description", "the description of a skill"),
    )


def _capabilities(card: dict[str, Any]) -> frozenset[str]:
    said = card.get("capabilities")
    if said is not None and not isinstance(said, dict):
        raise Unreadable("capabilities is not an object")
    return frozenset(cast("dict[str, object]", said or {}))


def _text_in(said: dict[str, Any], key: str, called: str) -> str:
    text = said.get(key)
    if text is not None and not isinstance(text, str):
        raise Unreadable(f"{called} is not a text")
    return text or ""


def _list_in(said: dict[str, Any], key: str, called: str) -> list[object]:
    listed = said.get(key)
    if listed is not None and not isinstance(listed, list):
        raise Unreadable(f"{called} is not a list")
    return cast("list[object]", listed or [])
