"""One conversation in four forms: A2A 1.0 and 0.3, each as JSON-RPC and as HTTP+JSON."""

import json
from dataclasses import dataclass
from typing import Any, cast

from packages.skills.tests.serve.served import Served

STATES = {
    "submitted": "TASK_STATE_SUBMITTED",
    "working": "TASK_STATE_WORKING",
    "input-required": "TASK_STATE_INPUT_REQUIRED",
    "completed": "TASK_STATE_COMPLETED",
    "failed": "TASK_STATE_FAILED",
    "canceled": "TASK_STATE_CANCELED",
    "rejected": "TASK_STATE_REJECTED",
}
METHODS = {
    "send": ("SendMessage", "message/send", "message:send"),
    "stream": ("SendStreamingMessage", "message/stream", "message:stream"),
    "get": ("GetTask", "tasks/get", "tasks/{id}"),
    "cancel": ("CancelTask", "tasks/cancel", "tasks/{id}:cancel"),
    "subscribe": ("SubscribeToTask", "tasks/resubscribe", "tasks/{id}:subscribe"),
}


@dataclass(frozen=True)
class Form:
    """A version and a binding."""

    version: str
    binding: str

    def part(self, value: Any) -> dict[str, Any]:
        if self.version == "1.0":
            return {"text": value} if isinstance(value, str) else {"data": value}
        if self.binding == "rest":
            return {"text": value} if isinstance(value, str) else {"data": {"data": value}}
        return {"kind": "text", "text": value} if isinstance(value, str) else {"kind": "data", "data": value}

    def message(self, *values: Any, **members: Any) -> dict[str, Any]:
        parts = [self.part(value) for value in values]
        role = "ROLE_USER" if self.version == "1.0" or self.binding == "rest" else "user"
        name = "content" if self.version == "0.3" and self.binding == "rest" else "parts"
        return {"messageId": "m", "role": role, name: parts, **members}

    def headers(self) -> dict[str, str]:
        return {"a2a-version": "1.0"} if self.version == "1.0" else {}

    async def perform(self, served: Served, operation: str, params: dict[str, Any], **headers: str) -> Any:
        """The result in 1.0 form as far as tests look at it, or {"error": …}."""
        new, old, path = METHODS[operation]
        if self.binding == "rpc":
            sent_headers = {**self.headers(), **headers}
            body = {
                "jsonrpc": "2.0",
                "id": 7,
                "method": new if self.version == "1.0" else old,
                "params": params,
            }
            text = (await served.http.post("/", json=body, headers=sent_headers)).text
            # A 0.3 client reads the answer to a resubscription as a stream, errors too.
            answer = json.loads(text.removeprefix("data: "))
            return answer if "error" in answer else answer["result"]
        prefix = "/v1/" if self.version == "0.3" else "/"
        place = prefix + path.format(id=params.get("id", ""))
        verb = "GET" if operation in ("get", "subscribe") else "POST"
        sent_body = None if verb == "GET" else {k: v for k, v in params.items() if k != "id"}
        sent_headers = {**self.headers(), **headers}
        return (await served.http.request(verb, place, json=sent_body, headers=sent_headers)).json()

    async def frames(
        self, served: Served, operation: str, params: dict[str, Any], limit: int | None = None, **headers: str
    ) -> list[tuple[str | None, Any]]:
        new, old, path = METHODS[operation]
        sent_headers = {**self.headers(), **{name.replace("_", "-"): text for name, text in headers.items()}}
        if self.binding == "rpc":
            body = {
                "jsonrpc": "2.0",
                "id": 7,
                "method": new if self.version == "1.0" else old,
                "params": params,
            }
            found = await served.frames("POST", "/", json=body, headers=sent_headers, limit=limit)
            return [(number, data.get("result", data)) for number, data in found]
        prefix = "/v1/" if self.version == "0.3" else "/"
        verb = "GET" if operation == "subscribe" else "POST"
        sent_body = {} if verb == "GET" else {"json": params}
        place = prefix + path.format(id=params.get("id", ""))
        return await served.frames(verb, place, headers=sent_headers, limit=limit, **sent_body)


FORMS = [Form(version, binding) for version in ("1.0", "0.3") for binding in ("rpc", "rest")]


def task_in(result: Any) -> dict[str, Any]:
    return result.get("task", result)


def state_of(result: Any) -> str:
    state = str(task_in(result)["status"]["state"])
    return STATES.get(state, state).replace("CANCELLED", "CANCELED")


def artifacts_of(result: Any) -> dict[str, Any]:
    """The value of each artifact by its id."""
    found: dict[str, Any] = {}
    for artifact in task_in(result).get("artifacts", []):
        texts = [value for part in artifact["parts"] if isinstance(value := value_of(part), str)]
        values = [value_of(part) for part in artifact["parts"]]
        found[artifact["artifactId"]] = "".join(texts) if len(texts) == len(values) else values[0]
    return found


def value_of(part: dict[str, Any]) -> Any:
    if "text" in part:
        return part["text"]
    if "file" in part:
        file = part["file"]
        return file.get("uri") or file.get("fileWithUri")
    if "url" in part:
        return part["url"]
    data: Any = part["data"]
    inner: dict[str, Any] = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    if set(inner) == {"data"}:
        data = inner["data"]
        inner = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    return inner["value"] if inner and part.get("metadata", {}).get("data_part_compat") else cast("Any", data)
