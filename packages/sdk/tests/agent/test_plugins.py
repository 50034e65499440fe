"""Plugins: fetched, verified before anything changes, set up, recorded, reported, and taken out again."""

import json
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from molecule_agent import PluginPolicy, RemoteAgentClient, errors
from molecule_agent.plugins import install
from molecule_agent.plugins.download import CACHE_FILE
from molecule_agent.testing import FakePlatform
from molecule_plugin.keys import generate_key
from molecule_plugin.revocations import CachedRevocations, Revocations, write_cache

MANIFEST = b"name: demo\nversion: 1.0.0\n"
COUNTING = b"echo once >> runs.txt\n"
Files: TypeAlias = dict[str, bytes]
Make: TypeAlias = Callable[..., RemoteAgentClient]


@pytest.fixture
def fake() -> FakePlatform:
    return FakePlatform()


@pytest.fixture
def make(fake: FakePlatform, tmp_path: Path) -> Iterator[Make]:
    """A registered agent of the fake platform."""
    workspace_id = fake.create_workspace()
    made: list[RemoteAgentClient] = []

    def client(**options: Any) -> RemoteAgentClient:
        url = "http://127.0.0.1:1"
        settings: dict[str, Any] = {"session": fake.session(), "token_dir": tmp_path / "agent"} | options
        made.append(RemoteAgentClient(workspace_id, url, **settings))
        made[-1].register()
        return made[-1]

    yield client
    for each in made:
        each.close()


@pytest.fixture
def client(make: Make) -> RemoteAgentClient:
    return make()


def files_in(folder: Path) -> Files:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def reports(fake: FakePlatform) -> list[Any]:
    return [seen.json for seen in fake.requests if seen.method == "POST" and seen.path.endswith("/plugins")]


def nothing_is_revoked(client: RemoteAgentClient) -> None:
    """A list of revocations as the platform would have given it a moment ago."""
    cached = CachedRevocations(Revocations(version=1), client._clock.time())
    write_cache(client.token_file.with_name(CACHE_FILE), cached)


def test_a_plugin_is_installed_set_up_locked_recorded_and_reported(
    fake: FakePlatform, client: RemoteAgentClient
) -> None:
    fake.add_plugin("demo", {"plugin.yaml": MANIFEST, "rules/r.md": b"- be kind", "setup.sh": COUNTING})
    path = client.install_plugin("demo")
    assert path == client.plugins_dir / "demo"
    assert files_in(path) == {
        "plugin.yaml": MANIFEST,
        "rules/r.md": b"- be kind",
        "setup.sh": COUNTING,
        "runs.txt": b"once\n",
    }
    assert reports(fake) == [{"source": "local://demo"}]
    entry = json.loads((client.token_file.with_name("plugins.lock")).read_text())["plugins"]["demo"]
    assert (entry["version"], entry["source"], entry["signed_by"]) == ("1.0.0", "local://demo", [])
    ledger = client.token_file.with_name(".ledger") / "demo.json"
    assert ledger.stat().st_mode & 0o777 == 0o600
    assert json.loads(ledger.read_text())["setup"]["created"] == ["plugins/demo/runs.txt"]
    assert [(plugin.name, plugin.version, plugin.path) for plugin in client.list_plugins()] == [
        ("demo", "1.0.0", path)
    ]
    assert client.verify_plugins() == {"demo": []}


def test_an_unpinned_source_is_kept_at_the_commit_it_was_resolved_to(
    fake: FakePlatform, client: RemoteAgentClient
) -> None:
    source = "github://acme/demo"
    fake.add_plugin("demo", {"plugin.yaml": MANIFEST}, source=source)
    client.install_plugin("demo", source=source)
    assert reports(fake) == [{"source": source}]
    (installed,) = client.list_plugins()
    assert installed.source == source
    assert installed.resolved.startswith(f"{source}#")


def test_the_same_version_again_changes_nothing_and_runs_nothing(
    fake: FakePlatform, client: RemoteAgentClient
) -> None:
    fake.add_plugin("demo", {"plugin.yaml": MANIFEST, "setup.sh": COUNTING})
    path = client.install_plugin("demo")
    before = path.stat().st_ino
    client.install_plugin("demo")
    assert (path.stat().st_ino, (path / "runs.txt").read_text()) == (before, "once\n")
    (path / "setup.sh").unlink()
    client.install_plugin("demo")
    assert (path / "setup.sh").read_bytes() == COUNTING


def test_a_tampered_plugin_is_refused_and_the_old_version_stays(
    fake: FakePlatform, client: RemoteAgentClient
) -> None:
    fake.add_plugin("demo", {"plugin.yaml": MANIFEST, "a.txt": b"old"})
    path = client.install_plugin("demo")
    before = files_in(client.token_file.parent)
    fake.add_plugin("demo", {"plugin.yaml": MANIFEST + b"sha256: " + b"f" * 64, "setup.sh": COUNTING})
    with pytest.raises(errors.SHA256MismatchError, match="plugin demo sha256 mismatch — expected f{64}"):
        client.install_plugin("demo", upgrade=True)
    assert files_in(client.token_file.parent) == before
    assert list(client.plugins_dir.iterdir()) == [path]


def test_a_caller_may_bring_the_digest_of_the_content_or_of_the_archive(
    fake: FakePlatform, client: RemoteAgentClient
) -> None:
    fake.add_plugin("demo", {"plugin.yaml": MANIFEST, "a.txt": b"hello\n"})
    content = "e869ce07cf8aad51109fad329f5f6a0c367d579b326f70442d260dadaa185641"
    client.install_plugin("demo", sha256=content)
    lock = json.loads(client.token_file.with_name("plugins.lock").read_text())
    client.install_plugin("demo", sha256=lock["plugins"]["demo"]["archive_sha256"])
    with pytest.raises(errors.SHA256MismatchError, match=r"setup\.sh was NOT run\."):
        client.install_plugin("demo", sha256="1" * 64)
    with pytest.raises(ValueError, match="64-character lowercase hex string"):
        client.install_plugin("demo", sha256="short")


@pytest.mark.parametrize("name", ["../../x", "", "A", "a/b", "a..b", "-a"])
def test_a_name_that_is_none_is_refused_before_anything_happens(
    name: str, fake: FakePlatform, client: RemoteAgentClient
) -> None:
    count = len(fake.requests)
    with pytest.raises(errors.PluginNameError):
        client.install_plugin(name)
    with pytest.raises(errors.PluginNameError):
        client.uninstall_plugin(name)
    assert len(fake.requests) == count


def test_another_content_needs_an_upgrade_which_keeps_what_the_user_edited(
    fake: FakePlatform, client: RemoteAgentClient, caplog: pytest.LogCaptureFixture
) -> None:
    fake.add_plugin("demo", {"plugin.yaml": MANIFEST, "a.txt": b"one", "gone.txt": b"x"})
    path = client.install_plugin("demo")
    (path / "a.txt").write_text("mine")
    fake.add_plugin("demo", {"plugin.yaml": b"name: demo\nversion: 2.0.0\n", "a.txt": b"two"})
    with pytest.raises(errors.LockMismatchError, match="version '1.0.0', found '2.0.0'"):
        client.install_plugin("demo")
    assert (path / "a.txt").read_text() == "mine"
    client.install_plugin("demo", upgrade=True)
    assert files_in(path) == {
        "plugin.yaml": b"name: demo\nversion: 2.0.0\n",
        "a.txt": b"two",
        "a.txt.user": b"mine",
    }
    assert "a.txt was edited" in caplog.text
    assert client.verify_plugins() == {"demo": ["added after install: plugins/demo/a.txt.user"]}


def test_an_edited_file_is_kept_where_the_new_version_has_a_file_for_its_folder(
    fake: FakePlatform, client: RemoteAgentClient
) -> None:
    fake.add_plugin("demo", {"plugin.yaml": MANIFEST, "a/b.txt": b"one"})
    path = client.install_plugin("demo")
    (path / "a/b.txt").write_text("mine")
    fake.add_plugin("demo", {"plugin.yaml": MANIFEST, "a": b"two"})
    client.install_plugin("demo", upgrade=True)
    assert files_in(path) == {"plugin.yaml": MANIFEST, "a": b"two", "a.user/b.txt.user": b"mine"}


def test_a_directory_named_from_here_is_the_same_for_setup(
    fake: FakePlatform, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    client = make(token_dir="here")
    telling = b'echo "$CONFIGS_DIR" > told; cp a.txt "$MOLECULE_PLUGIN_DIR/copy"\n'
    fake.add_plugin("demo", {"plugin.yaml": MANIFEST, "a.txt": b"one", "setup.sh": telling})
    path = client.install_plugin("demo")
    assert (path / "told").read_text() == f"{tmp_path / 'here'}\n"
    assert (path / "copy").read_bytes() == b"one"
    (path / "a.txt").write_text("mine")
    fake.add_plugin("demo", {"plugin.yaml": MANIFEST, "a.txt": b"two"})
    client.install_plugin("demo", upgrade=True)
    assert (path / "a.txt.user").read_text() == "mine"


def test_frozen_installs_only_what_is_locked_and_writes_no_lock(
    fake: FakePlatform, client: RemoteAgentClient
) -> None:
    fake.add_plugin("demo", {"plugin.yaml": MANIFEST})
    with pytest.raises(errors.LockMismatchError, match="not in plugins.lock"):
        client.install_plugin("demo", frozen=True)
    assert not client.plugins_dir.exists()
    client.install_plugin("demo")
    lock = client.token_file.with_name("plugins.lock")
    before = lock.read_bytes()
    assert client.install_plugin("demo", frozen=True).is_dir()
    assert lock.read_bytes() == before


def test_a_trusted_signature_is_demanded_of_every_later_version(fake: FakePlatform, make: Make) -> None:
    key, other = generate_key(), generate_key()
    client = make(plugin_policy=PluginPolicy("require", [f"{key.public.text} demo"]))
    nothing_is_revoked(client)
    fake.add_plugin("demo", {"plugin.yaml": MANIFEST}, sign_with=key)
    path = client.install_plugin("demo")
    assert (path / "plugin.sig").exists()
    assert client.list_plugins()[0].signed_by == (key.public.key_id,)
    assert client.verify_plugins() == {"demo": []}
    lenient = make()
    for signer in (None, other):
        fake.add_plugin("demo", {"plugin.yaml": b"name: demo\nversion: 2.0.0\n"}, sign_with=signer)
        for strict in (client, lenient):
            with pytest.raises(errors.PluginSignatureError):
                strict.install_plugin("demo", upgrade=True)
    lenient.install_plugin("demo", upgrade=True, allow_signer_change=True)


def test_keys_of_the_user_and_the_policy_of_the_environment_count(
    fake: FakePlatform, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = generate_key()
    trusted = Path.home() / ".molecule" / "trusted_keys"
    trusted.parent.mkdir(parents=True)
    trusted.write_text(f"{key.public.text} demo # of the user\n")
    monkeypatch.setenv("MOLECULE_PLUGIN_SIGNATURES", "require")
    client = make()
    nothing_is_revoked(client)
    fake.add_plugin("demo", {"plugin.yaml": MANIFEST}, sign_with=key)
    client.install_plugin("demo")
    fake.add_plugin("plain", {"plugin.yaml": b"name: plain\n"})
    with pytest.raises(errors.PluginSignatureError, match="is not signed"):
        client.install_plugin("plain")
    monkeypatch.setenv("MOLECULE_PLUGIN_SIGNATURES", "perhaps")
    with pytest.raises(errors.ConfigurationError, match="must be one of"):
        client.install_plugin("plain")
    wrong: Any = "perhaps"
    with pytest.raises(errors.ConfigurationError, match="write one of if-present, require"):
        PluginPolicy(wrong)


def test_setup_sees_no_secret_and_only_what_was_asked_for_and_approved(
    fake: FakePlatform, client: RemoteAgentClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MODEL_KEY", "OTHER_KEY", "DECLARED"):
        monkeypatch.setenv(name, f"value-of-{name}")
    manifest = MANIFEST + b"permissions: {env: [MODEL_KEY, DECLARED]}\n"
    fake.add_plugin("demo", {"plugin.yaml": manifest, "setup.sh": b"env > seen.txt\n"})
    path = client.install_plugin("demo", setup_env=["MODEL_KEY", "OTHER_KEY"])
    seen = dict(line.split("=", 1) for line in (path / "seen.txt").read_text().splitlines() if "=" in line)
    assert seen["MODEL_KEY"] == "value-of-MODEL_KEY"
    assert not {"OTHER_KEY", "DECLARED"} & set(seen)
    assert seen["MOLECULE_WORKSPACE_ID"] == client.workspace_id


def test_a_setup_that_fails_is_a_warning(
    fake: FakePlatform, client: RemoteAgentClient, caplog: pytest.LogCaptureFixture
) -> None:
    fake.add_plugin("demo", {"plugin.yaml": MANIFEST, "setup.sh": b"echo why >&2; exit 3\n"})
    assert client.install_plugin("demo").is_dir()
    assert "setup.sh exited 3: why" in caplog.text
    caplog.clear()
    client.install_plugin("demo", run_setup_sh=False)
    assert "setup.sh" not in caplog.text


def test_a_report_that_fails_is_a_warning_and_may_be_left_out(
    fake: FakePlatform, client: RemoteAgentClient, caplog: pytest.LogCaptureFixture
) -> None:
    fake.add_plugin("demo", {"plugin.yaml": MANIFEST})
    fake.fail_next("POST", "*/plugins", status=500)
    client.install_plugin("demo")
    assert "the platform could not be told of local://demo: 500" in caplog.text
    client.install_plugin("demo", report_to_platform=False)
    assert len(reports(fake)) == 1


def test_the_platforms_refusal_is_told_as_it_is(fake: FakePlatform, client: RemoteAgentClient) -> None:
    with pytest.raises(errors.NotFoundError):
        client.install_plugin("nowhere")
    with pytest.raises(errors.BadRequestError) as raised:
        client.install_plugin("demo", source="ftp://x")
    assert raised.value.extras["available_schemes"] == ["github", "local"]
    assert not client.plugins_dir.exists()


def test_uninstalling_removes_the_plugin_but_not_what_others_put_there(
    fake: FakePlatform, client: RemoteAgentClient, caplog: pytest.LogCaptureFixture
) -> None:
    fake.add_plugin("demo", {"plugin.yaml": MANIFEST, "a/b.txt": b"x", "setup.sh": COUNTING})
    before = files_in(client.token_file.parent)
    path = client.install_plugin("demo")
    (path / "mine.txt").write_text("kept")
    (path / "a" / "b.txt").write_text("edited")
    assert client.verify_plugins() == {
        "demo": ["changed: plugins/demo/a/b.txt", "added after install: plugins/demo/mine.txt"]
    }
    assert client.uninstall_plugin("demo") is True
    assert files_in(path) == {"mine.txt": b"kept", "a/b.txt": b"edited"}
    assert "plugins/demo/mine.txt is not as it was installed; it was kept" in caplog.text
    assert client.list_plugins() == []
    assert client.uninstall_plugin("other") is False
    client.install_plugin("demo")
    assert client.uninstall_plugin("demo") is True
    left = files_in(client.token_file.parent)
    assert {name for name in left if not name.startswith("plugins/demo/")} - set(before) == {"plugins.lock"}


@pytest.mark.timeout(30)
def test_a_pipe_or_a_link_in_the_place_of_a_file_is_neither_read_nor_followed(
    fake: FakePlatform, client: RemoteAgentClient, tmp_path: Path
) -> None:
    fake.add_plugin("demo", {"plugin.yaml": MANIFEST, "a.txt": b"x", "b.txt": b"x"})
    path = client.install_plugin("demo")
    outside = tmp_path / "outside"
    outside.write_text("secret")
    for name in ("a.txt", "b.txt"):
        (path / name).unlink()
    os.mkfifo(path / "a.txt")
    (path / "b.txt").symlink_to(outside)
    changed = ["changed: plugins/demo/a.txt", "changed: plugins/demo/b.txt"]
    assert client.verify_plugins() == {"demo": changed}
    client.install_plugin("demo")
    assert client.verify_plugins() == {"demo": []}
    os.mkfifo(path / "pipe")
    (path / "link").symlink_to(outside)
    assert client.uninstall_plugin("demo")
    assert not path.exists()
    assert outside.read_text() == "secret"


def test_a_missing_file_is_found(fake: FakePlatform, client: RemoteAgentClient) -> None:
    fake.add_plugin("demo", {"plugin.yaml": MANIFEST, "a.txt": b"x"})
    (client.install_plugin("demo") / "a.txt").unlink()
    assert client.verify_plugins() == {"demo": ["missing: plugins/demo/a.txt"]}


def test_two_installs_exclude_each_other(
    fake: FakePlatform, client: RemoteAgentClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.add_plugin("demo", {"plugin.yaml": MANIFEST})
    monkeypatch.setattr(install, "LOCK_WAIT", 0.05)
    with client._store.locked(1), pytest.raises(errors.TokenStoreError, match="held by another process"):
        client.install_plugin("demo")
    client.install_plugin("demo")


def test_a_recovery_secret_that_could_not_be_saved_is_not_lost(
    fake: FakePlatform, client: RemoteAgentClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An install holds the directory for as long as its setup.sh runs."""
    monkeypatch.setattr("molecule_agent.token_store.LOCK_WAIT", 0.05)
    recovery = client.token_file.with_name(".recovery")
    first = recovery.read_text()
    with client._store.locked(1):
        client.reenrol(fake.issue_enrolment_token(client.workspace_id))
        assert recovery.read_text() == first
    client.heartbeat()
    assert recovery.read_text() not in ("", first)
    client.token_file.unlink()
    recovered = RemoteAgentClient(
        client.workspace_id, client.platform_url, session=fake.session(), token_dir=recovery.parent
    )
    assert recovered.register()
    recovered.close()


def test_a_token_that_could_not_be_saved_is_saved_with_a_later_heartbeat(
    client: RemoteAgentClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    token = client.load_token()
    assert token is not None
    monkeypatch.setattr("molecule_agent.token_store.LOCK_WAIT", 0.05)
    client.token_file.write_text("an older one")
    with client._store.locked(1), caplog.at_level(logging.WARNING):
        client.save_token(token)
    assert client.token_file.read_text() == "an older one"
    client.heartbeat()
    assert client.token_file.read_text() == token
