"""The built-in tools that work through the platform: delegation, peers, the user, files for the answer."""

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from molecule_runtime.domain.config import DelegationConfig
from molecule_runtime.domain.peers import peer_of
from molecule_runtime.domain.permissions import DELEGATE
from molecule_runtime.domain.prompt_quoting import one_line
from molecule_runtime.kit.tools.tool_set import ToolSet, ToolSpec, tool
from molecule_runtime.kit.turns import turn_context
from molecule_runtime.ports.platform import Platform
from molecule_wire import JSON, JSONObject
from molecule_wire.calls.values import CallFailed, text_of

NO_PEERS = "No peers available (this workspace may be isolated)"
NO_PLATFORM = "this process has no platform; start it as a workspace of one"
MAX_LISTED = 50

_STATUS_NAMES = {"dispatched": "in_progress"}

T = TypeVar("T")


class PlatformToolError(Exception):
    """The platform did not do what was asked; the text says why and may be shown to the model."""

    @property
    def may_pass(self) -> bool:
        """Whether the same may be done later: the platform is away or in trouble."""
        cause = self.__cause__
        return not isinstance(cause, CallFailed) or cause.status == 429 or cause.status >= 500


async def ask(call: Awaitable[T]) -> T:
    """Await a call to the platform; `PlatformToolError` with a plain sentence when it fails."""
    try:
        return await call
    except CallFailed as refusal:
        raise PlatformToolError(refusal.message or str(refusal)) from refusal
    except OSError as problem:
        raise PlatformToolError("the platform cannot be reached; try again later") from problem


async def delegate(
    platform: Platform,
    workspace_id: str,
    task: str,
    idempotency_key: str = "",
    retries: DelegationConfig | None = None,
) -> JSONObject:
    """Delegate a task; the platform sends it, waits for the answer and keeps it.

    Without a key each call is a delegation of its own; with one, a repeat is the same delegation. A platform
    that is away or in trouble is asked again with the same key.
    """
    key, retries = idempotency_key or os.urandom(16).hex(), retries or DelegationConfig()
    until, attempt = time.monotonic() + retries.timeout - retries.retry_delay, 1
    while True:
        try:
            answer = await ask(platform.delegate(workspace_id, task, key))
            break
        except PlatformToolError as refusal:
            is_last = attempt >= retries.retry_attempts or time.monotonic() > until
            if is_last or not refusal.may_pass:
                return {"success": False, "error": str(refusal)}
        await asyncio.sleep(retries.retry_delay)
        attempt += 1
    delegation_id = text_of(answer.get("delegation_id"))
    message = f"Delegated to {workspace_id}. Call check_delegation_status with task_id {delegation_id}."
    return {"success": True, "task_id": delegation_id, "status": "delegated", "message": message}


def platform_tools(
    platform: Platform,
    *,
    work_dir: str | Path = "/workspace",
    retries: DelegationConfig | None = None,
) -> list[ToolSpec]:
    """The tools of one workspace on its platform; `work_dir` is where relative paths of files begin."""

    @tool(permission=DELEGATE)
    async def delegate_to_workspace(workspace_id: str, task: str, idempotency_key: str = "") -> JSONObject:
        """Delegate a task to another workspace, which works on its own. Ask for the result later."""
        return await delegate(platform, workspace_id, task, idempotency_key, retries)

    @tool
    async def check_delegation_status(task_id: str = "") -> JSONObject:
        """How a delegated task stands, with its whole result; without task_id, all recent ones."""
        return await delegation_status(platform, task_id)

    @tool
    async def attach_file(path: str) -> JSONObject:
        """Attach a file of the work directory to the answer. It is the only way to hand over a file."""
        return attach(Path(work_dir), path)

    return [delegate_to_workspace, check_delegation_status, *_text_tools(platform), attach_file]


def _text_tools(platform: Platform) -> list[ToolSpec]:
    """Those whose answer is a text."""

    @tool
    async def list_peers() -> str:
        """List the workspaces that you may delegate to."""
        return await _text(platform.peers(), peer_lines)

    @tool
    async def get_workspace_info() -> str:
        """Show what the platform knows of your own workspace."""
        return await _text(
            platform.workspace_info(), lambda row: json.dumps(row, indent=2, ensure_ascii=False)
        )

    @tool
    async def send_message_to_user(message: str) -> str:
        """Send a message to the user now, before the answer to the current task is ready."""
        if not message.strip():
            return "Error: the message is empty"
        return await _text(platform.notify(message), lambda _: "Message sent to user")

    return [list_peers, get_workspace_info, send_message_to_user]


async def _text(call: Awaitable[T], render: Callable[[T], str]) -> str:
    try:
        return render(await ask(call))
    except PlatformToolError as refusal:
        return f"Error: {refusal}"


async def delegation_status(platform: Platform, task_id: str = "") -> JSONObject:
    """One delegation with its whole result, or the recent ones; the platform keeps them across restarts."""
    try:
        if not task_id:
            rows = [_summary(row) for row in (await ask(platform.delegations()))[:MAX_LISTED]]
            listed: list[JSON] = [*rows]
            return {"delegations": listed, "count": len(listed)}
        row = await ask(platform.delegation(task_id))
    except PlatformToolError as refusal:
        unknown = isinstance(refusal.__cause__, CallFailed) and refusal.__cause__.status == 404
        return {"error": f"no delegation '{task_id[:100]}' of this workspace" if unknown else str(refusal)}
    status = _summary(row)
    result = row.get("result")
    if isinstance(result, dict):
        status["result"] = text_of(result.get("text"))
    return status


def _summary(row: JSONObject) -> JSONObject:
    status = text_of(row.get("status"))
    summary: JSONObject = {
        "task_id": text_of(row.get("delegation_id")),
        "workspace_id": text_of(row.get("target_id")),
        "status": _STATUS_NAMES.get(status, status or "pending"),
    }
    error = row.get("error")
    reason = text_of(error.get("message")) if isinstance(error, dict) else text_of(error)
    outcome = text_of(row.get("outcome"))
    if summary["status"] == "failed":
        summary["error"] = reason or f"the delegation ended as {outcome or 'failed'}"
    return summary


def peer_lines(rows: list[JSONObject]) -> str:
    """One line for each peer, as agents are shown them."""
    peers = [peer_of(row) for row in rows]
    lines = [
        f"- {one_line(peer.name)} (ID: {one_line(peer.id)}, status: {one_line(peer.status)},"
        f" role: {one_line(peer.role)})"
        for peer in peers
    ]
    return "\n".join(lines) or NO_PEERS


def attach(work_dir: Path, path: str) -> JSONObject:
    """Give a file to the sink of the turn that runs here; what may leave is checked when the turn ends."""
    sink = turn_context.get_sink()
    if sink is None:
        return {"success": False, "error": "no turn is running: attach files while you handle a message"}
    file = work_dir / path
    if not file.is_file():
        return {"success": False, "error": f"no such file: {path[:200]}"}
    sink.attach(file)
    return {"success": True, "path": str(file)}


class ProcessTool:
    """A built-in tool under the permissions and on the platform of this process, looked up at each call.

    Programs of the first generation import such tools before there is a platform.
    """

    def __init__(
        self, name: str, make_tools: Callable[[Platform], Iterable[ToolSpec]] = platform_tools
    ) -> None:
        self.name = name
        self._make_tools = make_tools

    async def ainvoke(self, arguments: dict[str, Any]) -> Any:
        """Call it with a dictionary of arguments."""
        platform = turn_context.get_platform()
        if platform is None:
            return {"success": False, "error": NO_PLATFORM}
        tools = ToolSet(self._make_tools(platform), permissions=turn_context.get_permissions())
        return await tools.call(self.name, arguments)

    async def __call__(self, **arguments: Any) -> Any:
        """Call it with arguments by name."""
        return await self.ainvoke(arguments)
