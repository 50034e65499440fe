"""What a fake platform knows: workspaces, their tokens, their messages."""

from dataclasses import dataclass, field

from molecule_wire import JSON, JSONObject

OPEN = ("accepted", "leased")
ALIVE = ("online", "degraded")
ORG_ID = "0190a5d0-0000-7000-8000-000000000001"


@dataclass
class Workspace:
    """One workspace, with times in seconds since the epoch."""

    id: str
    name: str
    role: str
    parent_id: str | None
    external: bool
    created_at: float
    status: str
    url: str = ""
    delivery_mode: str = "poll"
    agent_card: JSONObject | None = None
    active_tasks: int = 0
    needs_restart: bool = False
    claimed: bool = False
    liveness_expires_at: float | None = None
    removed_at: float | None = None
    secrets: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    enrolment_tokens: dict[str, float] = field(default_factory=dict[str, float], repr=False)


@dataclass
class Token:
    """A workspace's token and the recovery secret issued with it."""

    workspace_id: str
    recovery: str = field(repr=False)
    ended: str = ""
    """Why it is good no more: `revoked`, `recovered` or `workspace-removed`."""
    ended_at: float | None = None


@dataclass
class Message:
    """One message in a mailbox; `waits_until` is its deadline while it waits."""

    id: str
    seq: int
    activity_id: str
    target_id: str
    caller: str
    caller_name: str
    content: JSONObject
    priority: int
    created_at: float
    waits_until: float
    run_limit: float
    task: JSONObject
    events: int = 1
    status: str = "accepted"
    task_state: str | None = None
    attempts: int = 0
    max_attempts: int = 5
    releases: int = 0
    not_before: float | None = None
    epoch: int = 0
    # The lease and the number of the newest progress report that had one.
    last_report: tuple[int, int] = (0, 0)
    lease_token: str | None = field(default=None, repr=False)
    lease_expires_at: float | None = None
    leased_at: float | None = None
    deadline_at: float = 0.0
    worker: str | None = None
    result: JSON = None
    error: JSONObject | None = None
    dead_letter: bool = False
    cancel_requested: bool = False
    finished_at: float | None = None

    @property
    def is_open(self) -> bool:
        """Whether it still waits for its outcome."""
        return self.status in OPEN

    @property
    def traceparent(self) -> str:
        """The W3C trace that begins with it."""
        digits = self.id.replace("-", "")
        return f"00-{digits}-{digits[16:]}-00"

    @property
    def context_id(self) -> str:
        """The conversation it belongs to: one of its own."""
        return self.id

    @property
    def peer_id(self) -> str:
        """The workspace that sent it, or nothing."""
        kind, _, rest = self.caller.partition(":")
        return rest if kind == "workspace" else ""
