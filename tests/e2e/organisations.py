"""Organisations of many agents for the canvas, each with a login link of its own."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import requests

from tests.e2e.platform_process import PlatformProcess

CARD = {"name": "worker", "version": "1"}


@dataclass(frozen=True)
class BigOrganisation:
    """A root, a lead for each team, and the members of the teams, by name."""

    platform: PlatformProcess
    org_id: str
    ids: dict[str, str]

    def ok(self, method: str, path: str, **request: Any) -> Any:
        """The body of an administrator's request in this organisation, which must succeed."""
        return self.platform.ok(method, path, headers={"X-Molecule-Org-Id": self.org_id}, **request)

    def login_link(self) -> str:
        """A link that signs an owner of this organisation in, once."""
        wanted = {"user": "admin", "role": "owner", "org_id": self.org_id}
        return self.ok("POST", "/auth/login-codes", json=wanted)["url"]

    def join(self, name: str, **beat: Any) -> None:
        """Let an agent take its place, and say what it does."""
        workspace_id = self.ids[name]
        body = {"id": workspace_id, "url": "", "agent_card": CARD}
        answer = requests.post(f"{self.platform.url}/registry/register", json=body, timeout=30)
        assert answer.status_code == 200, answer.text
        token = answer.json()["auth_token"]
        self.platform.ok("POST", "/registry/heartbeat", token, json={"workspace_id": workspace_id, **beat})


def make(platform: PlatformProcess, slug: str, teams: Sequence[str], size: int) -> BigOrganisation:
    """An organisation with one root and these teams, each of a lead and so many members."""
    org_id = platform.ok("POST", "/orgs", json={"name": slug, "slug": slug})["id"]
    organisation = BigOrganisation(platform, org_id, {})

    def create(name: str, parent: str | None) -> None:
        body = {"name": name, "external": True, "parent_id": parent, "role": f"Is {name}"}
        organisation.ids[name] = organisation.ok("POST", "/workspaces", json=body)["id"]

    create("director", None)
    for team in teams:
        create(f"{team}-lead", organisation.ids["director"])
    for team in teams:
        for number in range(1, size + 1):
            create(f"{team}-agent-{number:02}", organisation.ids[f"{team}-lead"])
    return organisation
