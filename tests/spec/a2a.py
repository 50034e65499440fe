"""A caller of the A2A doors in any framing; what it hears is told in 1.0, to be compared."""

import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal
from uuid import uuid4

import requests

from molecule_platform.testing import scripted_agent
from molecule_platform.testing.scripted_agent import ScriptedAgent
from molecule_wire.a2a import convert, operations
from molecule_wire.a2a.operations import Dialect, Operation
from tests.spec.platforms import Platform

Binding = Literal["rpc", "rest", "platform"]

FRAMINGS: tuple[tuple[Binding, Dialect], ...] = (
    ("rpc", "1.0"),
    ("rpc", "0.3"),
    ("rest", "1.0"),
    ("rest", "0.3"),
)
PLATFORM_PATH: tuple[tuple[Binding, Dialect], ...] = (("platform", "1.0"), ("platform", "0.3"))


@dataclass(frozen=True)
class Frame:
    """One event of a stream; `id` is None for an error."""

    id: int | None
    data: dict[str, Any]
    event: dict[str, Any]

    @property
    def kind(self) -> str:
        """Which member of a stream response it is."""
        return next(iter(self.event), "")


class Problem(AssertionError):
    """An error that came instead of a result."""

    def __init__(self, status: int, error: dict[str, Any]) -> None:
        super().__init__(f"{status}: {error}")
        self.status = status
        self.error = error

    @property
    def info(self) -> dict[str, Any]:
        """The ErrorInfo."""
        details: Any = self.error.get("data", self.error.get("details"))
        return details[0]

    @property
    def reason(self) -> str:
        return self.info["reason"]


@dataclass(frozen=True)
class Caller:
    """Somebody who speaks to one agent in one framing."""

    platform: Platform
    agent_id: str
    binding: Binding = "rpc"
    dialect: Dialect = "1.0"
    token: str | None = None
    tenant: str = ""

    @property
    def base(self) -> str:
        return f"/agents/{self.agent_id}"

    # Asking

    def message(self, text: str = "hello", message_id: str = "", **more: Any) -> dict[str, Any]:
        """A message in 1.0."""
        named = message_id or f"complete-{uuid4()}"
        return {"messageId": named, "role": "ROLE_USER", "parts": [{"text": text}], **more}

    def send(self, message: dict[str, Any], *, headers: dict[str, str] | None = None, **more: Any) -> Any:
        """A send result in 1.0: `{"task": …}` or `{"message": …}`."""
        answer = self.ask(operations.SEND, {"message": message, **more}, headers=headers)
        return self._event(_result(answer, self.binding))

    @contextmanager
    def streaming(
        self, message: dict[str, Any], *, headers: dict[str, str] | None = None, **more: Any
    ) -> Generator[Iterator[Frame]]:
        """A send whose events are read as they come."""
        params = {"message": message, **more}
        with self.ask(operations.STREAM, params, headers=headers, stream=True) as answer:
            yield self.frames(answer)

    def stream(self, message: dict[str, Any], **more: Any) -> list[Frame]:
        """All events of a send."""
        with self.streaming(message, **more) as frames:
            return list(frames)

    @contextmanager
    def subscribing(self, task_id: str, last_seen: int | str | None = None) -> Generator[Iterator[Frame]]:
        """A task that is followed, from the last event seen or from now."""
        headers = {} if last_seen is None else {"Last-Event-ID": str(last_seen)}
        with self.ask(operations.SUBSCRIBE, {"id": task_id}, headers=headers, stream=True) as answer:
            yield self.frames(answer)

    def subscribe(self, task_id: str, last_seen: int | str | None = None) -> list[Frame]:
        """All events of a task until its stream ends."""
        with self.subscribing(task_id, last_seen) as frames:
            return list(frames)

    def get(self, task_id: str, **more: Any) -> dict[str, Any]:
        """A task in 1.0."""
        return self._task(_result(self.ask(operations.GET, {"id": task_id, **more}), self.binding))

    def cancel(self, task_id: str) -> dict[str, Any]:
        """A task in 1.0, called off."""
        return self._task(_result(self.ask(operations.CANCEL, {"id": task_id}), self.binding))

    def list(self, **params: Any) -> dict[str, Any]:
        """A page of tasks."""
        return _result(self.ask(operations.LIST, params), self.binding)

    def result(self, operation: Operation, params: dict[str, Any]) -> Any:
        """The bare result of any operation."""
        is_stream = operation is operations.SUBSCRIBE
        return _result(self.ask(operation, params, stream=is_stream), self.binding)

    # The framings

    def ask(
        self,
        operation: Operation,
        params: dict[str, Any],
        *,
        headers: dict[str, str] | None = None,
        stream: bool = False,
    ) -> requests.Response:
        """One request; `params` are in 1.0 for sends."""
        sent = {**self._version(), **(headers or {})}
        if self.binding == "rest":
            return self._rest(operation, params, sent, stream)
        spoken = convert.TO_0_3.params(operation, params) if self.dialect == "0.3" else params
        if self.tenant:
            spoken = {"tenant": self.tenant, **spoken}
        body = {"jsonrpc": "2.0", "id": "rpc-1", "method": operation.method(self.dialect), "params": spoken}
        path = f"/workspaces/{self.agent_id}/a2a" if self.binding == "platform" else self.base
        return self.platform.call("POST", path, self.token, json=body, headers=sent, stream=stream)

    def _version(self) -> dict[str, str]:
        return {"A2A-Version": "1.0"} if self.dialect == "1.0" else {}

    def _rest(
        self, operation: Operation, params: dict[str, Any], headers: dict[str, str], stream: bool
    ) -> requests.Response:
        path = operation.path(self.dialect)
        assert path is not None
        rest = dict(params)
        task_name = "taskId" if "pushNotificationConfigs" in path and self.dialect == "1.0" else "id"
        if "{id}" in path:
            path = path.replace("{id}", rest.pop(task_name))
        if "{cid}" in path:
            name = "id" if self.dialect == "1.0" else "pushNotificationConfigId"
            path = path.replace("{cid}", rest.pop(name))
        if self.dialect == "0.3":
            rest = convert.TO_0_3_REST.params(operation, rest)
        tenant = f"/{self.tenant}" if self.tenant else ""
        verb = operation.verbs[0]
        carried: dict[str, Any] = {"json": rest} if verb == "POST" else {"params": _query(rest)}
        return self.platform.call(
            verb, f"{self.base}{tenant}{path}", self.token, headers=headers, stream=stream, **carried
        )

    def frames(self, answer: requests.Response) -> Iterator[Frame]:
        """The frames of a stream; raises `Problem` when it did not begin."""
        if answer.headers["Content-Type"] != "text/event-stream":
            _result(answer, self.binding)
            raise AssertionError(f"no stream: {answer.text[:500]}")
        return self._frames(answer)

    def _frames(self, answer: requests.Response) -> Iterator[Frame]:
        number: int | None = None
        is_first = True
        for line in answer.iter_lines(chunk_size=None):
            name, _, value = line.partition(b": ")
            if name == b"id":
                number = int(value)
            elif name == b"data":
                frame = self._frame(number, json.loads(value))
                if is_first and "error" in frame.event:
                    # What clients of 0.3 get for a task that they cannot join.
                    raise Problem(answer.status_code, frame.event["error"])
                yield frame
                number, is_first = None, False

    def _frame(self, number: int | None, data: dict[str, Any]) -> Frame:
        if "error" in data:
            return Frame(number, data, {"error": data["error"]})
        return Frame(number, data, self._event(data if self.binding == "rest" else data["result"]))

    def _event(self, spoken: dict[str, Any]) -> dict[str, Any]:
        if self.dialect == "1.0":
            return spoken
        if self.binding == "rest":
            return convert.FROM_0_3_REST.event(spoken)
        mirrored = {"parts"} if "status" in spoken else set[str]()
        return convert.FROM_0_3.event({name: value for name, value in spoken.items() if name not in mirrored})

    def _task(self, spoken: dict[str, Any]) -> dict[str, Any]:
        if self.dialect == "1.0":
            return spoken
        return (convert.FROM_0_3_REST if self.binding == "rest" else convert.FROM_0_3).task(spoken)


def _query(params: dict[str, Any]) -> dict[str, Any]:
    return {name: str(value).lower() if isinstance(value, bool) else value for name, value in params.items()}


def _result(answer: requests.Response, binding: Binding) -> Any:
    is_stream = answer.headers["Content-Type"] == "text/event-stream"
    body: Any = json.loads(answer.text.removeprefix("data: ")) if is_stream else answer.json()
    if "error" in body:
        raise Problem(answer.status_code, body["error"])
    assert answer.status_code < 300, answer.text
    return body if binding == "rest" else body["result"]


@dataclass(frozen=True)
class Pushed:
    """A workspace whose agent follows a script at a URL."""

    platform: Platform
    agent: ScriptedAgent
    id: str
    token: str

    def caller(self, binding: Binding = "rpc", dialect: Dialect = "1.0", token: str | None = None) -> Caller:
        """The administrator, or somebody with a token, in one framing."""
        return Caller(self.platform, self.id, binding, dialect, token)


@contextmanager
def pushed(
    platform: Platform, parent: str | None = None, agent: ScriptedAgent | None = None, **card: Any
) -> Generator[Pushed]:
    """A scripted agent that has registered."""
    agent = agent or ScriptedAgent()
    with scripted_agent.running(agent) as url:
        created = platform.create("scripted", parent)
        token = created["connection"]["auth_token"]
        body = {"id": created["id"], "url": url, "agent_card": {**agent.card(url), **card}}
        platform.ok("POST", "/registry/register", token, json=body)
        yield Pushed(platform, agent, created["id"], token)


@dataclass(frozen=True)
class Polled:
    """A workspace whose agent takes its mail from the inbox."""

    platform: Platform
    id: str
    token: str

    def caller(self, binding: Binding = "rpc", dialect: Dialect = "1.0", token: str | None = None) -> Caller:
        """The administrator, or somebody with a token, in one framing."""
        return Caller(self.platform, self.id, binding, dialect, token)

    def lease(self) -> dict[str, Any]:
        """The next message, taken."""
        taken = self.platform.ok("POST", f"/workspaces/{self.id}/inbox/lease", self.token, json={"wait": 20})
        return taken["messages"][0]

    def answer(self, text: str, state: str = "completed", item: dict[str, Any] | None = None) -> None:
        """Answer the message taken, or the next one."""
        item = item or self.lease()
        body = {"lease_token": item["lease"]["token"], "text": text, "state": state}
        path = f"/workspaces/{self.id}/inbox/{item['message_id']}/answer"
        self.platform.ok("POST", path, self.token, json=body)


def polled(platform: Platform, parent: str | None = None, **card: Any) -> Polled:
    """A new workspace with an agent that polls."""
    created = platform.create("polled", parent)
    token = created["connection"]["auth_token"]
    body = {"id": created["id"], "agent_card": {"name": "polled", **card}}
    platform.ok("POST", "/registry/register", token, json=body)
    return Polled(platform, created["id"], token)


ASYNC: dict[str, Any] = {"configuration": {"returnImmediately": True}}
"""What a send says that does not wait."""
