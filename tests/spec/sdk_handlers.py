"""An agent of the SDK with a handler, reached in each of the ways there are, and its caller."""

import json
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, Literal

from molecule_agent import InboxDelivery, MessageHandler, PollDelivery, RemoteAgentClient
from molecule_wire.a2a import text
from tests.spec.platforms import Platform, message

Way = Literal["poll", "inbox", "push"]
WAYS: tuple[Way, ...] = ("poll", "inbox", "push")


@contextmanager
def serving(client: RemoteAgentClient, way: Way, handler: MessageHandler) -> Generator[RemoteAgentClient]:
    """Let the agent of a workspace answer with the handler while this is entered."""
    if way == "push":
        server = client.start_a2a_server(handler, host="127.0.0.1")
        client.register()
        yield client
        server.stop()
        return
    wait = 0.5
    delivery = InboxDelivery(client, wait=wait) if way == "inbox" else PollDelivery(client, wait=wait)
    loop = threading.Thread(target=client.run_agent_loop, args=(handler, delivery))
    loop.start()
    try:
        yield client
    finally:
        client.stop()
        loop.join(20)
        assert not loop.is_alive()


class Caller:
    """The administrator, who talks to one agent."""

    def __init__(self, platform: Platform, target_id: str) -> None:
        self._platform = platform
        self._path = f"/workspaces/{target_id}/a2a"
        self._base = f"/agents/{target_id}/"

    def send(self, words: str, **names: str) -> dict[str, Any]:
        """The outcome of a message: the row, with the text of its answer."""
        body = message(words)
        body["params"]["message"] |= names
        headers = {"Prefer": "respond-async"}
        sent = self._platform.ok("POST", self._path, json=body, headers=headers)["message_id"]
        row = self._platform.ok("GET", f"/messages/{sent}?wait=30")
        assert row["finished_at"], row
        return row | {"text": text.text_of(row["result"])}

    def stream(self, words: str) -> Iterator[dict[str, Any]]:
        """The events of a message that is sent as a stream, as they come."""
        said = {"messageId": f"m-{words}", "role": "ROLE_USER", "parts": [{"text": words}]}
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": said}}
        headers = {"A2A-Version": "1.0"}
        answer = self._platform.call("POST", self._base, json=body, headers=headers, stream=True)
        with answer:
            for line in answer.iter_lines(chunk_size=1):
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])["result"]


def grown(events: list[dict[str, Any]]) -> str:
    """What somebody has read of an answer after these events."""
    made: dict[str, str] = {}
    for event in events:
        if update := event.get("artifactUpdate"):
            piece = "".join(part["text"] for part in update["artifact"]["parts"])
            name = update["artifact"]["artifactId"]
            made[name] = made.get(name, "") + piece if update.get("append") else piece
    return "".join(made.values())
