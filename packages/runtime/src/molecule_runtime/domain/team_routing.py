"""Which member of a team fits a task: a deterministic score over what the members say of themselves."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from molecule_runtime.domain.peers import PeerProfile, peer_of
from molecule_wire import JSON, JSONObject

SKILLS_WEIGHT, TAGS_WEIGHT, ROLE_WEIGHT, DESCRIPTION_WEIGHT = 3, 2, 2, 1
STATUS_SCORES: Mapping[str, int] = {"online": 2, "degraded": 0, "offline": -5}
NO_MEMBERS = "No team members available. Handle this task yourself."
CHOOSE_MEMBER = (
    "Choose the member that fits best and delegate the task to its id. Members come best match first;"
    " when none fits, handle the task yourself."
)

CategoryRouting = Mapping[str, Sequence[str]]
"""Category → the roles, names or ids of the members that take it."""

_TOKEN = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class ScoredMember:
    """A member of the team with its score for one task; `named` when a category routes the task to it."""

    peer: PeerProfile
    score: int
    named: bool = False

    def to_json(self) -> JSONObject:
        """The member as a routing payload lists it."""
        skills: list[JSON] = list(self.peer.skill_names)
        return {
            "id": self.peer.id,
            "name": self.peer.name,
            "status": self.peer.status,
            "skills": skills,
            "score": self.score,
        }


def tokens(*texts: str) -> frozenset[str]:
    """The words of some texts, in lower case."""
    return frozenset(word for text in texts for word in _TOKEN.findall(text.lower()))


def score(peer: PeerProfile, task: str) -> int:
    """How well a member fits a task: shared words by weight, its status, minus what it is doing now."""
    task_tokens = tokens(task)
    matched = (
        (SKILLS_WEIGHT, tokens(*peer.skill_names, *peer.skill_ids)),
        (TAGS_WEIGHT, tokens(*peer.tags)),
        (ROLE_WEIGHT, tokens(peer.role)),
        (DESCRIPTION_WEIGHT, tokens(*peer.descriptions)),
    )
    overlap = sum(weight * len(task_tokens & words) for weight, words in matched)
    return overlap + STATUS_SCORES.get(peer.status, 0) - peer.active_tasks


def rank(
    peers: Iterable[PeerProfile], task: str, category_routing: CategoryRouting | None = None
) -> list[ScoredMember]:
    """The members for a task, best first; equal ones by name, then id. Those a category names come before."""
    named = _named_for(task, category_routing or {})
    scored: list[ScoredMember] = []
    for peer in peers:
        names = {text.strip().lower() for text in (peer.id, peer.name, peer.role) if text.strip()}
        scored.append(ScoredMember(peer, score(peer, task), not named.isdisjoint(names)))
    return sorted(
        scored, key=lambda member: (not member.named, -member.score, member.peer.name, member.peer.id)
    )


def best(ranked: Sequence[ScoredMember]) -> ScoredMember | None:
    """The member to choose without asking: its score is above 0 and no other of its rank has the same."""
    if not ranked or ranked[0].score <= 0:
        return None
    first = ranked[0]
    same = [member for member in ranked if (member.named, member.score) == (first.named, first.score)]
    return first if len(same) == 1 else None


def build_team_routing_payload(
    children: Sequence[JSONObject],
    task: str,
    preferred_member_id: str = "",
    *,
    category_routing: CategoryRouting | None = None,
) -> JSONObject:
    """What to do with a task: delegate to the preferred member, choose one, or handle it oneself."""
    ranked = rank([peer_of(row) for row in children], task, category_routing)
    members: list[JSON] = [member.to_json() for member in ranked]
    if not members:
        return {"success": False, "error": NO_MEMBERS, "task": task, "members": []}
    if not preferred_member_id:
        return {
            "success": True,
            "action": "choose_member",
            "message": CHOOSE_MEMBER,
            "task": task,
            "members": members,
        }
    if all(member.peer.id != preferred_member_id for member in ranked):
        error = f"'{preferred_member_id}' is not a member of this team"
        return {"success": False, "error": error, "task": task, "members": members}
    return {
        "success": True,
        "action": "delegate_to_preferred_member",
        "preferred_member_id": preferred_member_id,
        "task": task,
    }


def _named_for(task: str, category_routing: CategoryRouting) -> frozenset[str]:
    """Who takes the categories whose words all stand in the task."""
    words = tokens(task)
    taken = (
        who for category, who in category_routing.items() if tokens(category) and tokens(category) <= words
    )
    return frozenset(name.strip().lower() for who in taken for name in who)
