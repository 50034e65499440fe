"""Searching agents: everyone a caller may reach, ranked by how well the card fits the question."""

import heapq
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from molecule_platform.domain import cursors, search
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.search import Facts
from molecule_platform.ports.clock import Clock
from molecule_platform.ports.storage import Storage, Transaction
from molecule_platform.ports.workspaces import Profile, WorkspaceFilter
from molecule_platform.services.workspaces import directory, workspace_pages

MAX_PROBLEMS = 100
_SCORE = re.compile("-?[0-9]{1,9}")

# Better scores first, then by name and id: no two agents have the same.
Rank = tuple[int, str, str]


@dataclass(frozen=True)
class AgentQuery:
    """What the agents looked for have in common. Of several tags one suffices."""

    q: str | None = None
    tags: tuple[str, ...] = ()
    skill: str | None = None
    capability: str | None = None
    role: str | None = None
    statuses: tuple[str, ...] = ()

    @property
    def points(self) -> int:
        """What an agent gets for having the skill and the tag that were asked for."""
        return search.SKILL_EQUAL * bool(self.skill) + search.TAG_EQUAL * bool(self.tags)

    def fits(self, facts: Facts) -> bool:
        """Whether what the card says is what is looked for, the free text aside."""
        lines = (
            not self.tags or any(tag.casefold() in facts.tags for tag in self.tags),
            self.skill is None or self.skill.casefold() in facts.skills,
            self.capability is None or self.capability in facts.capabilities,
        )
        return all(lines)

    def concerns(self, profile: Profile) -> bool:
        """Whether the role is the one looked for."""
        return self.role is None or profile.role.casefold() == self.role.casefold()


@dataclass
class ScoredAgents:
    """Walks through the agents; keeps what could not be read."""

    question: AgentQuery
    problems: list[dict[str, str]] = field(default_factory=list[dict[str, str]])

    def ranked(self, profiles: Iterator[Profile]) -> Iterator[tuple[Rank, Profile]]:
        for profile in profiles:
            if self.question.concerns(profile):
                score = self._score(profile)
                if score is not None:
                    yield (-score, profile.name, profile.id), profile

    def _score(self, profile: Profile) -> int | None:
        """The points; None when the agent is not one of those looked for."""
        try:
            facts = search.facts_of(profile.name, profile.role, profile.agent_card)
        except search.Unreadable as problem:
            if len(self.problems) < MAX_PROBLEMS:
                self.problems.append({"id": profile.id, "name": profile.name, "problem": str(problem)})
            return None
        if not self.question.fits(facts):
            return None
        named = self.question.points
        if not self.question.q:
            return named
        score = facts.score(self.question.q)
        return score + named if score else None


class AgentSearch:
    """Finds agents by what they say of themselves."""

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock

    async def find(
        self, principal: Principal, question: AgentQuery, limit: int, cursor: str | None, base_url: str
    ) -> dict[str, Any]:
        """A page of the agents that fit, the best first; unreadable cards are named on the first page."""
        after = _read_cursor(cursor)
        now = self._clock.now()

        def work(tx: Transaction) -> dict[str, Any]:
            hits = ScoredAgents(question)
            everyone = _profiles(tx, workspace_pages.visible_to(tx, principal, now), question.statuses)
            rest = (hit for hit in hits.ranked(everyone) if after is None or hit[0] > after)
            best = heapq.nsmallest(limit + 1, rest, key=lambda hit: hit[0])
            more = _written_cursor(best[limit - 1][0]) if len(best) > limit else None
            agents = [_agent(profile, -rank[0], base_url) for rank, profile in best[:limit]]
            problems = hits.problems if after is None else []
            return {"agents": agents, "problems": problems, "next_cursor": more}

        return await self._storage.read(work)


def _profiles(
    tx: Transaction, visible: workspace_pages.Visible, statuses: tuple[str, ...]
) -> Iterator[Profile]:
    for batch in workspace_pages.iterate(
        tx, visible, WorkspaceFilter(workspace_pages.BATCH, statuses=statuses)
    ):
        yield from tx.workspaces.profiles([found.place.id for found in batch]).values()


def _agent(profile: Profile, score: int, base_url: str) -> dict[str, Any]:
    return {
        "id": profile.id,
        "name": profile.name,
        "url": directory.platform_path(base_url, profile.id),
        "card": profile.agent_card or {},
        "role": profile.role,
        "status": profile.status,
        "score": score,
    }


def _written_cursor(rank: Rank) -> str:
    return cursors.written(str(rank[0]), rank[1], rank[2])


def _read_cursor(cursor: str | None) -> Rank | None:
    if cursor is None:
        return None
    score, name, workspace_id = cursors.read(cursor, 3)
    if not _SCORE.fullmatch(score):
        raise cursors.unknown()
    return int(score), name, workspace_id
