"""Plugins are found, verified against the lock, and never stop the start."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from molecule_plugin.lock import LOCK_FILE, describe, write_lock
from molecule_runtime.kit.setup.plugins import load_plugins


def write_plugin(folder: Path, name: str, files: Mapping[str, str]) -> Path:
    for file, text in {"plugin.yaml": f"name: {name}\nversion: 1.2.0\n", **files}.items():
        path = folder / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / name


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return tmp_path / "configs" / "plugins"


def lock(own: Path, *names: str, trusted: bool = False) -> None:
    path = own.parent / LOCK_FILE
    source = {name: f"local://{name}" for name in names}
    write_lock(
        path,
        {
            name: describe(own / name, version="1.2.0", source=source[name], resolved=source[name])
            for name in names
        },
    )
    if trusted:
        content = json.loads(path.read_text())
        for name in names:
            content["plugins"][name]["trusted"] = True
        path.write_text(json.dumps(content))


def test_what_the_plugins_bring_is_collected(own: Path) -> None:
    files = {"rules/b.md": "rule b", "rules/a.md": "rule a", "guide.md": "guide", "README.md": "for people"}
    demo = write_plugin(own, "demo", {**files, "skills/s/SKILL.md": "---\nname: s\n---\n"})
    write_plugin(own, "plain", {})
    loaded = load_plugins(own)
    assert loaded.rules == ["rule a", "rule b"]
    assert loaded.prompt_fragments == ["guide"]
    assert loaded.skill_dirs == [str(demo / "skills")]
    assert loaded.plugin_names == ["demo", "plain"]
    assert [(one.name, one.version, one.path) for one in loaded.plugins] == [
        ("demo", "1.2.0", demo),
        ("plain", "1.2.0", own / "plain"),
    ]


def test_the_workspaces_own_plugin_wins_over_a_shared_one(own: Path, tmp_path: Path) -> None:
    write_plugin(own, "demo", {"rules/r.md": "own"})
    write_plugin(tmp_path / "shared", "demo", {"rules/r.md": "shared"})
    write_plugin(tmp_path / "shared", "other", {})
    write_plugin(tmp_path / "shared", ".hidden", {})
    loaded = load_plugins(own, tmp_path / "shared")
    assert (loaded.rules, loaded.plugin_names) == (["own"], ["demo", "other"])


def test_only_the_active_plugins_are_loaded(own: Path) -> None:
    for name in ("a", "b"):
        write_plugin(own, name, {})
    assert load_plugins(own, only=["b"]).plugin_names == ["b"]


def test_folders_that_are_not_there_have_no_plugins(tmp_path: Path) -> None:
    assert load_plugins(tmp_path / "configs/plugins", tmp_path / "none").plugins == []
    assert load_plugins().plugins == []


def test_one_bad_plugin_is_left_out_with_a_warning(own: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_plugin(own, "bad", {"plugin.yaml": "name: ["})
    write_plugin(own, "good", {})
    write_plugin(own, "Not A Name", {})
    assert load_plugins(own).plugin_names == ["good"]
    assert sorted(message.partition(" is left out")[0] for message in caplog.messages) == [
        "plugin Not A Name",
        "plugin bad",
    ]


def test_a_plugin_that_differs_from_the_lock_is_left_out(own: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("kept", "changed"):
        write_plugin(own, name, {"rules/r.md": "as locked"})
    lock(own, "kept", "changed")
    assert load_plugins(own).plugin_names == ["changed", "kept"]
    (own / "changed/rules/r.md").write_text("something else")
    assert load_plugins(own).plugin_names == ["kept"]
    assert "plugin changed is left out" in caplog.text


def test_a_damaged_lock_lets_nothing_in(own: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_plugin(own, "demo", {})
    (own.parent / LOCK_FILE).write_text("{")
    assert load_plugins(own).plugins == []
    assert "no plugin is loaded" in caplog.text


def test_a_plugin_is_trusted_only_by_the_lock(own: Path) -> None:
    write_plugin(own, "demo", {})
    assert [one.trusted for one in load_plugins(own).plugins] == [False]
    lock(own, "demo")
    assert [one.trusted for one in load_plugins(own).plugins] == [False]
    lock(own, "demo", trusted=True)
    assert [one.trusted for one in load_plugins(own).plugins] == [True]
