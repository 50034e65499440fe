"""Run context: everything that a skill may depend on.

One new instance per invocation. `RunContext` has eight abstract members and no more, so that a context of
somebody else stays usable; what was added later is concrete and raises `CapabilityUnavailable`.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from pydantic import BaseModel

from molecule_skill.a2a_client import A2AClient, CallResult
from molecule_skill.discovery import DiscoveryClient
from molecule_skill.errors import CancelledByCaller, CapabilityUnavailable, MissingScopes
from molecule_skill.events import AgentEvent, ArtifactRef
from molecule_skill.sandbox import SandboxClient, SandboxUnavailable
from molecule_skill.workspace import WorkspaceClient

if TYPE_CHECKING:
    from molecule_skill.local_context import LocalRunContext

__all__ = [
    "A2AClient",
    "AgentEvent",
    "ArtifactRef",
    "AuthT",
    "CallResult",
    "CancelledByCaller",
    "DiscoveryClient",
    "LocalRunContext",
    "MissingScopes",
    "RunContext",
    "SandboxClient",
    "SandboxUnavailable",
    "WorkspaceClient",
]

AuthT = TypeVar("AuthT", bound=BaseModel)


class RunContext(ABC, Generic[AuthT]):
    """Interface between a skill and whatever runs it."""

    task_id: str
    auth: AuthT

    # The eight abstract members

    @abstractmethod
    async def emit_event(self, event: AgentEvent) -> None:
        """Publish an event to the subscribers of this run."""

    @abstractmethod
    async def write_artifact(self, name: str, data: bytes, mime_type: str) -> ArtifactRef:
        """Store a file that this run produced."""

    @abstractmethod
    async def check_cancelled(self) -> None:
        """Raise `CancelledByCaller` when the caller cancelled."""

    @abstractmethod
    def secret(self, name: str) -> str:
        """The value of a secret by its logical name. Raises KeyError for an unknown one."""

    @property
    @abstractmethod
    def workspace(self) -> WorkspaceClient:
        """The files of the workspace. Raises PermissionError when the agent has no access."""

    @property
    @abstractmethod
    def sandbox(self) -> SandboxClient:
        """Sandboxes for code. Raises `SandboxUnavailable` when none is attached."""

    @property
    @abstractmethod
    def discover(self) -> DiscoveryClient:
        """Discovery of other agents."""

    @abstractmethod
    def _a2a_client(self) -> A2AClient:
        """The client behind `call`, or an exception."""

    # Helpers

    async def call(
        self,
        target: str,
        skill: str,
        *,
        args: dict[str, Any] | None = None,
        grant: str | None = None,
        timeout: float | None = None,
    ) -> CallResult:
        """Run a skill of another agent and wait for its result."""
        return await self._a2a_client().call(target, skill, args=args, grant=grant, timeout=timeout)

    async def emit_progress(self, message: str) -> None:
        """Say how far the work is."""
        await self.emit_event(AgentEvent("progress", {"message": message}))

    async def emit_text_delta(self, text: str) -> None:
        """Send the next piece of a text that is being written."""
        await self.emit_event(AgentEvent("text_delta", {"text": text}))

    async def emit_artifact(self, ref: ArtifactRef) -> None:
        """Announce a file that was written."""
        payload = {"name": ref.name, "uri": ref.uri, "mime_type": ref.mime_type, "size_bytes": ref.size_bytes}
        await self.emit_event(AgentEvent("artifact", payload))

    async def emit_error(self, message: str, *, code: str | None = None) -> None:
        """Report a problem without ending the run."""
        await self.emit_event(AgentEvent("error", {"message": message, "code": code}))

    def require_scopes(self, required: Sequence[str]) -> None:
        """Raise `MissingScopes` unless the caller holds every scope named."""
        if not required:
            return
        held: set[str] = set(getattr(self.auth, "scopes", None) or ())
        missing = [scope for scope in required if scope not in held]
        if missing:
            raise MissingScopes(missing)

    # Extensions: never abstract

    @property
    def caller(self) -> str:
        """The principal that started this run."""
        return "local"

    @property
    def run_id(self) -> str:
        """The identity of this run, the same in every attempt and after a restart."""
        return self.task_id

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return 1

    @property
    def session_id(self) -> str | None:
        """The conversation that this run belongs to."""
        return None

    @property
    def deadline(self) -> float | None:
        """When the run must be over, in seconds since the epoch."""
        return None

    @property
    def grant(self) -> Any:
        """The file grant of this run."""
        return None

    async def ask(self, prompt: str, *, timeout: float = 180.0, key: str | None = None) -> str:
        """Ask a person and wait for the answer."""
        self._unavailable("ask")

    async def collect(
        self,
        model_or_schema: Any,
        *,
        title: str,
        reason: str = "",
        ui_schema: dict[str, Any] | None = None,
        timeout: float = 300.0,
        key: str | None = None,
    ) -> Any:
        """Let a person fill in a form: an instance for a pydantic class, a dict for a JSON schema."""
        self._unavailable("collect")

    async def request_scope(
        self,
        *,
        reason: str,
        read: Sequence[str] = (),
        write: Sequence[str] = (),
        mode: str = "read_only",
        ttl_seconds: int = 60,
        timeout: float = 60.0,
        key: str | None = None,
    ) -> Any:
        """Ask for access to more files."""
        self._unavailable("request_scope")

    async def ensure_read(self, *patterns: str) -> Any:
        """Ask for read access unless the grant already covers it."""
        self._unavailable("ensure_read")

    async def ensure_write(self, *patterns: str) -> Any:
        """Ask for write access unless the grant already covers it."""
        self._unavailable("ensure_write")

    async def step(self, key: str, fn: Callable[..., Any], *args: Any) -> Any:
        """Run a side effect once per run; a re-run of the run returns the recorded JSON value."""
        self._unavailable("step")

    async def load_state(self) -> Any:
        """The agent's state, its model's defaults when there is none yet."""
        self._unavailable("load_state")

    async def save_state(self, value: Any) -> None:
        """Save the agent's state. Raises `StateConflict` when another run saved it since it was loaded."""
        self._unavailable("save_state")

    def consumer_config(self, name: str, default: Any = None) -> Any:
        """A setting that the caller made for this agent."""
        self._unavailable("consumer_config")

    def consumer_secret(self, name: str) -> str:
        """A secret that the caller gave to this agent."""
        self._unavailable("consumer_secret")

    def random(self) -> random.Random:
        """Random numbers seeded from the run id: a re-run draws the same ones."""
        self._unavailable("random")

    def _unavailable(self, member: str) -> NoReturn:
        raise CapabilityUnavailable(member)

    # What the engine calls; a foreign context need not know of it

    def _bind(self, agent: Any, spec: Any) -> None:
        """The engine is about to run a skill of an agent."""

    def _check_budget(self) -> None:
        """Raise `InsufficientBudget` or `CallLimitExceeded` when the caller may not start this run."""

    def _begin_attempt(self, attempt: int) -> None:
        """The handler is about to be started, for the first time or again."""

    def _on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back when the caller cancels, at once if that has happened already; returns what undoes it."""
        return lambda: None

    async def _engine_event(self, kind: str, payload: dict[str, Any]) -> None:
        """Publish an event of a kind that is reserved for the engine."""
        await self.emit_event(AgentEvent(kind, payload))

    def _redact(self, text: str) -> str:
        """The text without values of secrets that this run knows."""
        return text


def __getattr__(name: str) -> Any:
    # The local context builds on this module; whoever needs it finds it here.
    if name == "LocalRunContext":
        from molecule_skill.local_context import LocalRunContext

        return LocalRunContext
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
