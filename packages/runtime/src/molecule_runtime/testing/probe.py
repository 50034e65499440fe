"""An A2A client that looks closely: it sends what a check says and shows every event that came back."""

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

import requests

from molecule_wire.sse_decoder import SSEDecoder

Version: TypeAlias = Literal["1.0", "0.3"]

TIMEOUT_SECONDS = 30.0
_METHODS = {
    "send": ("SendMessage", "message/send"),
    "stream": ("SendStreamingMessage", "message/stream"),
    "get": ("GetTask", "tasks/get"),
    "cancel": ("CancelTask", "tasks/cancel"),
    "subscribe": ("SubscribeToTask", "tasks/resubscribe"),
}


class CheckFailed(Exception):
    """What an agent did wrong, in one sentence."""


@dataclass
class Probe:
    """One agent at its URL; `headers` go with every request."""

    url: str
    headers: dict[str, str] = field(default_factory=dict[str, str])

    def message(self, version: Version, text: str, **names: str) -> dict[str, Any]:
        """A message of a user."""
        part = {"text": text} if version == "1.0" else {"kind": "text", "text": text}
        role = "ROLE_USER" if version == "1.0" else "user"
        kind = {} if version == "1.0" else {"kind": "message"}
        return {"messageId": uuid.uuid4().hex, "role": role, "parts": [part], **kind, **names}

    def call(self, version: Version, verb: str, params: dict[str, Any], **headers: str) -> dict[str, Any]:
        """A JSON-RPC call; the envelope that came back."""
        with self._post(version, verb, params, headers, stream=False) as answer:
            try:
                body: Any = answer.json()
            except ValueError:
                raise CheckFailed(f"{verb} {version} answered {answer.status_code} without JSON") from None
        if not isinstance(body, dict):
            raise CheckFailed(f"{verb} {version} answered no JSON-RPC envelope")
        return cast("dict[str, Any]", body)

    def result(self, version: Version, verb: str, params: dict[str, Any], **headers: str) -> dict[str, Any]:
        """The result of a call that must succeed."""
        body = self.call(version, verb, params, **headers)
        if "result" not in body:
            raise CheckFailed(f"{verb} {version} was refused: {body.get('error') or body}")
        return body["result"]

    def events(self, version: Version, verb: str, params: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The results of a stream, as they come."""
        with self._post(version, verb, params, {}, stream=True) as answer:
            if not answer.headers.get("content-type", "").startswith("text/event-stream"):
                raise CheckFailed(f"{verb} {version} answered {answer.status_code} and no event stream")
            decoder = SSEDecoder()
            for piece in answer.iter_content(None):
                for event in decoder.feed(piece):
                    body = json.loads(event.data)
                    if "error" in body:
                        raise CheckFailed(f"{verb} {version} streamed an error: {body['error']}")
                    yield body["result"]

    def get(self, path: str) -> requests.Response:
        """A plain GET."""
        return requests.get(self.url.rstrip("/") + path, headers=self.headers, timeout=TIMEOUT_SECONDS)

    def post(self, path: str, body: Any, **headers: str) -> requests.Response:
        """A plain POST of JSON, as HTTP+JSON has it."""
        sent = {**self.headers, **headers}
        return requests.post(self.url.rstrip("/") + path, json=body, headers=sent, timeout=TIMEOUT_SECONDS)

    def _post(
        self, version: Version, verb: str, params: dict[str, Any], headers: dict[str, str], *, stream: bool
    ) -> requests.Response:
        method = _METHODS[verb][0 if version == "1.0" else 1]
        body = {"jsonrpc": "2.0", "id": uuid.uuid4().hex, "method": method, "params": params}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        sent = {**self.headers, "A2A-Version": version, **named}
        return requests.post(self.url, json=body, headers=sent, stream=stream, timeout=TIMEOUT_SECONDS)


def body_of(event: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The kind of a result or event (message, task, status, artifact) and its body, in either version."""
    for member, kind in (
        ("message", "message"), ("task", "task"), ("statusUpdate", "status"), ("artifactUpdate", "artifact"),
    ):  # fmt: skip
        if isinstance(event.get(member), dict) and "kind" not in event:
            return kind, event[member]
    kinds = {"status-update": "status", "artifact-update": "artifact"}
    kind = str(event.get("kind"))
    return kinds.get(kind, kind), event


def state_of(body: dict[str, Any]) -> str:
    """The state of a task or status update, in the words of 0.3."""
    status: Any = body.get("status") or {}
    state = str(status.get("state", ""))
    return state.removeprefix("TASK_STATE_").lower().replace("_", "-")
