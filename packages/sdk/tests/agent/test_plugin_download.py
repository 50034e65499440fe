"""Downloads over HTTP and by the doubles of existing programs: caps, damage, revocations, call shapes."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import pytest

from molecule_agent import RemoteAgentClient, errors
from molecule_agent.plugins import download
from molecule_agent.testing import FakeResponse, make_tarball
from molecule_plugin.limits import LIMITS

if TYPE_CHECKING:
    from .conftest import Answer, FastClock, MakeClient, ScriptedPlatform  # noqa: TID252 - types only

ME = "/workspaces/3f1c2d4e-5a6b-4c7d-8e9f-0a1b2c3d4e5f"
DOWNLOAD = ("GET", f"{ME}/plugins/demo/download")
REVOCATIONS = ("GET", "/plugins/revocations")
ARCHIVE = make_tarball({"plugin.yaml": b"name: demo\nversion: 1.0.0\n", "a.txt": b"hello\n"})


def listed(version: int, *plugins: str) -> dict[str, Any]:
    rows = [{"name": name, "versions": ["*"], "reason": "it leaks"} for name in plugins]
    return {"version": version, "updated_at": "", "keys": [], "digests": [], "plugins": rows}


@pytest.fixture
def served(platform: "ScriptedPlatform", answer: "type[Answer]") -> "ScriptedPlatform":
    platform.on(*DOWNLOAD, answer(200, ARCHIVE))
    platform.ok(*REVOCATIONS, listed(1))
    platform.ok("POST", f"{ME}/plugins", {"status": "recorded"})
    return platform


def test_a_download_is_streamed_and_installed(
    served: "ScriptedPlatform", client: RemoteAgentClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "CHUNK_BYTES", 7)
    path = client.install_plugin("demo", source="github://acme/demo")
    assert (path / "a.txt").read_bytes() == b"hello\n"
    assert served.requests(*DOWNLOAD)[0].query == {"source": "github://acme/demo"}


def test_a_download_ends_at_the_limit(
    served: "ScriptedPlatform", client: RemoteAgentClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "LIMITS", replace(LIMITS, archive_bytes=len(ARCHIVE) - 1))
    with pytest.raises(errors.UnsafeArchiveError, match="larger than"):
        client.install_plugin("demo")
    assert not client.plugins_dir.exists()


def test_an_archive_with_another_digest_than_announced_is_refused(
    served: "ScriptedPlatform", client: RemoteAgentClient, answer: "type[Answer]"
) -> None:
    served.on(*DOWNLOAD, answer(200, ARCHIVE, {"X-Plugin-Archive-Sha256": "0" * 64}))
    with pytest.raises(errors.SHA256MismatchError, match="arrived damaged"):
        client.install_plugin("demo")
    right = hashlib.sha256(ARCHIVE).hexdigest()
    served.on(
        *DOWNLOAD, answer(200, ARCHIVE, {"X-Plugin-Archive-Sha256": right, "X-Plugin-Sha256": "0" * 64})
    )
    with pytest.raises(errors.SHA256MismatchError, match="as the platform says"):
        client.install_plugin("demo")


@pytest.mark.parametrize(
    "archive",
    [b"", b"not gzip", ARCHIVE[:-20], make_tarball({"../x": b"x"}), make_tarball({"/etc/x": b"x"})],
    ids=["empty", "rubbish", "cut", "traversal", "absolute"],
)
def test_a_damaged_or_hostile_archive_leaves_no_trace(
    archive: bytes, served: "ScriptedPlatform", client: RemoteAgentClient, answer: "type[Answer]"
) -> None:
    served.on(*DOWNLOAD, answer(200, archive))
    with pytest.raises(ValueError):
        client.install_plugin("demo")
    assert not client.plugins_dir.exists()


def test_a_connection_that_breaks_is_an_error_of_the_sdk(
    served: "ScriptedPlatform", client: RemoteAgentClient, answer: "type[Answer]"
) -> None:
    served.on(*DOWNLOAD, answer(drop=True))
    with pytest.raises(errors.PlatformUnreachableError):
        client.install_plugin("demo")


def test_a_signature_that_is_no_signature_is_refused(
    served: "ScriptedPlatform", client: RemoteAgentClient, answer: "type[Answer]"
) -> None:
    for header in ("!!!", "e30"):
        served.on(*DOWNLOAD, answer(200, ARCHIVE, {"X-Plugin-Signature": header}))
        with pytest.raises(errors.PluginSignatureError):
            client.install_plugin("demo")


def test_a_revoked_plugin_is_not_installed_and_one_that_is_here_is_told(
    served: "ScriptedPlatform", client: RemoteAgentClient
) -> None:
    client.install_plugin("demo")
    served.ok(*REVOCATIONS, listed(2, "demo"))
    with pytest.raises(errors.PluginRevokedError, match="it leaks"):
        client.install_plugin("demo")
    assert client.verify_plugins() == {"demo": ["revoked: it leaks"]}
    served.ok(*REVOCATIONS, listed(1))
    with pytest.raises(errors.PluginIntegrityError, match="went back from version 2 to 1"):
        client.install_plugin("demo")


def test_without_the_list_its_copy_counts_for_a_day(
    served: "ScriptedPlatform",
    make_client: "MakeClient",
    answer: "type[Answer]",
    clock: "FastClock",
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = make_client(clock=clock)
    served.ok(*REVOCATIONS, listed(2))
    client.install_plugin("demo")
    served.on(*REVOCATIONS, answer(503))
    client.install_plugin("demo")
    assert "no copy of the last 24 hours" not in caplog.text
    clock.now += 25 * 3600
    client.install_plugin("demo")
    assert "no copy of the last 24 hours" in caplog.text


class Bare:
    """A response with hardly anything, as existing programs make them."""

    status_code = 200

    def __init__(self, content: bytes) -> None:
        self.content = content

    def raise_for_status(self) -> None:
        return


def doubled(tmp_path: Path, response: object) -> tuple[RemoteAgentClient, MagicMock]:
    session = MagicMock()
    session.get.return_value = response
    client = RemoteAgentClient("w1", "https://molecule.example.org", token_dir=tmp_path, session=session)
    client._token = "token"
    return client, session


def test_a_double_is_asked_once_in_the_original_shape_and_told_in_the_original_shape(tmp_path: Path) -> None:
    client, session = doubled(tmp_path, Bare(ARCHIVE))
    path = client.install_plugin("demo")
    assert (path / "a.txt").read_bytes() == b"hello\n"
    headers = {"Authorization": "Bearer token", "Origin": "https://molecule.example.org"}
    session.get.assert_called_once_with(
        "https://molecule.example.org/workspaces/w1/plugins/demo/download",
        headers=headers,
        params={},
        timeout=60.0,
        stream=True,
    )
    session.post.assert_called_once_with(
        "https://molecule.example.org/workspaces/w1/plugins",
        json={"source": "local://demo"},
        headers=headers,
        timeout=10.0,
    )
    client.install_plugin("demo", source="github://acme/demo", report_to_platform=False)
    assert session.get.call_args.kwargs["params"] == {"source": "github://acme/demo"}


def test_a_double_may_be_a_context_manager(tmp_path: Path) -> None:
    response = MagicMock()
    response.__enter__.return_value = MagicMock(status_code=200, content=ARCHIVE)
    client, _ = doubled(tmp_path, response)
    assert client.install_plugin("demo").is_dir()
    response.__exit__.assert_called_once()


def test_a_double_that_enters_as_something_else_is_read_itself(tmp_path: Path) -> None:
    client, _ = doubled(tmp_path, MagicMock(status_code=200, content=ARCHIVE))
    assert client.install_plugin("demo").is_dir()


def test_a_session_without_delete_does_not_keep_a_plugin_from_being_removed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    client, session = doubled(tmp_path, Bare(ARCHIVE))
    client.install_plugin("demo")
    del session.delete
    assert client.uninstall_plugin("demo")
    assert "has no method delete" in caplog.text
    assert json.loads((tmp_path / "plugins.lock").read_text())["plugins"] == {}


def test_the_connection_of_a_refused_try_is_given_back(tmp_path: Path) -> None:
    closed: list[int] = []

    class Watched(FakeResponse):
        def close(self) -> None:
            closed.append(self.status_code)
            super().close()

    session = MagicMock()
    session.get.side_effect = [Watched(429, headers={"Retry-After": "0"}), Watched(404)]
    client = RemoteAgentClient("w1", "http://127.0.0.1:1", session=session, token_dir=tmp_path)
    with client, pytest.raises(errors.NotFoundError):
        client.install_plugin("demo")
    assert closed == [429, 404]
