"""Whoever is not vouched for, and whatever is too large, is refused by the process; no turn starts for it.

The platform is the SDK's fake one, so that the test signs the callers' assertions itself.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from molecule_agent.testing import FakePlatform, caller_token
from scripts.live_platform import LivePlatform
from tests.e2e.workspaces import SECONDS, RuntimeProcess, member

pytestmark = pytest.mark.timeout(60)

MAX_BYTES = 16 * 1024 * 1024
TOO_MANY = "a message has at most 1000 parts, this one has 10000"
PEER = "workspace:11111111-1111-1111-1111-111111111111"


@dataclass
class Guarded:
    """A workspace that serves only whom its platform vouches for."""

    platform: FakePlatform
    workspace_id: str
    process: RuntimeProcess

    @property
    def dispatch_secret(self) -> str:
        """What the workspace said at its registration that the platform must show."""
        [body, *_] = [one.json for one in self.platform.requests if one.path == "/registry/register"]
        assert isinstance(body, dict)
        return str(body["dispatch_secret"])

    def headers(
        self, sub: str = PEER, aud: str = "", platform: FakePlatform | None = None, **claims: Any
    ) -> Any:
        given: dict[str, Any] = {"issuer": self.process.variables["PLATFORM_URL"], **claims}
        token = caller_token(platform or self.platform, sub, aud or self.workspace_id, **given)
        return {"X-Molecule-Caller": token, "Authorization": f"Bearer {self.dispatch_secret}"}

    def post(self, body: Any, headers: Any, path: str = "") -> requests.Response:
        """What the process answers to a body, which is JSON or bytes."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", "A2A-Version": "1.0", **headers}
        return requests.post(self.process.url + path, data=content, headers=sent, timeout=SECONDS)

    def turns(self) -> int:
        """How many turns there have been."""
        lines = requests.get(f"{self.process.url}metrics", timeout=SECONDS).text.splitlines()
        [line] = [line for line in lines if "_turn_seconds_count " in line]
        return int(line.rpartition(" ")[2])

    def refused(self, body: Any, headers: Any, path: str = "") -> requests.Response:
        """The answer to something bad; a good message after it has the only turn."""
        before = self.turns()
        answer = self.post(body, headers, path)
        good = self.post(asking("hello"), self.headers())
        assert good.json()["result"]["message"]["parts"] == [{"text": "echo: hello"}]
        assert self.turns() == before + 1
        return answer


def outcome(answer: requests.Response) -> tuple[int, str]:
    """The status of a refusal and its code."""
    return answer.status_code, answer.json()["code"]


def asking(*texts: str, message_id: str = "m") -> dict[str, Any]:
    message = {"messageId": message_id, "role": "ROLE_USER", "parts": [{"text": text} for text in texts]}
    return {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    platform = FakePlatform()
    workspace_id = platform.create_workspace("guarded")
    with platform.serve() as url:
        folder = tmp_path_factory.mktemp("guarded")
        variables = {"WORKSPACE_ID": workspace_id, "PLATFORM_URL": url, "MOLECULE_REQUIRE_CALLER": "always"}
        process = RuntimeProcess(folder, **variables)
        try:
            process.start()
            yield Guarded(platform, workspace_id, process)
        finally:
            process.close()


def test_a_caller_without_an_assertion_is_refused(guarded: Guarded) -> None:
    assert outcome(guarded.refused(asking("x"), {})) == (401, "caller-unverified")
    without_secret = {**guarded.headers(), "Authorization": "Bearer guessed"}
    assert outcome(guarded.refused(asking("x"), without_secret)) == (401, "caller-unverified")


@pytest.mark.parametrize(
    "claims",
    [
        {"lifetime": -60},
        {"lifetime": 301},
        {"nbf": 9_999_999_999, "exp": 9_999_999_999 + 60, "iat": 9_999_999_999},
        {"aud": "workspace:another"},
        {"issuer": "http://another.example"},
        {"jti": None},
        {"message_id": "another"},
        {"platform": FakePlatform()},
    ],
    ids=["expired", "too long", "too early", "audience", "issuer", "no jti", "message", "key"],
)
def test_an_assertion_that_is_not_for_this_call_is_refused(guarded: Guarded, claims: dict[str, Any]) -> None:
    answer = guarded.refused(asking("x"), guarded.headers(**claims))
    assert outcome(answer) == (401, "caller-assertion-invalid")


def test_a_forged_and_a_replayed_assertion_are_refused(guarded: Guarded) -> None:
    headers = guarded.headers()
    head, _, signature = headers["X-Molecule-Caller"].rpartition(".")
    flipped = ("A" if signature[0] != "A" else "B") + signature[1:]
    for token in (f"{head}.{flipped}", f"{head}.", "rubbish"):
        answer = guarded.refused(asking("x"), {**headers, "X-Molecule-Caller": token})
        assert outcome(answer) == (401, "caller-assertion-invalid")
    assert guarded.post(asking("x"), headers).status_code == 200
    assert outcome(guarded.refused(asking("x"), headers)) == (401, "caller-assertion-invalid")


def test_only_the_platform_may_stop_the_process(guarded: Guarded) -> None:
    guessed = {**guarded.headers("system:lifecycle"), "Authorization": "Bearer guessed"}
    for headers in ({}, guarded.headers(), guessed):
        assert outcome(guarded.refused({}, headers, "control/stop")) == (401, "unauthenticated")
    assert guarded.process.readiness() == (200, "ready")


def test_a_body_over_16_mib_is_refused(guarded: Guarded) -> None:
    answer = guarded.refused(asking("x" * MAX_BYTES), guarded.headers())
    assert outcome(answer) == (413, "payload-too-large")
    assert answer.json()["limit_bytes"] == MAX_BYTES


def test_a_message_of_10_000_parts_is_refused(guarded: Guarded) -> None:
    before = guarded.turns()
    answer = guarded.post(asking(*["x"] * 10_000), guarded.headers())
    assert TOO_MANY in answer.text
    assert guarded.turns() == before + 1


def test_a_message_of_10_000_parts_is_refused_by_the_platform(live: LivePlatform, tmp_path: Path) -> None:
    with member(live, tmp_path / "pulling", MOLECULE_LINK="poll") as echo:
        answer = str(echo.send("", parts=[{"kind": "text", "text": "x"}] * 10_000))
        assert "the JSON text has more than 1000 parts in one list" in answer
        assert "echo" not in answer


@pytest.mark.parametrize("depth", [300, 100_000, 4_000_000])
def test_a_body_that_is_nested_too_deep_is_refused(guarded: Guarded, depth: int) -> None:
    bomb = json.dumps(asking("x")).encode().replace(b'"x"', b"[" * depth + b"]" * depth)
    answer = guarded.refused(bomb, guarded.headers())
    assert answer.json()["error"]["code"] == -32700
