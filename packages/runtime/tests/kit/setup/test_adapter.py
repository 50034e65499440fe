"""Every base method works on an adapter that never called the base's constructor."""

import dataclasses
import inspect
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from molecule_runtime.kit.setup.adapter import AdapterConfig, BaseAdapter, RuntimeCapabilities, SetupResult


class Own(BaseAdapter):
    """An adapter with a constructor of its own."""

    def __init__(self) -> None:
        self.ready = False

    @staticmethod
    def name() -> str:
        return "own-engine"

    @staticmethod
    def display_name() -> str:
        return "Own"

    @staticmethod
    def description() -> str:
        return "An engine."

    async def setup(self, config: AdapterConfig) -> None:
        self.ready = True

    async def create_executor(self, config: AdapterConfig) -> Any:
        return object()


class Synchronous(Own):
    """An adapter of the first generation whose transcript is not a coroutine."""

    def transcript_lines(self, since: int = 0, limit: int = 100) -> Any:
        self.query = (since, limit)
        return {"supported": True, "lines": [f"line {number}" for number in range(500)]}


def config(tmp_path: Path) -> AdapterConfig:
    return AdapterConfig(model="m", config_path=str(tmp_path))


def test_the_fields_of_the_data_types_have_their_exact_order_and_defaults() -> None:
    assert [field.name for field in dataclasses.fields(AdapterConfig)] == [
        "model", "system_prompt", "tools", "runtime_config", "config_path", "workspace_id", "prompt_files",
        "a2a_port", "heartbeat", "platform", "workspace_config", "work_dir", "endpoint", "smoke",
    ]  # fmt: skip
    assert AdapterConfig("m") == AdapterConfig(
        "m", None, [], {}, "/configs", "", [], 8000, None, None, None, "/workspace", None, False
    )
    assert [field.name for field in dataclasses.fields(SetupResult)] == [
        "system_prompt", "loaded_skills", "langchain_tools", "is_coordinator", "children", "tools",
    ]  # fmt: skip


def test_mutable_defaults_belong_to_one_instance() -> None:
    AdapterConfig("m").tools.append("x")
    assert AdapterConfig("m").tools == []


def test_five_members_must_be_written() -> None:
    assert BaseAdapter.__abstractmethods__ == {
        "name",
        "display_name",
        "description",
        "setup",
        "create_executor",
    }


def test_capabilities_are_seven_flags_that_nobody_changes() -> None:
    flags = RuntimeCapabilities(provides_native_session=True)
    assert flags.to_dict() == {
        "heartbeat": False,
        "scheduler": False,
        "session": True,
        "status_mgmt": False,
        "retry": False,
        "activity_decoration": False,
        "channel_dispatch": False,
    }
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(flags, "provides_native_session", False)  # noqa: B010 - a plain assignment is a type error


async def test_the_defaults_own_nothing() -> None:
    adapter = Own()
    assert adapter.capabilities() == RuntimeCapabilities()
    assert adapter.idle_timeout_override() is None
    assert adapter.memory_filename() == "CLAUDE.md"
    assert adapter.get_config_schema() == {}
    assert await adapter.health() == {"ok": True}
    assert await adapter.close() is None
    assert adapter._snapshot_session_id is None
    assert adapter._snapshot_transcript is None


def test_a_registered_tool_is_recorded_for_this_adapter_alone() -> None:
    first, second = Own(), Own()
    assert first.register_tool_hook("look", len) is None
    assert first.register_subagent_hook("helper", {}) is None
    assert first.plugin_tools == {"look": len}
    assert second.plugin_tools == {}


async def test_a_transcript_is_not_supported_unless_overridden() -> None:
    assert await Own().transcript_lines(7) == {
        "runtime": "own-engine",
        "supported": False,
        "lines": [],
        "cursor": 7,
        "more": False,
        "source": None,
    }


class TestMemory:
    def test_text_is_appended_after_a_newline(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        (tmp_path / "CLAUDE.md").write_text("mine")
        with caplog.at_level(logging.INFO):
            Own().append_to_memory_hook(config(tmp_path), "CLAUDE.md", "# Rule\nbe kind")
        assert (tmp_path / "CLAUDE.md").read_text() == "mine\n# Rule\nbe kind\n"
        assert "append_to_memory: appended 14 chars to CLAUDE.md" in caplog.messages

    def test_text_whose_first_line_is_there_is_not_appended(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        (tmp_path / "CLAUDE.md").write_text("see # Rule here\n")
        with caplog.at_level(logging.INFO):
            Own().append_to_memory_hook(config(tmp_path), "CLAUDE.md", " # Rule \nbe kind\n")
        assert (tmp_path / "CLAUDE.md").read_text() == "see # Rule here\n"
        assert "append_to_memory: CLAUDE.md already contains '# Rule' — skipping" in caplog.messages

    def test_text_with_a_blank_first_line_is_appended_each_time(self, tmp_path: Path) -> None:
        for _ in range(2):
            Own().append_to_memory_hook(config(tmp_path), "notes/a.md", "\nx\n")
        assert (tmp_path / "notes/a.md").read_text() == "\nx\n\nx\n"

    def test_empty_text_makes_no_file(self, tmp_path: Path) -> None:
        Own().append_to_memory_hook(config(tmp_path), "CLAUDE.md", "")
        assert not (tmp_path / "CLAUDE.md").exists()

    def test_a_file_that_is_not_utf_8_keeps_its_bytes(self, tmp_path: Path) -> None:
        (tmp_path / "CLAUDE.md").write_bytes(b"\xff\xfe")
        Own().append_to_memory_hook(config(tmp_path), "CLAUDE.md", "é")
        assert (tmp_path / "CLAUDE.md").read_bytes() == b"\xff\xfe\n\xc3\xa9\n"

    @pytest.mark.parametrize("filename", ["../x.md", "/etc/x.md", ".", "a/../../x.md"])
    def test_a_file_outside_the_config_directory_is_refused(self, tmp_path: Path, filename: str) -> None:
        with pytest.raises(ValueError, match="outside"):
            Own().append_to_memory_hook(config(tmp_path), filename, "x")

    def test_a_link_that_leads_outside_is_refused(self, tmp_path: Path) -> None:
        inside, outside = tmp_path / "configs", tmp_path / "secret.md"
        inside.mkdir()
        (inside / "CLAUDE.md").symlink_to(outside)
        with pytest.raises(ValueError, match="outside"):
            Own().append_to_memory_hook(config(inside), "CLAUDE.md", "x")
        assert not outside.exists()


class TestState:
    def test_without_an_executor_there_is_nothing_to_keep(self) -> None:
        assert Own().pre_stop_state() == {}

    @pytest.mark.parametrize("executor", [object(), SimpleNamespace(_session_id="")])
    def test_an_executor_without_a_session_leaves_the_key_out(self, executor: object) -> None:
        adapter = Own()
        adapter._executor = executor
        assert adapter.pre_stop_state() == {}

    def test_the_session_of_the_executor_is_kept(self) -> None:
        adapter = Own()
        adapter._executor = SimpleNamespace(_session_id="s-1")
        assert adapter.pre_stop_state() == {"session_id": "s-1"}

    def test_the_last_200_lines_of_a_synchronous_transcript_are_kept(self) -> None:
        adapter = Synchronous()
        lines = adapter.pre_stop_state()["transcript_lines"]
        assert adapter.query == (0, 200)
        assert (len(lines), lines[-1]) == (200, "line 499")

    def test_a_transcript_that_fails_never_raises(self) -> None:
        class Broken(Own):
            def transcript_lines(self, since: int = 0, limit: int = 100) -> Any:
                raise RuntimeError("no disk")

        adapter = Broken()
        adapter._executor = SimpleNamespace(_session_id="s-1")
        assert adapter.pre_stop_state() == {"session_id": "s-1"}

    def test_what_was_kept_is_taken_over(self) -> None:
        adapter = Own()
        adapter.restore_state({"session_id": "s-1", "transcript_lines": ["a"]})
        assert (adapter._snapshot_session_id, adapter._snapshot_transcript) == ("s-1", ["a"])
        adapter.restore_state({})
        assert (adapter._snapshot_session_id, adapter._snapshot_transcript) == (None, None)


ADAPTOR = """
from molecule_plugin import InstallResult

class Adaptor:
    def __init__(self, plugin_name, runtime):
        self.plugin_name, self.runtime = plugin_name, runtime

    async def install(self, ctx):
        if (ctx.plugin_root / "broken").exists():
            raise RuntimeError("no room")
        ctx.register_tool("look", len)
        ctx.append_to_memory(ctx.memory_filename, "# from " + self.plugin_name)
        return InstallResult(self.plugin_name, self.runtime, "plugin", warnings=["careful"])

    async def uninstall(self, ctx):
        pass
"""


def plugin(tmp_path: Path, name: str, *, broken: bool = False) -> SimpleNamespace:
    root = tmp_path / "shared" / name
    (root / "adapters").mkdir(parents=True)
    (root / "adapters" / "own_engine.py").write_text(ADAPTOR)
    if broken:
        (root / "broken").touch()
    return SimpleNamespace(name=name, path=str(root))


async def test_one_failing_plugin_is_logged_and_the_others_are_installed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    adapter = Own()
    plugins = SimpleNamespace(plugins=[plugin(tmp_path, "bad", broken=True), plugin(tmp_path, "good")])
    with caplog.at_level(logging.INFO):
        results = await adapter.inject_plugins(config(tmp_path), plugins)
    assert [result.plugin_name for result in results] == ["good"]
    assert adapter.plugin_tools == {"look": len}
    assert (tmp_path / "CLAUDE.md").read_text() == "# from good\n"
    assert "Plugin good installed via plugin adaptor (warnings: 1)" in caplog.messages
    [failure] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert failure.getMessage() == "Plugin bad install via plugin failed: no room"
    assert failure.exc_info is not None


async def test_a_plugin_without_an_adaptor_is_dropped_as_files(tmp_path: Path) -> None:
    root = tmp_path / "shared" / "plain"
    root.mkdir(parents=True)
    (root / "note.md").write_text("hello")
    plugins = SimpleNamespace(plugins=[SimpleNamespace(name="plain", path=root)])
    [result] = await Own().install_plugins_via_registry(config(tmp_path), plugins)
    assert result.source == "raw_drop"
    assert (tmp_path / "plugins/plain/note.md").read_text() == "hello"


def test_overridable_coroutines_are_coroutines() -> None:
    names = (
        "setup",
        "create_executor",
        "close",
        "health",
        "transcript_lines",
        "inject_plugins",
        "_common_setup",
    )
    assert all(inspect.iscoroutinefunction(getattr(BaseAdapter, name)) for name in names)
