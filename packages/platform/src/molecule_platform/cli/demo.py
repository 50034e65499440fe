"""The demo organisation: its members are created over HTTP once and remembered in the data directory."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from molecule_platform.cli import client, connection, problems
from molecule_platform.settings import SETTINGS, Settings

SCRIPTS = Path(__file__).parents[1] / "demo"
TOKEN_FILE = ".auth_token"  # noqa: S105 - the name of a file
_SETTING_NAMES = frozenset(setting.name for setting in SETTINGS)


@dataclass(frozen=True)
class Role:
    """A place in the demo organisation."""

    name: str
    role: str
    parent: str | None
    x: float
    y: float


ROLES = (
    Role("lead", "Takes questions from people and shares out the work", None, 0, 0),
    Role("researcher", "Knows a few facts about a few things", "lead", -180, 180),
    Role("writer", "Turns facts into a readable answer", "lead", 180, 180),
)


@dataclass
class DemoAgent:
    """One agent of the demo: its workspace, and a token that has not reached it yet."""

    name: str
    id: str
    new_token: str = field(default="", repr=False)


class Demo:
    """Knows the members, and what each needs to run as a process of its own. Every call blocks."""

    def __init__(self, settings: Settings, url: str) -> None:
        token = settings.admin_token or (settings.data_dir / connection.TOKEN_FILE).read_text("utf-8").strip()
        self._url = settings.platform_url or url
        self._client = client.Client(connection.Target(url, token, "the platform", settings.data_dir))
        self._memory = settings.data_dir / "demo.json"
        self._folder = settings.data_dir / "demo"

    def members(self) -> list[DemoAgent]:
        """The members that live: those of an earlier start, or new ones if none of them is left."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        remembered = self._remembered()
        known = [DemoAgent(role.name, remembered[role.name]) for role in ROLES if role.name in remembered]
        left = [member for member in known if self.status(member) != "removed"]
        return left or self._create_all()

    def status(self, member: DemoAgent) -> str:
        """What the platform says of a member; a removed one is gone for good."""
        try:
            state = self._client.get(f"/workspaces/{client.segment(member.id)}/state").object()
        except problems.Refused as refused:
            if refused.status in (404, 410):
                return "removed"
            raise
        return str(state["status"])

    def environment(self, member: DemoAgent, environ: Mapping[str, str]) -> dict[str, str]:
        """The variables of the agent's process: its own credential, and none of the platform's settings."""
        kept = {name: value for name, value in environ.items() if not _is_ours(name)}
        folder = self._token_folder(member)
        return (
            kept
            | self._credential(member, folder)
            | {
                "MOLECULE_PLATFORM_URL": self._url,
                "MOLECULE_WORKSPACE_ID": member.id,
                "MOLECULE_TOKEN_DIR": str(folder),
            }
        )

    def log_file(self, member: DemoAgent) -> Path:
        """Where the words of an agent go."""
        return self._folder / f"{member.name}.log"

    def _create_all(self) -> list[DemoAgent]:
        made: dict[str, DemoAgent] = {}
        for role in ROLES:
            parent = None if role.parent is None else made[role.parent].id
            made[role.name] = self._create(role, parent)
            self._remember(made)
        return list(made.values())

    def _create(self, role: Role, parent_id: str | None) -> DemoAgent:
        body: dict[str, Any] = {
            "name": role.name,
            "role": role.role,
            "external": True,
            "parent_id": parent_id,
            "canvas": {"x": role.x, "y": role.y},
        }
        made = self._client.post("/workspaces", body).object()
        member = DemoAgent(role.name, made["id"], made["connection"]["auth_token"])
        for name in (TOKEN_FILE, ".recovery"):
            (self._token_folder(member) / name).unlink(missing_ok=True)
        return member

    def _credential(self, member: DemoAgent, folder: Path) -> dict[str, str]:
        """An agent that has a token keeps it; a new one gets its first, a forgetful one may enrol again."""
        if (folder / TOKEN_FILE).exists():
            return {}
        if member.new_token:
            return {"MOLECULE_WORKSPACE_TOKEN": member.new_token}
        path = f"/workspaces/{client.segment(member.id)}/enrolment-tokens"
        return {"MOLECULE_ENROLMENT_TOKEN": self._client.post(path).object()["enrolment_token"]}

    def _token_folder(self, member: DemoAgent) -> Path:
        folder = self._folder / member.name
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    def _remembered(self) -> dict[str, str]:
        try:
            found = json.loads(self._memory.read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        ids = cast(dict[Any, Any], found) if isinstance(found, dict) else {}
        return {str(name): str(workspace_id) for name, workspace_id in ids.items()}

    def _remember(self, members: Mapping[str, DemoAgent]) -> None:
        text = json.dumps({name: member.id for name, member in members.items()}, indent=2)
        scratch = self._memory.with_suffix(".new")
        handle = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(text + "\n")
        scratch.replace(self._memory)


def _is_ours(name: str) -> bool:
    return name in _SETTING_NAMES or name.startswith("MOLECULE_")
