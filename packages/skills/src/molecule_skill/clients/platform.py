"""Calls to skills of other workspaces, through the platform: its tree decides, and its mailbox keeps them."""

import asyncio
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from molecule_skill.a2a_client import A2AClient, CallResult
from molecule_skill.clients.remote_errors import remote_error, unreachable
from molecule_skill.errors import A2AError, CallTimeout, GrantDelegationDenied
from molecule_skill.events import ArtifactRef
from molecule_skill.http_client import HttpClient
from molecule_wire import JSON, JSONObject, ids, jsontext
from molecule_wire.a2a import convert
from molecule_wire.calls import CallFailed, Reply, Request, a2a, registry

DEFAULT_TIMEOUT = 60.0
POLL_SECONDS = (0.2, 0.5, 1.0, 2.0)
_OVER = ("completed", "failed", "canceled", "rejected")


class PlatformA2AClient(A2AClient):
    """Runs skills of workspaces that the org tree lets this one call; the target is an id, name or slug.

    `token` is the workspace's own credential, or a function that gives the current one. It goes to the
    platform and nowhere else.
    """

    def __init__(
        self,
        platform_url: str,
        workspace_id: str,
        token: str | Callable[[], str],
        *,
        default_timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        self._url = platform_url.rstrip("/")
        self._workspace_id = workspace_id
        self._token = token
        self._default_timeout = default_timeout
        self._http = HttpClient(allow_private=True)
        self._ids: dict[str, str] = {}

    async def call(
        self,
        target: str,
        skill: str,
        *,
        args: dict[str, Any] | None = None,
        grant: str | None = None,
        timeout: float | None = None,
    ) -> CallResult:
        """See `A2AClient`. Raises A2AError, also as the class that the callee's code names."""
        if grant is not None:
            raise GrantDelegationDenied("file grants cannot be passed on yet: call without grant=")
        seconds = self._default_timeout if timeout is None else timeout
        task_id, target_id, ended = "", "", False
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                target_id = await self._workspace(target)
                task = await self._send(target_id, skill, args or {}, seconds)
                task_id = str(task.get("id") or "")
                task = await self._settled(target_id, task)
                ended = True
                return _result(self._url, task)
        except TimeoutError as problem:
            if not limit.expired():
                raise unreachable(self._url, problem) from problem
            raise CallTimeout(f"{target}.{skill} took longer than {seconds:g} s") from problem
        finally:
            if task_id and not ended:
                await self._cancel(target_id, task_id)

    async def close(self) -> None:
        """Give the connections up."""
        await self._http.close()

    async def _workspace(self, target: str) -> str:
        """The id of a workspace by its id, its name or its slug. Raises KeyError."""
        if ids.is_uuid(target):
            return target
        if target not in self._ids:
            reply = await self._request(registry.peers(self._workspace_id))
            self._ids = _by_name(registry.read_peer_rows(reply))
        if target not in self._ids:
            raise KeyError(f"unknown workspace: {target!r}; the org tree lets you call {sorted(self._ids)}")
        return self._ids[target]

    async def _send(self, target_id: str, skill: str, args: dict[str, Any], seconds: float) -> JSONObject:
        rpc_id, message_id = ids.uuid7(), ids.uuid7()
        api_call = a2a.run_skill(
            self._workspace_id,
            target_id,
            skill,
            args,
            rpc_id=rpc_id,
            message_id=message_id,
            timeout=seconds + 30.0,
        )
        return await self._task(api_call)

    async def _settled(self, target_id: str, task: JSONObject) -> JSONObject:
        """Look at the task until it is over: the platform holds a call for some seconds only."""
        looks = 0
        while task.get("kind") == "task" and _state(task) not in _OVER:
            await asyncio.sleep(POLL_SECONDS[min(looks, len(POLL_SECONDS) - 1)])
            looks += 1
            api_call = a2a.get_task(self._workspace_id, target_id, str(task["id"]), rpc_id=ids.uuid7())
            task = await self._task(api_call)
        return task

    async def _cancel(self, target_id: str, task_id: str) -> None:
        api_call = a2a.cancel_task(self._workspace_id, target_id, task_id, rpc_id=ids.uuid7())
        with suppress(A2AError, OSError, ValueError):
            await asyncio.shield(self._request(api_call))

    async def _task(self, api_call: Request) -> JSONObject:
        envelope = a2a.read_envelope(await self._request(api_call))
        result, error = envelope.get("result"), envelope.get("error")
        if isinstance(error, dict):
            raise remote_error(self._url, None, {"error": error.get("message"), "code": _code_in(error)})
        if not isinstance(result, dict):
            raise remote_error(self._url, None, {"error": "the answer has no result", "code": None})
        return result

    async def _request(self, api_call: Request) -> Reply:
        token = self._token() if callable(self._token) else self._token
        headers = {**api_call.headers, "authorization": f"Bearer {token}", "accept": "application/json"}
        content = None if api_call.json is None else jsontext.encode(api_call.json)
        try:
            reply = await self._http.send(
                api_call.method,
                self._url + api_call.path,
                headers=headers,
                content=content,
                timeout=api_call.timeout,
            )
        except TimeoutError:
            raise
        except (OSError, ValueError) as problem:
            raise unreachable(self._url, problem) from problem
        try:
            made = Reply(reply.status, reply.headers, jsontext.decode(reply.body))
        except jsontext.NotJSON:
            made = Reply(reply.status, reply.headers, None, readable=False)
        if not made.ok:
            raise _refused(self._url, made)
        return made


def _by_name(peers: list[JSONObject]) -> dict[str, str]:
    """The ids of peers by name, and by slug: the name in small letters and hyphens, where it names one."""
    named = {str(row["name"]): str(row["id"]) for row in peers if isinstance(row.get("name"), str)}
    slugs = [re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") for name in named]
    alone = {slug: id for slug, id in zip(slugs, named.values(), strict=True) if slugs.count(slug) == 1}
    return {**alone, **named}


def _refused(url: str, reply: Reply) -> A2AError:
    from molecule_wire.calls import failures

    problem: CallFailed = failures.failure(reply)
    body: JSONObject = {**problem.extras, "error": problem.message, "code": problem.code or None}
    return remote_error(url, problem.status, body)


def _state(task: JSONObject) -> str:
    status = task.get("status")
    return str(status.get("state")) if isinstance(status, dict) else ""


def _result(url: str, answered: JSONObject) -> CallResult:
    """What a task that is over, or a bare Message, stands for. Raises A2AError."""
    modern = convert.FROM_0_3.event(answered)
    task = modern.get("task")
    if not isinstance(task, dict):
        message = modern.get("message")
        return CallResult(_value(message.get("parts") if isinstance(message, dict) else None))
    state, run_id = _state(answered), str(task.get("id") or "")
    if state != "completed":
        raise _failed(url, task, state)
    files, result = list[ArtifactRef](), None
    for artifact in _objects(task.get("artifacts")):
        if artifact.get("artifactId") == "result":
            result = _value(artifact.get("parts"))
        for part in _objects(artifact.get("parts")):
            if isinstance(part.get("url"), str):
                media = str(part.get("mediaType") or "application/octet-stream")
                files.append(ArtifactRef(str(artifact.get("name") or ""), str(part["url"]), media, 0))
    if result is None:
        status = task.get("status")
        message = status.get("message") if isinstance(status, dict) else None
        result = _value(message.get("parts") if isinstance(message, dict) else None)
    return CallResult(result, artifacts=tuple(files), run_id=run_id)


def _failed(url: str, task: JSONObject, state: str) -> A2AError:
    metadata, status = task.get("metadata"), task.get("status")
    details = metadata.get("molecule") if isinstance(metadata, dict) else None
    body: JSONObject = dict(details) if isinstance(details, dict) else {}
    message = status.get("message") if isinstance(status, dict) else None
    text = _value(message.get("parts")) if isinstance(message, dict) else None
    body["error"] = text if isinstance(text, str) else f"the task ended as {state}"
    if not body.get("code"):
        body["code"] = "cancelled" if state == "canceled" else "skill-failed"
    number = body.get("status")
    return remote_error(url, number if isinstance(number, int) else None, body)


def _value(parts: JSON) -> Any:
    """The value of a list of parts: that of a data part, else the text."""
    listed = _objects(parts)
    for part in listed:
        if "data" in part:
            return part["data"]
    texts = [str(part["text"]) for part in listed if "text" in part]
    return "\n".join(texts) if texts else None


def _code_in(error: Mapping[str, JSON]) -> JSON:
    for detail in _objects(error.get("data")):
        metadata = detail.get("metadata")
        if isinstance(metadata, dict) and metadata.get("code"):
            return metadata["code"]
    return None


def _objects(value: JSON) -> list[JSONObject]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
