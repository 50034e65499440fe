"""A refused request leaves nothing behind, whichever reader of large bodies refused it."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from molecule_platform.testing import servers
from tests.e2e import attacks, http_servers
from tests.e2e.attacks import MEBIBYTE
from tests.e2e.platform_process import PlatformProcess

pytestmark = pytest.mark.slow  # each body has 15 MB

LARGE = "x" * 15_000_000
MOST_ABOVE_IDLE = 150 * MEBIBYTE
# What the allocator keeps back differs from round to round by less than two bodies.
MOST_PER_ROUND = 30 * MEBIBYTE
FEW, MANY = 10, 200
READERS = ("platform path", "standard endpoint", "inbox answer", "progress", "invoke")

Send = Callable[[], attacks.Answer]


@dataclass(frozen=True)
class Refusing:
    """A request that a process refuses after it has read the body, and the status it refuses it with."""

    pid: int
    send: Send
    status: int


@dataclass(frozen=True)
class Agent:
    id: str
    token: str


def agent(process: PlatformProcess, name: str) -> Agent:
    body = {"name": name, "runtime": "external", "delivery_mode": "poll"}
    created = process.ok("POST", "/workspaces", json=body)
    token = created["connection"]["auth_token"]
    card = {"id": created["id"], "delivery_mode": "poll", "agent_card": {"name": name}}
    process.ok("POST", "/registry/register", token=token, json=card)
    return Agent(created["id"], token)


def message(method: str, number: int, part: dict[str, Any]) -> bytes:
    sent = {"messageId": f"m{number}", "role": "user", "parts": [part]}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": sent}}).encode()


def full_mailbox(process: PlatformProcess, sender: Agent, target: Agent) -> None:
    """Let the sender use up its share of the target's mailbox."""
    for number in range(100):
        body = message("message/send", number, {"kind": "text", "text": LARGE})
        path = f"/workspaces/{target.id}/a2a"
        if attacks.post(process, path, body, sender.token, Prefer="respond-async").status == 503:
            return
    raise AssertionError("the mailbox took a hundred large messages")


def lost_lease(process: PlatformProcess) -> tuple[Agent, str]:
    """An agent, and the path of a message of which it holds no lease."""
    holder = agent(process, "holder")
    sent = message("message/send", 0, {"kind": "text", "text": "hi"})
    attacks.post(process, f"/workspaces/{holder.id}/a2a", sent, process.admin_token(), Prefer="respond-async")
    leased = process.ok("POST", f"/workspaces/{holder.id}/inbox/lease", token=holder.token, json={})
    return holder, f"/workspaces/{holder.id}/inbox/{leased['messages'][0]['message_id']}"


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Refusing]]:
    folder: Path = tmp_path_factory.mktemp("refused")
    process = PlatformProcess(servers.free_port(), folder / "data")
    process.start()
    with ExitStack() as stack:
        stack.callback(process.stop)
        skill = stack.enter_context(http_servers.skill_server())
        sender, target = agent(process, "sender"), agent(process, "target")
        full_mailbox(process, sender, target)
        holder, held = lost_lease(process)
        wrong = {"lease_token": "not-the-token"}
        part = {"kind": "text", "text": LARGE}
        platform_path = message("message/send", 1000, part)
        standard = message("message/send", 1001, part)
        answer = json.dumps({**wrong, "text": LARGE}).encode()
        artifact = {"artifactId": "a", "parts": [{"text": LARGE}]}
        progress = json.dumps({**wrong, "artifact": artifact}).encode()
        invoke = json.dumps({"arguments": {"person": {"name": LARGE}}}).encode()

        def posting(path: str, body: bytes, token: str) -> Send:
            return lambda: attacks.post(process, path, body, token)

        pid = process.pid
        yield {
            "platform path": Refusing(
                pid, posting(f"/workspaces/{target.id}/a2a", platform_path, sender.token), 503
            ),
            "standard endpoint": Refusing(pid, posting(f"/agents/{target.id}", standard, sender.token), 503),
            "inbox answer": Refusing(pid, posting(f"{held}/answer", answer, holder.token), 409),
            "progress": Refusing(pid, posting(f"{held}/progress", progress, holder.token), 409),
            "invoke": Refusing(skill.pid, lambda: attacks.post(skill, "/invoke/greet", invoke, ""), 400),
        }


@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.long)])
@pytest.mark.parametrize("reader", READERS)
def test_refused_bodies_leave_nothing_behind(refusing: dict[str, Refusing], reader: str, count: int) -> None:
    one = refusing[reader]
    assert one.send().status == one.status
    idle = attacks.resident_bytes(one.pid)
    rounds: list[int] = []
    for _ in range(2):
        for _ in range(count):
            assert one.send().status == one.status
        rounds.append(attacks.resident_bytes(one.pid))
    figures = f"{idle >> 20} MB idle, then {[size >> 20 for size in rounds]} MB"
    assert max(rounds) - idle <= MOST_ABOVE_IDLE, figures
    assert rounds[1] - rounds[0] <= MOST_PER_ROUND, figures
