"""Plugins end to end: trace T11, pins, trust, revocations and the allowlist, over HTTP on both engines."""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import requests

from molecule_platform.testing.github import GitHub, github
from molecule_plugin import compute_plugin_sha256, sign_plugin
from molecule_plugin.keys import SigningKey, generate_key
from tests.spec.platforms import Platform, Start


@pytest.fixture
def hub() -> Iterator[GitHub]:
    """A GitHub on this machine."""
    with github() as server:
        yield server


@pytest.fixture
def furnished(configured: Start, hub: GitHub) -> Platform:
    """A house that fetches from there."""
    return configured(MOLECULE_GITHUB_API_URL=hub.url, MOLECULE_A2A_HOLD_SECONDS=1)


def put(
    platform: Platform, name: str, files: Mapping[str, bytes], key: SigningKey | None = None, **said: str
) -> Path:
    """A plugin in the platform's folder, with its digest in its manifest, signed if a key is given."""
    place = platform.data_dir / "plugins" / name
    for path, content in files.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_bytes(content)
    digest = compute_plugin_sha256(place)
    lines = {"name": name, "version": "1.0.0", "sha256": f'"{digest}"', **said}
    manifest = "".join(f"{key}: {value}\n" for key, value in lines.items())
    (place / "plugin.yaml").write_text(manifest)
    if key is not None:
        sign_plugin(place, [key])
    return place


def external(platform: Platform, name: str = "remote") -> tuple[str, str]:
    """A workspace somewhere else: its id and its token."""
    made = platform.create(name)
    return made["id"], made["connection"]["auth_token"]


def plugins_of(platform: Platform, workspace: str) -> dict[str, Any]:
    return {row["name"]: row for row in platform.ok("GET", f"/workspaces/{workspace}/plugins")}


def download(platform: Platform, workspace: str, token: str, name: str, **request: Any) -> requests.Response:
    return platform.call("GET", f"/workspaces/{workspace}/plugins/{name}/download", token, **request)


def files_in(archive: bytes) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(archive))) as tar:
        for member in tar:
            content = tar.extractfile(member)
            assert content is not None
            found[member.name] = content.read()
    return found


def refused(answer: requests.Response, status: int, code: str) -> dict[str, Any]:
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    return answer.json()


def seen(platform: Platform, workspace: str) -> list[str]:
    events = platform.ok("GET", f"/events/{workspace}?since=0")
    return [event["event_type"] for event in events if event["event_type"].startswith("PLUGIN_")]


def install(
    platform: Platform, workspace: str, source: str, token: str | None = None, **body: Any
) -> requests.Response:
    wanted = {"source": source, **body}
    return platform.call("POST", f"/workspaces/{workspace}/plugins", token, json=wanted)


# Trace T11


def test_an_external_agent_downloads_verifies_reports_and_is_listed(
    furnished: Platform, tmp_path: Path
) -> None:
    place = put(furnished, "x", {"a.txt": b"hello\n", "setup.sh": b"echo hi\n"})
    ada, token = external(furnished)
    got = download(furnished, ada, token, "x")
    assert (got.status_code, got.headers["content-type"]) == (200, "application/gzip")
    files = files_in(got.content)
    (tmp_path / "unpacked").mkdir()
    for path, content in files.items():
        (tmp_path / "unpacked" / path).write_bytes(content)
    said = re.search(rb'sha256: "([0-9a-f]{64})"', files["plugin.yaml"])
    assert said is not None
    digest = compute_plugin_sha256(tmp_path / "unpacked")
    assert said[1].decode() == digest == got.headers["X-Plugin-Sha256"] == compute_plugin_sha256(place)
    assert got.headers["X-Plugin-Archive-Sha256"] == hashlib.sha256(got.content).hexdigest()
    assert int(got.headers["Content-Length"]) == len(got.content)
    assert "Transfer-Encoding" not in got.headers
    reported = install(furnished, ada, "local://x", token)
    assert reported.status_code == 200
    assert reported.json() == {
        "status": "recorded",
        "plugin": "x",
        "source": "local://x",
        "resolved": "local://x",
        "version": "1.0.0",
        "sha256": digest,
        "warnings": [],
    }
    row = plugins_of(furnished, ada)["x"]
    assert (row["state"], row["sha256"], row["supported_on_runtime"]) == ("recorded", digest, True)
    assert seen(furnished, ada) == ["PLUGIN_INSTALLED"]


PROGRAM = """
import logging, sys
from molecule_agent import RemoteAgentClient

logging.basicConfig(format="%(message)s", level=logging.WARNING)
agent = RemoteAgentClient(sys.argv[1], sys.argv[2], token_dir=sys.argv[3])
agent.register()
print((agent.install_plugin("x") / "a.txt").read_text())
"""


def test_a_program_started_again_goes_on_with_the_pinned_version_of_a_changed_plugin(
    furnished: Platform, tmp_path: Path
) -> None:
    ada = furnished.create("ada")["id"]

    def start(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, *command], check=False, capture_output=True, text=True)

    program = ("-c", PROGRAM, ada, furnished.url, str(tmp_path / "ada"))
    put(furnished, "x", {"a.txt": b"one"})
    first = start(*program)
    assert (first.returncode, first.stdout, first.stderr) == (0, "one\n", "")
    put(furnished, "x", {"a.txt": b"two"}, version="2.0.0")
    again = start(*program)
    assert (again.returncode, again.stdout) == (0, "one\n"), again.stderr
    assert again.stderr.count("local://x has changed since it was pinned") == 1
    assert "version 1.0.0 is pinned, 2.0.0 is there now" in again.stderr
    assert plugins_of(furnished, ada)["x"]["version"] == "1.0.0"
    where = ("--platform-url", furnished.url, "--workspace-id", ada, "--token-dir", str(tmp_path / "ada"))
    refusal = start("-m", "molecule_agent", "install", "x", *where)
    assert (refusal.returncode, "plugins.lock pins version '1.0.0'" in refusal.stderr) == (1, True)
    assert start("-m", "molecule_agent", "install", "x", "--upgrade", *where).returncode == 0
    assert start(*program).stdout == "two\n"


def test_the_sdk_installs_from_both_sources_and_what_it_reports_is_listed(
    furnished: Platform, hub: GitHub
) -> None:
    key = generate_key()
    put(furnished, "x", {"a.txt": b"hello\n"}, key)
    commit = hub.push("acme/y", {"plugin.yaml": b"name: y\nversion: 2.0.0\n", "b.txt": b"b"})
    agent = furnished.join("remote")
    assert (agent.install_plugin("x") / "a.txt").read_bytes() == b"hello\n"
    assert (agent.install_plugin("y", source="github://acme/y") / "b.txt").read_bytes() == b"b"
    rows = plugins_of(furnished, agent.workspace_id)
    assert (rows["x"]["signed_by"], rows["x"]["state"]) == ([key.public.key_id], "recorded")
    assert rows["y"]["resolved"] == f"github://acme/y#{commit}"
    agent.uninstall_plugin("x")
    assert set(plugins_of(furnished, agent.workspace_id)) == {"y"}


def test_a_download_that_is_known_already_is_not_sent_again(furnished: Platform) -> None:
    put(furnished, "x", {"a.txt": b"hello\n"})
    ada, token = external(furnished)
    first = download(furnished, ada, token, "x")
    assert first.headers["ETag"] == f'"{first.headers["X-Plugin-Archive-Sha256"]}"'
    again = download(furnished, ada, token, "x", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    put(furnished, "x", {"a.txt": b"changed\n"})
    other = download(furnished, ada, token, "x", headers={"If-None-Match": first.headers["ETag"]})
    assert other.status_code == 200
    assert files_in(other.content)["a.txt"] == b"changed\n"


def test_a_large_plugin_arrives_whole(furnished: Platform) -> None:
    noise = b"".join(hashlib.sha256(str(n).encode()).digest() for n in range(40_000))
    put(furnished, "large", {"noise.bin": noise})
    ada, token = external(furnished)
    got = download(furnished, ada, token, "large")
    assert files_in(got.content)["noise.bin"] == noise


def test_a_plugin_is_listed_updated_and_removed(furnished: Platform) -> None:
    put(furnished, "x", {"a.txt": b"one"}, runtimes="[claude_code]")
    ada, _token = external(furnished)
    assert [row["name"] for row in furnished.ok("GET", "/plugins")] == ["x"]
    assert furnished.ok("GET", "/plugins?runtime=claude-code") != []
    assert furnished.ok("GET", "/plugins?runtime=llm") == []
    assert [row["name"] for row in furnished.ok("GET", f"/workspaces/{ada}/plugins/available")] == ["x"]
    assert install(furnished, ada, "x").status_code == 200
    assert install(furnished, ada, "x").status_code == 200
    put(furnished, "x", {"a.txt": b"two"}, version="2.0.0", runtimes="[claude_code]")
    assert install(furnished, ada, "x").json()["version"] == "2.0.0"
    split = furnished.ok("GET", f"/workspaces/{ada}/plugins/compatibility?runtime=llm")
    assert (split["target_runtime"], split["all_compatible"]) == ("llm", False)
    assert [row["name"] for row in split["incompatible"]] == ["x"]
    refused(furnished.call("GET", f"/workspaces/{ada}/plugins/compatibility"), 400, "invalid-request")
    gone = furnished.ok("DELETE", f"/workspaces/{ada}/plugins/x")
    assert gone == {"status": "uninstalled", "plugin": "x", "kept": []}
    refused(furnished.call("DELETE", f"/workspaces/{ada}/plugins/x"), 404, "not-found")
    assert seen(furnished, ada) == ["PLUGIN_INSTALLED", "PLUGIN_UPDATED", "PLUGIN_REMOVED"]


def test_a_caller_s_own_digest_is_held_to_and_its_form_is_named(furnished: Platform) -> None:
    place = put(furnished, "x", {"a.txt": b"hello\n"})
    ada, _token = external(furnished)
    manifest = hashlib.sha256((place / "plugin.yaml").read_bytes()).hexdigest()
    assert install(furnished, ada, "x", sha256=compute_plugin_sha256(place)).json()["matched"] == "content"
    weak = install(furnished, ada, "x", sha256=manifest).json()
    assert (weak["matched"], len(weak["warnings"])) == ("legacy-manifest", 1)
    said = refused(install(furnished, ada, "x", sha256="0" * 64), 422, "plugin-integrity")
    assert (said["expected"], said["actual"]) == ("0" * 64, compute_plugin_sha256(place))
    refused(install(furnished, ada, "x", sha256="short"), 400, "invalid-request")


def test_a_source_that_holds_another_plugin_says_both_names(furnished: Platform, hub: GitHub) -> None:
    hub.push("acme/tools", {"plugin.yaml": b"name: hammer\n"})
    ada, token = external(furnished)
    source = {"source": "github://acme/tools"}
    said = refused(download(furnished, ada, token, "tools", params=source), 400, "invalid-request")
    assert (said["resolved_name"], said["requested_name"]) == ("hammer", "tools")
    assert download(furnished, ada, token, "hammer", params=source).status_code == 200


def test_an_unknown_scheme_and_an_oversized_request_are_refused(furnished: Platform) -> None:
    ada, token = external(furnished)
    said = refused(install(furnished, ada, "ftp://x", token), 400, "invalid-request")
    assert (
        said["available_schemes"] == ["github", "local"] == furnished.ok("GET", "/plugins/sources")["schemes"]
    )
    said = refused(install(furnished, ada, "x" * 70_000, token), 413, "payload-too-large")
    assert said["limit_bytes"] == 65536
    refused(download(furnished, ada, token, "none"), 404, "not-found")
    refused(download(furnished, ada, token, "a..b"), 400, "invalid-request")


# Pins: P9


def test_under_lock_a_branch_stays_where_it_was_until_somebody_upgrades(
    furnished: Platform, hub: GitHub
) -> None:
    first = hub.push("acme/x", {"plugin.yaml": b"name: x\nversion: 1.0.0\n"})
    (ada, ada_token), (bob, _) = external(furnished, "ada"), external(furnished, "bob")
    source = "github://acme/x"
    got = download(furnished, ada, ada_token, "x", params={"source": source})
    assert got.headers["X-Plugin-Source"] == f"{source}#{first}"
    second = hub.push("acme/x", {"plugin.yaml": b"name: x\nversion: 2.0.0\n"})
    assert install(furnished, bob, source).json()["resolved"] == f"{source}#{first}"
    upgraded = install(furnished, bob, source, upgrade=True).json()
    assert (upgraded["resolved"], upgraded["version"]) == (f"{source}#{second}", "2.0.0")
    later = download(furnished, ada, ada_token, "x", params={"source": source})
    assert later.headers["X-Plugin-Version"] == "2.0.0"


def test_a_commit_that_is_not_what_it_was_is_refused_until_somebody_upgrades(
    furnished: Platform, hub: GitHub
) -> None:
    commit = hub.push("acme/x", {"plugin.yaml": b"name: x\n", "a.txt": b"one"})
    ada, _token = external(furnished)
    assert install(furnished, ada, "github://acme/x").status_code == 200
    other = hub.push("acme/x", {"plugin.yaml": b"name: x\n# changed\n", "a.txt": b"one"}, "other")
    commits = hub.repositories["acme/x"].commits
    commits[commit] = commits[other]
    for home in (furnished.data_dir / "plugin-stock").iterdir():
        home.rename(home.with_name(f"staging-{home.name}"))
    said = refused(install(furnished, ada, "github://acme/x"), 409, "plugin-lock-mismatch")
    assert said["expected"] == hashlib.sha256(b"name: x\n").hexdigest()
    assert said["actual"] == hashlib.sha256(b"name: x\n# changed\n").hexdigest()
    assert install(furnished, ada, "github://acme/x", upgrade=True).status_code == 200
    assert install(furnished, ada, "github://acme/x").status_code == 200


def test_deny_takes_tags_and_commits_and_float_follows(configured: Start, hub: GitHub) -> None:
    strict = configured(MOLECULE_GITHUB_API_URL=hub.url, PLUGIN_ALLOW_UNPINNED="false")
    first = hub.push("acme/x", {"plugin.yaml": b"name: x\nversion: 1.0.0\n"})
    hub.repositories["acme/x"].tags["v1"] = first
    ada, _token = external(strict)
    for unpinned in ("github://acme/x", "github://acme/x#main"):
        refused(install(strict, ada, unpinned), 422, "plugin-source-unpinned")
    assert install(strict, ada, "github://acme/x#v1").json()["resolved"] == f"github://acme/x#{first}"
    assert install(strict, ada, f"github://acme/x#{first}").status_code == 200
    strict.stop()
    floating = configured(MOLECULE_GITHUB_API_URL=hub.url, PLUGIN_UNPINNED_POLICY="float")
    for version in ("2.0.0", "3.0.0"):
        hub.push("acme/x", {"plugin.yaml": f"name: x\nversion: {version}\n".encode()})
        assert install(floating, ada, "github://acme/x").json()["version"] == version


# The allowlist


def test_what_is_not_allowed_is_neither_installed_nor_sent_and_a_report_of_it_is_kept(
    furnished: Platform, hub: GitHub
) -> None:
    put(furnished, "good", {"a.txt": b"x"})
    put(furnished, "bad", {"a.txt": b"y"})
    ada, token = external(furnished)
    allowed = furnished.ok(
        "PUT", f"/orgs/{ada}/plugins/allowlist", json={"plugins": ["good"], "enabled_by": "somebody else"}
    )
    assert (allowed["plugins"], allowed["allow_all"]) == (["good"], False)
    assert furnished.ok("GET", f"/orgs/{furnished.org}/plugins/allowlist") == allowed
    refused(install(furnished, ada, "bad"), 403, "plugin-not-allowed")
    assert plugins_of(furnished, ada) == {}
    refused(download(furnished, ada, token, "bad"), 403, "plugin-not-allowed")
    refused(install(furnished, ada, "bad", token), 403, "plugin-not-allowed")
    assert plugins_of(furnished, ada)["bad"]["state"] == "blocked"
    assert seen(furnished, ada) == ["PLUGIN_BLOCKED"]
    assert install(furnished, ada, "good", token).status_code == 200
    assert [row["name"] for row in furnished.ok("GET", f"/workspaces/{ada}/plugins/available")] == ["good"]
    furnished.ok("PUT", f"/orgs/{furnished.org}/plugins/allowlist", json={"plugins": ["github://acme/*"]})
    refused(install(furnished, ada, "github://evil/x"), 403, "plugin-not-allowed")
    assert hub.asked == []
    assert furnished.ok("PUT", f"/orgs/{furnished.org}/plugins/allowlist", json={"plugins": []})["allow_all"]
    assert install(furnished, ada, "bad", token).status_code == 200


# Signatures: P5


def trust(platform: Platform, key: SigningKey, *globs: str) -> None:
    keys = [{"key": key.public.text, "name": "us", "allow": list(globs)}]
    assert platform.ok("PUT", f"/orgs/{platform.org}/plugins/keys", json={"keys": keys}) == {"keys": keys}
    assert platform.ok("GET", f"/orgs/{platform.org}/plugins/keys") == {"keys": keys}


def test_a_signature_is_checked_sent_along_and_shown(furnished: Platform) -> None:
    key = generate_key()
    place = put(furnished, "x", {"a.txt": b"x"}, key)
    ada, token = external(furnished)
    unknown = install(furnished, ada, "x").json()
    assert any("unknown key" in warning for warning in unknown["warnings"])
    trust(furnished, key)
    assert install(furnished, ada, "x").json()["warnings"] == []
    row = furnished.ok("GET", "/plugins")[0]
    assert (row["signed"], row["signed_by"]) == (True, [key.public.key_id])
    got = download(furnished, ada, token, "x")
    assert "plugin.sig" not in files_in(got.content)
    assert got.headers["X-Plugin-Signature"]
    # Its manifest changes under the same content.
    (place / "plugin.yaml").write_text((place / "plugin.yaml").read_text() + "# more\n")
    refused(install(furnished, ada, "x"), 422, "plugin-signature-invalid")
    refused(download(furnished, ada, token, "x"), 422, "plugin-signature-invalid")


def test_once_trusted_a_plugin_needs_a_trusted_signer_until_an_operator_says_otherwise(
    furnished: Platform,
) -> None:
    key = generate_key()
    trust(furnished, key, "x*")
    place = put(furnished, "x", {"a.txt": b"x"}, key)
    ada, token = external(furnished)
    assert install(furnished, ada, "x").status_code == 200
    (place / "plugin.sig").unlink()
    refused(install(furnished, ada, "x"), 403, "plugin-signature-required")
    refused(install(furnished, ada, "x", token, allow_signer_change=True), 403, "forbidden")
    assert install(furnished, ada, "x", allow_signer_change=True).status_code == 200
    assert install(furnished, ada, "x").status_code == 200


def test_where_signatures_are_required_only_trusted_ones_count(configured: Start) -> None:
    platform = configured(MOLECULE_PLUGIN_SIGNATURES="require")
    key, other = generate_key(), generate_key()
    trust(platform, key, "x", "unsigned")
    put(platform, "x", {"a.txt": b"x"}, key)
    put(platform, "unsigned", {"a.txt": b"x"})
    put(platform, "foreign", {"a.txt": b"x"}, other)
    put(platform, "uncovered", {"a.txt": b"x"}, key)
    ada, token = external(platform)
    for name in ("unsigned", "foreign", "uncovered"):
        refused(install(platform, ada, name), 403, "plugin-signature-required")
        refused(download(platform, ada, token, name), 403, "plugin-signature-required")
    assert install(platform, ada, "x").status_code == 200


def test_keys_that_are_none_are_refused(furnished: Platform) -> None:
    path = f"/orgs/{furnished.org}/plugins/keys"
    key = generate_key().public.text
    for keys in ([{"key": "ed25519:x"}], [{"key": key}, {"key": key}], [{"key": key, "more": 1}]):
        refused(furnished.call("PUT", path, json={"keys": keys}), 400, "invalid-request")


# Revocations: P6


def test_what_is_revoked_is_neither_installed_nor_sent(furnished: Platform) -> None:
    key = generate_key()
    put(furnished, "by-key", {"a.txt": b"1"}, key)
    digest = compute_plugin_sha256(put(furnished, "by-digest", {"a.txt": b"2"}))
    put(furnished, "by-version", {"a.txt": b"3"}, version="1.2.3")
    put(furnished, "by-name", {"a.txt": b"4"})
    put(furnished, "fine", {"a.txt": b"5"})
    ada, token = external(furnished)
    revoked = {
        "keys": [{"key_id": key.public.key_id, "reason": "stolen"}],
        "digests": [{"content_sha256": digest, "reason": "steals"}],
        "plugins": [
            {"name": "by-version", "versions": ["1.2.3"], "reason": "broken"},
            {"name": "by-name", "versions": ["*"], "reason": "gone"},
            {"name": "fine", "versions": ["9.9.9"], "reason": "not this one"},
        ],
    }
    assert furnished.ok("PUT", "/plugins/revocations", json=revoked)["version"] == 1
    for name, reason in (
        ("by-key", "stolen"),
        ("by-digest", "steals"),
        ("by-version", "broken"),
        ("by-name", "gone"),
    ):
        assert refused(install(furnished, ada, name), 422, "plugin-revoked")["reason"] == reason
        refused(download(furnished, ada, token, name), 422, "plugin-revoked")
    assert install(furnished, ada, "fine").status_code == 200


def test_the_list_of_revocations_never_goes_back(furnished: Platform) -> None:
    path = "/plugins/revocations"
    ada, token = external(furnished)
    first = furnished.call("GET", path, token)
    assert first.json()["version"] == 0
    assert furnished.ok("PUT", path, json={"version": 7})["version"] == 7
    for older in (7, 6, 0, -1):
        refused(furnished.call("PUT", path, json={"version": older}), 409, "version-conflict")
    assert furnished.ok("PUT", path, json={})["version"] == 8
    now = furnished.call("GET", path, token)
    assert now.headers["ETag"] != first.headers["ETag"]
    again = furnished.call("GET", path, token, headers={"If-None-Match": now.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    refused(
        furnished.call("PUT", path, json={"plugins": [{"name": "x", "versions": []}]}), 400, "invalid-request"
    )
    refused(furnished.call("PUT", path, token, json={}), 403, "forbidden")
    assert ada
