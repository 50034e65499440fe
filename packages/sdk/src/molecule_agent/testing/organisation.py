"""The workspaces of a fake platform: the tree, and the operator's hand on it."""

import uuid
from collections.abc import Iterator

from molecule_agent.testing.clock import FakeClock
from molecule_agent.testing.http_messages import new_secret
from molecule_agent.testing.records import Token, Workspace
from molecule_wire import JSONObject

ENROLMENT_SECONDS = 3600.0
RELATIONS = ("parent", "sibling", "child", "ancestor", "descendant", "grant")


class Organisation:
    """One organisation: its workspaces by id, in the order of their creation, and their tokens."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.workspaces: dict[str, Workspace] = {}
        self.tokens: dict[str, Token] = {}

    def create(self, name: str, parent: str | None, role: str, external: bool) -> Workspace:
        """A new workspace, which waits for its agent."""
        if parent is not None:
            self.living(parent)
        workspace = Workspace(
            id=str(uuid.uuid4()),
            name=name,
            role=role,
            parent_id=parent,
            external=external,
            created_at=self._clock.time(),
            status="awaiting_agent" if external else "provisioning",
        )
        self.workspaces[workspace.id] = workspace
        return workspace

    def living(self, workspace_id: str) -> Workspace:
        """A workspace that is there; a test that names another one has a mistake."""
        found = self.workspaces.get(workspace_id)
        if found is None or found.removed_at is not None:
            known = ", ".join(one.id for one in self.workspaces.values() if one.removed_at is None)
            raise ValueError(f"there is no workspace {workspace_id} here; there are: {known or 'none'}")
        return found

    def subtree(self, root: Workspace) -> list[Workspace]:
        """The workspace and everything below it that is not removed, parents first."""
        found = [root]
        for member in found:
            below = (one for one in self.workspaces.values() if one.parent_id == member.id)
            found += [one for one in below if one.removed_at is None]
        return found

    def ancestors(self, workspace: Workspace) -> Iterator[str]:
        """The ids above a workspace, the nearest first."""
        above = workspace.parent_id
        while above is not None:
            yield above
            above = self.workspaces[above].parent_id

    def relation(self, caller: Workspace, target: Workspace) -> str:
        """What the target is to the caller in the tree; `""` when it is nothing to it."""
        above_caller, above_target = list(self.ancestors(caller)), list(self.ancestors(target))
        if target.id in above_caller:
            return "parent" if above_caller[0] == target.id else "ancestor"
        if caller.id in above_target:
            return "child" if above_target[0] == caller.id else "descendant"
        return "sibling" if caller.parent_id == target.parent_id else ""

    def peers(self, workspace: Workspace) -> list[tuple[Workspace, str]]:
        """The workspaces that the tree lets one call, each with what it is to it."""
        others = [one for one in self.workspaces.values() if one is not workspace and one.removed_at is None]
        related = [(one, self.relation(workspace, one)) for one in others]
        return [(one, relation) for one, relation in related if relation]

    # Tokens

    def mint(self, workspace: Workspace) -> tuple[str, str]:
        """A new token of a workspace, and its recovery secret."""
        token, recovery = new_secret(), new_secret()
        self.tokens[token] = Token(workspace.id, recovery)
        workspace.claimed = True
        return token, recovery

    def end_tokens(self, workspace: Workspace, reason: str) -> None:
        """Let every token of a workspace be good no more, and its recovery secret with it."""
        for token in self.tokens.values():
            if token.workspace_id == workspace.id and not token.ended:
                token.ended, token.ended_at = reason, self._clock.time()

    def spend_recovery(self, workspace: Workspace, secret: str) -> bool:
        """Whether a recovery secret is good; its token then ends."""
        for token in self.tokens.values():
            mine = token.workspace_id == workspace.id and not token.ended
            if mine and secret == token.recovery:
                token.ended, token.ended_at = "recovered", self._clock.time()
                return True
        return False

    def issue_enrolment(self, workspace: Workspace) -> str:
        """A token for one enrolment within the hour."""
        token = new_secret()
        workspace.enrolment_tokens[token] = self._clock.time() + ENROLMENT_SECONDS
        return token

    def spend_enrolment(self, workspace: Workspace, token: str) -> bool:
        """Whether an enrolment token is good; it is used up by this."""
        return workspace.enrolment_tokens.pop(token, 0.0) > self._clock.time()

    # The life of a workspace

    def resume(self, workspace: Workspace) -> None:
        """Undo a pause, for everything below too."""
        if workspace.status != "paused":
            raise ValueError(f"workspace {workspace.id} is {workspace.status}, not paused")
        if any(self.workspaces[above].status == "paused" for above in self.ancestors(workspace)):
            raise ValueError(f"a workspace above {workspace.id} is paused: resume that one first")
        for member in self.subtree(workspace):
            if member.status == "paused":
                member.status = "awaiting_agent" if member.external else "provisioning"
                member.liveness_expires_at = None

    def notice_silence(self) -> None:
        """Agents that were not heard for too long are offline."""
        now = self._clock.time()
        for workspace in self.workspaces.values():
            ends = workspace.liveness_expires_at
            if workspace.status in ("online", "degraded") and ends is not None and ends <= now:
                workspace.status = "offline"


def mentions(workspace: Workspace, query: str) -> bool:
    """Whether a name, a role or the name of a skill contains the query."""
    texts = [workspace.name, workspace.role, *_skill_names(workspace.agent_card or {})]
    return any(query.casefold() in text.casefold() for text in texts)


def peer_row(workspace: Workspace, relation: str, base: str) -> JSONObject:
    """A workspace as those who may call it see it."""
    return {
        "id": workspace.id,
        "name": workspace.name,
        "tier": 2,
        "status": workspace.status,
        "url": f"{base}/workspaces/{workspace.id}/a2a",
        "parent_id": workspace.parent_id,
        "active_tasks": workspace.active_tasks,
        "max_concurrent_tasks": 16 if workspace.external and workspace.url else 1,
        "role": workspace.role,
        "agent_card": workspace.agent_card or {},
        "relation": relation,
        "delivery_mode": workspace.delivery_mode,
        "agent_url": f"{base}/agents/{workspace.id}/",
    }


def _skill_names(card: JSONObject) -> list[str]:
    skills = card.get("skills")
    listed = skills if isinstance(skills, list) else []
    named = [one.get("name") if isinstance(one, dict) else one for one in listed]
    return [one for one in named if isinstance(one, str)]
