"""No agent can stall another: what was used to attack the platform, and who is served meanwhile."""

import contextlib
import http.client
import threading
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from molecule_platform.testing import misbehaving_agent, servers
from tests.e2e import attacks
from tests.e2e.attacks import MEBIBYTE, Answer, HealthProbe
from tests.e2e.platform_process import PlatformProcess

pytestmark = [
    pytest.mark.slow,  # each attack is megabytes, and is watched for a while
    pytest.mark.usefixtures("honest"),
]

PROMPT_SECONDS, LATEST_SECONDS = 0.25, 1.0
MEMORY_BYTES = 300 * MEBIBYTE
IDLE_SECONDS = AFTER_SECONDS = 1.0


@dataclass(frozen=True)
class Member:
    id: str
    token: str


@dataclass
class Scene:
    """A platform with an agent that is attacked and one that attacks, and how it is when nobody does."""

    process: PlatformProcess
    # What was measured during all attacks together.
    attacked: HealthProbe
    idle_seconds: float = 0.0
    idle_bytes: int = 0

    def join(self, name: str, **fields: Any) -> Member:
        body = {"name": name, "runtime": "external", **fields}
        created = self.process.ok("POST", "/workspaces", json=body)
        member = Member(created["id"], created["connection"]["auth_token"])
        self.beat(member)
        return member

    def beat(self, member: Member) -> None:
        body = {"workspace_id": member.id}
        self.process.ok("POST", "/registry/heartbeat", token=member.token, json=body)

    def send(self, target: Member, sender: Member, body: bytes) -> Answer:
        path = f"/workspaces/{target.id}/a2a"
        return attacks.post(self.process, path, body, sender.token, Prefer="respond-async")

    def leased(self, target: Member) -> tuple[str, bytes]:
        """The path of a message that the target has leased, and the token of its lease."""
        path = f"/workspaces/{target.id}/inbox"
        [item] = self.process.ok("POST", f"{path}/lease", token=target.token, json={"limit": 1})["messages"]
        return f"{path}/{item['message_id']}", item["lease"]["token"].encode()

    @contextlib.contextmanager
    def watched(self) -> Generator[HealthProbe]:
        """While somebody attacks, health is answered in time and memory stays."""
        with HealthProbe(self.process.port) as probe:
            yield probe
            time.sleep(AFTER_SECONDS)
        print(f"{probe}; idle {self.idle_seconds:.3f} s", end="; ")
        used = attacks.resident_bytes(self.process.pid, "VmHWM") - self.idle_bytes
        print(f"{used / MEBIBYTE:.0f} MiB above idle")
        self.attacked.seconds += probe.seconds
        assert probe.slowest - self.idle_seconds <= LATEST_SECONDS, probe
        assert used <= MEMORY_BYTES, f"{used / MEBIBYTE:.0f} MiB more than idle"


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    process = PlatformProcess(servers.free_port(), tmp_path_factory.mktemp("attacked") / "data")
    process.environment["MOLECULE_MAX_CONNECTIONS"] = "100"
    process.start()
    scene = Scene(process, HealthProbe(process.port))
    with HealthProbe(process.port) as probe:
        time.sleep(IDLE_SECONDS)
    scene.idle_seconds = probe.slowest
    scene.idle_bytes = attacks.resident_bytes(process.pid)
    yield scene
    assert process.stop() == 0
    print(f"all attacks: {scene.attacked}")
    assert scene.attacked.within(0.99) - scene.idle_seconds <= PROMPT_SECONDS, scene.attacked


@pytest.fixture
def honest(scene: Scene) -> Iterator[None]:
    """Two agents who talk to each other all the time; every one of their messages is answered."""
    asker, answerer = scene.join("asker"), scene.join("answerer")
    over, problems = threading.Event(), list[str]()

    def talk() -> None:
        number = 0
        while not over.is_set():
            number += 1
            body = attacks.send_body(b'{"kind":"text","text":"hello"}', f"honest-{number}")
            sent = scene.send(answerer, asker, body)
            if sent.status != 200:
                problems.append(f"send {number}: {sent}")
                return
            path, token = scene.leased(answerer)
            answer = b'{"lease_token":"%b","text":"well"}' % token
            answered = attacks.post(scene.process, f"{path}/answer", answer, answerer.token)
            if answered.status != 200:
                problems.append(f"answer {number}: {answered}")
                return
            scene.beat(asker)

    thread = threading.Thread(target=talk)
    thread.start()
    yield
    over.set()
    thread.join()
    assert not problems


def test_bodies_of_tiny_values_are_refused_at_once(scene: Scene) -> None:
    target, sender = scene.join("target"), scene.join("sender")
    values = attacks.send_body(attacks.tiny_values(14 * MEBIBYTE), "values")
    parts = attacks.tiny_parts(int(15.5 * MEBIBYTE))
    scene.send(target, sender, attacks.send_body(b'{"kind":"text","text":"hi"}', "hi"))
    path, token = scene.leased(target)
    with scene.watched():
        answer = attacks.post(
            scene.process,
            f"{path}/answer",
            b'{"lease_token":"%b","parts":[%b]}' % (token, parts),
            target.token,
        )
        assert (answer.status, answer.body["limit"]) == (413, "json-values")
        told = attacks.at_once(8, lambda _: scene.send(target, sender, values))
        assert {one.status for one in told} <= {413, 503}
        assert all("Retry-After".lower() in one.headers for one in told if one.status == 503)


def test_progress_on_a_delegation_is_cut_before_it_is_redacted(scene: Scene) -> None:
    target, source = scene.join("target"), scene.join("source")
    body = {"target_id": target.id, "task": "a lot"}
    scene.process.ok("POST", f"/workspaces/{source.id}/delegate", token=source.token, json=body)
    path, token = scene.leased(target)
    parts = attacks.tiny_parts(int(15.5 * MEBIBYTE))
    artifact = b'{"lease_token":"%b","artifact":{"artifactId":"a","parts":[%b]}}' % (token, parts)
    words = b'{"lease_token":"%b","text":"%b"}' % (token, b"token=abc1234, " * MEBIBYTE)
    with scene.watched():
        assert attacks.post(scene.process, f"{path}/progress", artifact, target.token).status == 413
        assert attacks.post(scene.process, f"{path}/progress", words, target.token).status == 200


def test_large_texts_and_the_lists_that_carry_them_keep_nobody_waiting(scene: Scene) -> None:
    target, sender = scene.join("target"), scene.join("sender")
    texts = [attacks.send_body(attacks.long_text(14 * MEBIBYTE), f"text {n}") for n in range(8)]
    with scene.watched():
        told = attacks.at_once(8, lambda number: scene.send(target, sender, texts[number]))
        assert {one.status for one in told} <= {200, 503}
        assert 200 in {one.status for one in told}
    with scene.watched():
        for path in ("inbox?limit=10", "activity?type=a2a_receive", "messages"):
            answer = attacks.get(scene.process, f"/workspaces/{target.id}/{path}", target.token)
            assert answer.status == 200
            assert answer.size < 64 * MEBIBYTE


def test_connections_that_say_little_or_nothing_are_capped_and_given_up(scene: Scene) -> None:
    upgrade = b"GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    begun = b"POST /registry/register HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n{"
    with scene.watched(), contextlib.ExitStack() as held:
        refused = 0
        for number in range(150):
            said = (b"GET / HT", begun, upgrade + b"Content-Length: 5\r\n\r\n")[number % 3]
            try:
                connection = held.enter_context(attacks.raw_connection(scene.process, said))
                connection.settimeout(0.05)
                refused += b" 429 " in connection.recv(4096)
            except TimeoutError:
                continue
            except OSError:
                refused += 1
        assert refused


def test_a_stranger_who_is_refused_does_not_fill_the_log(scene: Scene) -> None:
    before = scene.process.log.stat().st_size
    with scene.watched():
        connection = http.client.HTTPConnection("127.0.0.1", scene.process.port)
        until, refused = time.monotonic() + 2.0, 0
        while time.monotonic() < until:
            connection.request("GET", "/workspaces", headers={"Authorization": "Bearer guess"})
            refused += connection.getresponse().read() != b""
        connection.close()
    assert refused > 100
    grown = scene.process.log.stat().st_size - before
    assert grown < 100_000, f"{grown} bytes for {refused} refusals"


def test_an_agent_that_streams_too_much_ends_its_message_once(scene: Scene) -> None:
    with misbehaving_agent.running("flood") as agent:
        agent.huge_bytes = 120 * MEBIBYTE
        target = scene.join("flood")
        card = {
            "name": "flood",
            "capabilities": {"streaming": True},
            "supportedInterfaces": [
                {"url": "http://x", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
            ],
        }
        body = {"id": target.id, "url": agent.url, "agent_card": card}
        scene.process.ok("POST", "/registry/register", token=target.token, json=body)
        with scene.watched():
            last = attacks.last_event(scene.process, target.id)
        assert last["statusUpdate"]["status"]["state"] == "TASK_STATE_FAILED"
        assert len(agent.seen) == 1
