"""Nothing accepted is lost: the platform is killed while messages are on their way."""

import http.server
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests

from molecule_agent import InboundMessage, InboxDelivery, RemoteAgentClient
from molecule_wire.a2a import text
from tests.e2e.platform_process import PlatformProcess

EACH = 50
SENDERS = 12
KILLS = 1
PATIENCE_SECONDS = 150.0


class PushAgent:
    """An agent with a URL. It works a moment on each message and remembers which ids it saw."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        agent = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                agent.seen[self.headers["X-Molecule-Message-Id"]] += 1
                time.sleep(0.01)
                said = text.text_of_message(body["params"]["message"])
                answer = json.dumps({"jsonrpc": "2.0", "id": body["id"], "result": f"re: {said}"}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None:
                return

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class Sender:
    """Sends one message and goes on asking, with the same body, until it has the outcome."""

    def __init__(self, process: PlatformProcess, token: str, target: str, number: int) -> None:
        self.process, self.target, self.number = process, target, number
        self.headers = {"Authorization": f"Bearer {token}", "Prefer": "wait=5"}
        self.until = time.monotonic() + PATIENCE_SECONDS

    def run(self) -> str:
        while time.monotonic() < self.until:
            try:
                answer = requests.post(
                    f"{self.process.url}/workspaces/{self.target}/a2a",
                    json=self.body(),
                    headers=self.headers,
                    timeout=20,
                )
            except requests.RequestException:
                time.sleep(0.05)
                continue
            if answer.status_code == 200 and "queued" not in answer.json():
                return text.text_of(answer.json()["result"])
        return "no outcome"

    def body(self) -> dict[str, Any]:
        parts = [{"kind": "text", "text": f"{self.number}"}]
        message = {"role": "user", "messageId": f"m-{self.number}", "parts": parts}
        return {"jsonrpc": "2.0", "id": "1", "method": "message/send", "params": {"message": message}}


@pytest.fixture
def push_agent() -> Iterator[PushAgent]:
    agent = PushAgent()
    yield agent
    agent.close()


def join_push(process: PlatformProcess, agent: PushAgent) -> str:
    body = {"name": "pushed", "runtime": "external", "max_concurrent_tasks": 4}
    created = process.ok("POST", "/workspaces", json=body)
    register = {"id": created["id"], "url": agent.url, "agent_card": {"name": "pushed"}}
    process.ok("POST", "/registry/register", token=created["connection"]["auth_token"], json=register)
    return created["id"]


def join_poll(process: PlatformProcess, home: Path) -> RemoteAgentClient:
    created = process.ok("POST", "/workspaces", json={"name": "polled", "runtime": "external"})
    client = RemoteAgentClient(created["id"], process.url, token_dir=home)
    client.save_token(created["connection"]["auth_token"])
    client.register()
    return client


def handle(message: InboundMessage, _client: RemoteAgentClient) -> str:
    time.sleep(0.01)
    return f"re: {message.text}"


def events_of(process: PlatformProcess, workspace_id: str, kind: str) -> Counter[str]:
    rows = process.ok("GET", f"/events/{workspace_id}?since=0&limit=1000&type={kind}")
    return Counter(row["payload"]["message_id"] for row in rows)


@pytest.mark.both_engines
@pytest.mark.slow  # 100 messages, a kill, and leases of ten seconds that must run out
@pytest.mark.timeout(180)
def test_every_message_has_one_outcome_although_the_platform_is_killed(
    process: PlatformProcess, push_agent: PushAgent, tmp_path: Path
) -> None:
    process.start()
    token = process.admin_token()
    pushed = join_push(process, push_agent)
    polled = join_poll(process, tmp_path / "home")
    delivery = InboxDelivery(polled, wait=2, lease=10, concurrency=2)
    working = threading.Thread(target=polled.run_agent_loop, args=(handle, delivery))
    working.start()
    with ThreadPoolExecutor(SENDERS) as pool:
        targets = [pushed, polled.workspace_id]
        numbers = range(2 * EACH)
        waiting = [pool.submit(Sender(process, token, targets[n % 2], n).run) for n in numbers]
        for kill in range(KILLS):
            wait_until_done(waiting, at_least=25 + 35 * kill)
            process.kill()
            process.start()
        outcomes = [future.result() for future in waiting]
    polled.stop()
    working.join(30)
    polled.close()
    assert outcomes == [f"re: {n}" for n in numbers]
    for workspace_id in (pushed, polled.workspace_id):
        accepted = events_of(process, workspace_id, "MESSAGE_ACCEPTED")
        answered = events_of(process, workspace_id, "MESSAGE_ANSWERED")
        assert len(accepted) == EACH
        assert answered == accepted
        assert set(answered.values()) == {1}
    assert set(push_agent.seen) == set(events_of(process, pushed, "MESSAGE_ANSWERED"))


def wait_until_done(waiting: list[Any], at_least: int) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while sum(future.done() for future in waiting) < at_least:
        assert time.monotonic() < deadline, "the messages do not move"
        time.sleep(0.005)


def test_a_person_who_waits_at_the_terminal_gets_the_answer_across_a_crash(
    process: PlatformProcess, tmp_path: Path
) -> None:
    process.start()
    polled = join_poll(process, tmp_path / "home")
    command = [sys.executable, "-m", "molecule_platform.cli.main", "send", "polled", "hi", "--wait", "40"]
    environment = {**os.environ, "MOLECULE_PLATFORM_URL": process.url, "ADMIN_TOKEN": process.admin_token()}
    sending = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    wait_for_mail(process, polled.workspace_id)
    process.kill()
    process.start()
    delivery = InboxDelivery(polled, wait=10)
    assert delivery.run_once(handle) == 1
    delivery.stop()
    polled.close()
    said, _ = sending.communicate(timeout=60)
    assert (sending.returncode, said.strip()) == (0, "re: hi")


def wait_for_mail(process: PlatformProcess, workspace_id: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while process.ok("GET", f"/workspaces/{workspace_id}/inbox")["pending"] == 0:
        assert time.monotonic() < deadline, "the message was not accepted"
        time.sleep(0.01)
