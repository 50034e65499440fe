"""Search of agents by their cards, with the points that the platform's registry gives."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from molecule_skill.discovery import DiscoveredAgent

MAX_LIMIT = 100
NAME_EQUAL, SKILL_EQUAL, NAME_PART, TAG_EQUAL, TEXT_PART = 8, 6, 4, 3, 1


@dataclass(frozen=True)
class AgentQuery:
    """What is looked for: every filter that is given must hold."""

    tags: Sequence[str] = ()
    capability: str | None = None
    skill: str | None = None
    query: str | None = None
    limit: int = 10

    def __post_init__(self) -> None:
        if not 1 <= self.limit <= MAX_LIMIT:
            raise ValueError(f"limit is 1 to {MAX_LIMIT}, not {self.limit}")


def rank(agents: Iterable[DiscoveredAgent], query: AgentQuery) -> list[DiscoveredAgent]:
    """The agents that fit, the one with the most points first, then by name."""
    scored = [(points, agent) for agent in agents if (points := _score(agent, query)) is not None]
    scored.sort(key=lambda one: (-one[0], one[1].name, one[1].url))
    return [agent for _, agent in scored[: query.limit]]


def _score(agent: DiscoveredAgent, query: AgentQuery) -> int | None:
    """How well an agent fits; None for not at all."""
    card = agent.card
    tags = {tag.casefold() for skill in card.skills for tag in skill.tags}
    skills = {name.casefold() for skill in card.skills for name in (skill.id, skill.name)}
    if query.tags and not tags & {tag.casefold() for tag in query.tags}:
        return None
    if query.capability is not None and query.capability not in card.capabilities:
        return None
    if query.skill is not None and query.skill.casefold() not in skills:
        return None
    words = (query.query or "").casefold().split()
    if not words:
        return 0
    names = {name.casefold() for name in (agent.name, card.name)}
    described = [card.name, card.description, *skills, *tags, *(skill.description for skill in card.skills)]
    text = "\n".join(described).casefold()
    found = [_word_points(word, names, skills, tags, text) for word in words]
    phrase = _word_points(" ".join(words), names, skills, tags, text)
    return max(sum(found), phrase) if all(found) else None


def _word_points(word: str, names: set[str], skills: set[str], tags: set[str], text: str) -> int:
    if word in names:
        return NAME_EQUAL
    if word in skills:
        return SKILL_EQUAL
    if any(word in name for name in names):
        return NAME_PART
    if word in tags:
        return TAG_EQUAL
    return TEXT_PART if word in text else 0
