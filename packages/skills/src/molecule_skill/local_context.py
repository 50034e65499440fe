"""Run context in memory, for unit tests and local use."""

import inspect
import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from molecule_skill.a2a_client import A2AClient
from molecule_skill.context import AuthT, RunContext
from molecule_skill.discovery import DiscoveryClient
from molecule_skill.errors import CancelledByCaller, CapabilityUnavailable
from molecule_skill.events import AgentEvent, ArtifactRef
from molecule_skill.sandbox import SandboxClient, SandboxUnavailable
from molecule_skill.secrets import Redactor, unknown
from molecule_skill.workspace import WorkspaceClient

if TYPE_CHECKING:
    from molecule_skill.local_pauses import LocalPauses

NO_WORKSPACE = (
    "no workspace bound to this context; "
    "agent did not declare workspace_access or runtime did not provision one"
)
NO_SANDBOX = "no sandbox client attached to this context; the runtime layer must provision one"
NO_DISCOVERY = "no discovery client attached; runtime must provision one"
NO_A2A = "no A2A client attached; runtime must provision one before ctx.call(...) can be used"


class LocalRunContext(RunContext[AuthT]):
    """Run context whose events, artifacts, secrets and answers are plain Python objects.

    `answers` are given beforehand: a mapping from key (or prompt, or title) to answer, a list that is used up
    in order, or a function of the event that asks. Without one left, `answer` gives it later.
    """

    def __init__(
        self,
        *,
        auth: AuthT,
        task_id: str = "local-task",
        secrets: Mapping[str, str] | None = None,
        workspace: Any = None,
        sandbox: Any = None,
        a2a: Any = None,
        discover: Any = None,
        caller: str = "local",
        answers: Mapping[str, Any] | Sequence[Any] | Callable[[AgentEvent], Any] | None = None,
        grant_authority: Any = None,
        state: Any = None,
        consumer: Mapping[str, Any] | None = None,
        on_event: Callable[[AgentEvent], Any] | None = None,
    ) -> None:
        # Programs that only describe their agents do not pay for asyncio, which costs as much as pydantic.
        import asyncio

        self.auth = auth
        self.task_id = task_id
        self.events: list[AgentEvent] = []
        self.artifacts: dict[str, bytes] = {}
        self._secrets = dict(secrets or {})
        self._workspace, self._sandbox, self._a2a, self._discover = workspace, sandbox, a2a, discover
        self._caller = caller
        self._answers = answers
        self._grant_authority = grant_authority
        self._state = state
        self._consumer = dict(consumer or {})
        self._on_event = on_event
        self._cancelled = asyncio.Event()
        self._cancel_callbacks: list[Callable[[], None]] = []
        self._attempt = 1
        self._agent: Any = None
        self._spec: Any = None
        self._random: random.Random | None = None
        self._recorded: dict[str, Any] = {}
        self._used_keys: set[str] = set()
        self._pauses: LocalPauses | None = None

    # The eight members

    async def emit_event(self, event: AgentEvent) -> None:
        self.events.append(event)
        if self._on_event is not None:
            result = self._on_event(event)
            if inspect.isawaitable(result):
                await result

    async def write_artifact(self, name: str, data: bytes, mime_type: str) -> ArtifactRef:
        self.artifacts[name] = data
        return ArtifactRef(name, f"memory://{self.task_id}/{name}", mime_type, len(data))

    async def check_cancelled(self) -> None:
        if self._cancelled.is_set():
            raise CancelledByCaller(self.task_id)

    def secret(self, name: str) -> str:
        try:
            return self._secrets[name]
        except KeyError as missing:
            raise unknown(name) from missing

    @property
    def workspace(self) -> WorkspaceClient:
        if self._workspace is None:
            raise PermissionError(NO_WORKSPACE)
        return self._workspace

    @property
    def sandbox(self) -> SandboxClient:
        if self._sandbox is None:
            raise SandboxUnavailable(NO_SANDBOX)
        return self._sandbox

    @property
    def discover(self) -> DiscoveryClient:
        if self._discover is None:
            raise PermissionError(NO_DISCOVERY)
        return self._discover

    def _a2a_client(self) -> A2AClient:
        if self._a2a is None:
            raise PermissionError(NO_A2A)
        return self._a2a

    def cancel(self) -> None:
        """Cancel the run as its caller would; may be repeated."""
        self._cancelled.set()
        callbacks, self._cancel_callbacks = self._cancel_callbacks, []
        for callback in callbacks:
            callback()

    # Extensions

    @property
    def caller(self) -> str:
        return self._caller

    @property
    def attempt(self) -> int:
        return self._attempt

    async def ask(self, prompt: str, *, timeout: float = 180.0, key: str | None = None) -> str:
        return await self._local_pauses().ask(prompt, timeout, key)

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
        pauses = self._local_pauses()
        return await pauses.collect(model_or_schema, title, reason, ui_schema, timeout, key)

    def answer(self, id: str, value: Any) -> None:
        """Answer a question or a form that waits; `Decline(reason)` declines it.

        Raises KeyError for an id that does not wait, ValueError for an invalid answer, after which it still
        waits.
        """
        self._local_pauses().answer(id, value)

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
        from molecule_skill.local_pauses import check_scope_request

        check_scope_request(self._spec, reason)
        self._unavailable("request_scope")

    async def step(self, key: str, fn: Callable[..., Any], *args: Any) -> Any:
        from molecule_skill.steps import run_step

        self._use_key(key)
        # A later attempt of the same run is the same use of the key.
        if key not in self._recorded:
            self._recorded[key] = await run_step(key, fn, args)
        return self._recorded[key]

    async def load_state(self) -> Any:
        model = self._state_model("load_state")
        if self._state is None:
            return model()
        values = self._state.model_dump(mode="json") if isinstance(self._state, BaseModel) else self._state
        return model.model_validate(values)

    async def save_state(self, value: Any) -> None:
        from molecule_skill.state import checked_state

        self._state = checked_state(self._state_model("save_state"), value)

    def consumer_config(self, name: str, default: Any = None) -> Any:
        return self._consumer.get(name, default)

    def consumer_secret(self, name: str) -> str:
        if name not in self._consumer:
            raise unknown(name)
        return str(self._consumer[name])

    def random(self) -> random.Random:
        if self._random is None:
            self._random = random.Random(self.run_id)  # noqa: S311 - repeatable on purpose
        return self._random

    # For the engine

    def _bind(self, agent: Any, spec: Any) -> None:
        self._agent, self._spec = agent, spec

    def _begin_attempt(self, attempt: int) -> None:
        self._attempt = attempt
        self._random = None
        self._used_keys.clear()
        if attempt == 1:
            # A new run of somebody who uses one context for several.
            self._recorded.clear()
        if self._pauses is not None:
            self._pauses.begin(attempt)

    def _on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        if self._cancelled.is_set():
            callback()
            return lambda: None
        callbacks = self._cancel_callbacks
        callbacks.append(callback)
        return lambda: callbacks.remove(callback) if callback in callbacks else None

    def _redact(self, text: str) -> str:
        return Redactor(self._secrets).text(text)

    def _use_key(self, key: str | None) -> None:
        if key is None:
            return
        if key in self._used_keys:
            raise ValueError(
                f"the key {key!r} is used twice in this run; give every step and question its own"
            )
        self._used_keys.add(key)

    def _state_model(self, member: str) -> type[BaseModel]:
        model = getattr(self._agent, "state_model", None)
        if model is None and isinstance(self._state, BaseModel):
            return type(self._state)
        if model is None or self._agent.state == "none":
            raise CapabilityUnavailable(member, "the agent declares no state; set state and state_model")
        return model

    def _local_pauses(self) -> "LocalPauses":
        if self._pauses is None:
            from molecule_skill.local_pauses import LocalPauses

            self._pauses = LocalPauses(self, self._answers)
        return self._pauses
