"""The ledger: what is written is read back, and what somebody else wrote is checked."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_plugin.errors import PluginError
from molecule_plugin.ledger import (
    InstallLedger,
    LedgerFile,
    MemoryBlock,
    OriginalFile,
    SetupRecord,
    parse_ledger,
    read_ledger,
    read_ledgers,
)
from molecule_plugin.safe_paths import Root
from molecule_plugin.settings_merge import Entries, Hook

WHOLE = InstallLedger(
    name="demo",
    version="1.0.0",
    runtime="claude_code",
    source="local://demo",
    adaptor="plugin",
    content_sha256="0" * 64,
    installed_at="2026-01-01T00:00:00.000Z",
    files={"skills/s/SKILL.md": LedgerFile("skills/s/SKILL.md", "1" * 64, 0o644)},
    dirs=["skills", "skills/s"],
    memory=[MemoryBlock("CLAUDE.md", "rule/good.md", "2" * 64)],
    settings=Entries([Hook("Stop", "Bash", ("a", "b"))], {"server": "3" * 64}, {"env/A": "4" * 64}),
    tools=["tool"],
    subagents=["agent"],
    setup=SetupRecord(True, 3, 1.5, ("plugins/demo/made",)),
    warnings=["careful"],
    before={"CLAUDE.md": OriginalFile(sha256="5" * 64), ".claude/settings.json": OriginalFile(text="{}")},
)


def test_a_ledger_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "demo.json").write_bytes(WHOLE.content())
    assert read_ledger(tmp_path / "demo.json", Root(tmp_path)) == WHOLE


def test_the_file_has_the_members_of_the_contract() -> None:
    shape: dict[str, Any] = json.loads(WHOLE.content())
    assert shape["ledger_version"] == 1
    assert shape["files"] == [{"path": "skills/s/SKILL.md", "sha256": "1" * 64, "mode": "0644"}]
    assert shape["memory"] == [{"file": "CLAUDE.md", "block": "rule/good.md", "sha256": "2" * 64}]
    assert shape["settings"] == {
        "hooks": [{"event": "Stop", "matcher": "Bash", "commands": ["a", "b"]}],
        "mcpServers": {"server": "3" * 64},
        "keys": {"env/A": "4" * 64},
    }
    assert shape["setup"] == {
        "ran": True,
        "exit_code": 3,
        "seconds": 1.5,
        "created": ["plugins/demo/made"],
    }


def test_without_a_file_there_is_no_ledger(tmp_path: Path) -> None:
    assert read_ledger(tmp_path / "demo.json", Root(tmp_path)) is None


_OUT = ["../../etc/passwd", "/etc/passwd", "a/../../b", "link/x", ""]


@pytest.mark.parametrize("path", _OUT)
@pytest.mark.parametrize("member", ["files", "dirs", "memory", "setup", "before"])
def test_a_path_that_leaves_the_directory_is_refused_in_every_part(
    tmp_path: Path, member: str, path: str
) -> None:
    (tmp_path / "link").symlink_to("/")
    shape: dict[str, Any] = json.loads(WHOLE.content())
    shape[member] = {
        "files": [{"path": path, "sha256": "", "mode": "0644"}],
        "dirs": [path],
        "memory": [{"file": path, "block": "", "sha256": ""}],
        "setup": {"created": [path]},
        "before": {path: {}},
    }[member]
    (tmp_path / "demo.json").write_text(json.dumps(shape))
    with pytest.raises(PluginError, match="cannot be relied on"):
        read_ledger(tmp_path / "demo.json", Root(tmp_path))


@pytest.mark.parametrize(
    "change",
    [
        {"ledger_version": 2},
        {"name": "other"},
        {"files": {}},
        {"files": [{"path": "a", "sha256": "", "mode": "rw"}]},
        {"dirs": [1]},
        {"settings": []},
        {"settings": {"mcpServers": {"a": 1}}},
        {"setup": {"seconds": "long"}},
        {"before": {"a": {"text": 1}}},
        {"version": None},
    ],
)
def test_a_damaged_ledger_is_refused_with_advice(tmp_path: Path, change: dict[str, Any]) -> None:
    (tmp_path / "demo.json").write_text(json.dumps(json.loads(WHOLE.content()) | change))
    with pytest.raises(PluginError, match="move it away, then install the plugin again"):
        read_ledger(tmp_path / "demo.json", Root(tmp_path))


def test_of_several_ledgers_a_damaged_one_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "demo.json").write_bytes(WHOLE.content())
    (tmp_path / "broken.json").write_text("{")
    assert read_ledgers(tmp_path, Root(tmp_path)) == {"demo": WHOLE}


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(sorted(WHOLE.to_json())), _json))
def test_no_json_makes_reading_fail_in_another_way(change: dict[str, Any]) -> None:
    shape = WHOLE.to_json() | change
    with contextlib.suppress(PluginError, ValueError):
        parse_ledger(shape, "demo", Root(Path("nowhere")))
