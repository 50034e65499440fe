"""The plugins of the fake platform: the archive, its headers, the pins, the report."""

import hashlib
import io
import tarfile
from typing import Any

import pytest

from molecule_agent.testing import FakePlatform, FakeResponse
from molecule_plugin import keys, signatures

URL = "https://molecule.test"
FILES = {"rules/r.md": b"- be kind", "skills/s/SKILL.md": b"# s\n"}
DIGEST = "32fbdc87611ffda10ffc3e44cd1e2d4aab351b5eb256ad3fc0f3e52d4b1a8fc6"
SOURCE = "github://acme/demo"


class Agent:
    """An agent that has registered, and asks for plugins."""

    def __init__(self, platform: FakePlatform) -> None:
        self._session = platform.session()
        self._id = platform.create_workspace()
        body = {"id": self._id, "agent_card": {"name": "x"}}
        token = self._session.post(f"{URL}/registry/register", json=body).json()["auth_token"]
        self._headers = {"Authorization": f"Bearer {token}"}

    def download(self, name: str, source: str | None = None, **headers: str) -> FakeResponse:
        return self._session.get(
            f"{URL}/workspaces/{self._id}/plugins/{name}/download",
            params={"source": source},
            headers=self._headers | headers,
        )

    def report(self, **body: Any) -> FakeResponse:
        return self._session.post(f"{URL}/workspaces/{self._id}/plugins", json=body, headers=self._headers)


def members(archive: bytes) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        for member in tar:
            file = tar.extractfile(member)
            assert file is not None
            found[member.name] = file.read()
    return found


def test_a_plugin_is_downloaded_with_its_digests() -> None:
    platform = FakePlatform()
    assert platform.add_plugin("demo", FILES) == DIGEST
    agent = Agent(platform)
    answer = agent.download("demo")
    assert answer.headers["Content-Type"] == "application/gzip"
    assert answer.headers["X-Plugin-Sha256"] == DIGEST
    assert answer.headers["X-Plugin-Archive-Sha256"] == hashlib.sha256(answer.content).hexdigest()
    assert answer.headers["X-Plugin-Source"] == "local://demo"
    assert members(answer.content) == FILES | {
        "plugin.yaml": f"name: demo\nversion: 0.1.0\nsha256: {DIGEST}\n".encode()
    }
    assert agent.download("demo", **{"If-None-Match": answer.headers["ETag"]}).status_code == 304


def test_a_signature_travels_beside_the_archive() -> None:
    key = keys.generate_key()
    platform = FakePlatform()
    platform.add_plugin("demo", {**FILES, "plugin.yaml": b"name: demo\nversion: 1.0.0\n"}, sign_with=key)
    answer = Agent(platform).download("demo")
    signature = keys.from_base64url(answer.headers["X-Plugin-Signature"])
    assert signatures.parse_signature(signature).key_ids == (key.public.key_id,)
    assert "plugin.sig" not in members(answer.content)
    assert answer.headers["X-Plugin-Version"] == "1.0.0"


@pytest.mark.parametrize(("policy", "second"), [("lock", b"one"), ("float", b"two")])
def test_an_unpinned_source_is_locked_to_what_was_served_first(policy: Any, second: bytes) -> None:
    platform = FakePlatform(unpinned_policy=policy)
    agent = Agent(platform)
    platform.add_plugin("demo", {"a": b"one"}, source=SOURCE)
    first = agent.download("demo", SOURCE)
    platform.add_plugin("demo", {"a": b"two"}, source=SOURCE)
    assert members(agent.download("demo", SOURCE).content)["a"] == second
    pinned = first.headers["X-Plugin-Source"]
    assert pinned.startswith(f"{SOURCE}#")
    assert agent.download("demo", pinned).content == first.content


def test_an_unpinned_source_can_be_refused() -> None:
    platform = FakePlatform(unpinned_policy="deny")
    platform.add_plugin("demo", FILES, source=SOURCE)
    agent = Agent(platform)
    assert agent.download("demo", SOURCE).json()["code"] == "plugin-source-unpinned"
    assert agent.download("demo", f"{SOURCE}#v1").status_code == 200


def test_what_is_not_there_is_said() -> None:
    platform = FakePlatform()
    platform.add_plugin("demo", FILES, source=SOURCE)
    agent = Agent(platform)
    assert agent.download("demo").json()["code"] == "not-found"
    assert agent.download("demo", "pigeon://demo").json()["available_schemes"] == ["github", "local"]
    assert agent.download("Demo").json()["field"] == "name"
    other = agent.download("other", SOURCE).json()
    assert (other["resolved_name"], other["requested_name"]) == ("demo", "other")


def test_a_report_is_recorded() -> None:
    platform = FakePlatform()
    platform.add_plugin("demo", FILES)
    answer = Agent(platform).report(source="local://demo")
    assert answer.status_code == 200
    assert answer.json()["status"] == "recorded"
    assert answer.json()["sha256"] == DIGEST
    assert platform.requests[-1].json == {"source": "local://demo"}
