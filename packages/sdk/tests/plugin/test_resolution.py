"""Which adaptor a plugin gets; resolving never raises and leaves no trace of an older version."""

import logging
import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from molecule_plugin import resolution
from molecule_plugin.builtins import AgentskillsAdaptor
from molecule_plugin.protocol import AdaptorSource, PluginAdaptor
from molecule_plugin.raw_drop import RawDropAdaptor
from molecule_plugin.resolution import resolve
from molecule_plugin.testing import build_plugin, snapshot

ADAPTOR = """
class Adaptor:
    mark = {mark!r}
    def __init__(self, plugin_name, runtime):
        self.plugin_name, self.runtime = plugin_name, runtime
    async def install(self, ctx): ...
    async def uninstall(self, ctx): ...
"""


def _mark(adaptor: PluginAdaptor) -> str:
    return str(getattr(adaptor, "mark", ""))


def test_without_an_adaptor_the_raw_drop_takes_it(tmp_path: Path) -> None:
    adaptor, source = resolve("demo", "claude-code", build_plugin(tmp_path, {"a": "b"}))
    assert isinstance(adaptor, RawDropAdaptor)
    assert (source, adaptor.runtime) == ("raw_drop", "claude_code")


def test_the_plugins_own_adaptor_is_found_for_either_spelling(tmp_path: Path) -> None:
    plugin = build_plugin(tmp_path, {"adapters/claude_code.py": ADAPTOR.format(mark="own")})
    for runtime in ("claude_code", "claude-code"):
        adaptor, source = resolve("demo", runtime, plugin)
        assert (_mark(adaptor), source, adaptor.runtime) == ("own", "plugin", "claude_code")


def test_the_manifest_can_name_another_file(tmp_path: Path) -> None:
    files = {
        "plugin.yaml": "name: demo\nadapters:\n  claude-code: code/special.py\n",
        "code/special.py": ADAPTOR.format(mark="special"),
        "adapters/claude_code.py": ADAPTOR.format(mark="usual"),
    }
    assert _mark(resolve("demo", "claude_code", build_plugin(tmp_path, files))[0]) == "special"


def test_a_manifest_cannot_lead_out_of_the_plugin(tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text(ADAPTOR.format(mark="evil"))
    plugin = build_plugin(tmp_path, {"plugin.yaml": "name: demo\nadapters:\n  claude_code: ../evil.py\n"})
    assert resolve("demo", "claude_code", plugin)[1] == AdaptorSource.RAW_DROP


def test_the_platforms_adaptor_comes_first(tmp_path: Path) -> None:
    plugin = build_plugin(tmp_path, {"adapters/claude_code.py": ADAPTOR.format(mark="own")})
    registry = tmp_path / "registry"
    (registry / "demo").mkdir(parents=True)
    (registry / "demo" / "claude_code.py").write_text(ADAPTOR.format(mark="registry"))
    adaptor, source = resolve("demo", "claude_code", plugin, registry_root=registry)
    assert (_mark(adaptor), source) == ("registry", "registry")


def test_an_entry_point_offers_an_adaptor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint(
        "demo:claude_code", "molecule_plugin.builtins:AgentskillsAdaptor", "molecule.plugin_adaptors"
    )

    def offered(group: str, name: str) -> EntryPoints:
        return EntryPoints([point]).select(group=group, name=name)

    monkeypatch.setattr("importlib.metadata.entry_points", offered)
    adaptor, source = resolve("demo", "claude_code", build_plugin(tmp_path, {"a": "b"}))
    assert isinstance(adaptor, AgentskillsAdaptor)
    assert source == "registry"


def test_get_adaptor_is_preferred_and_a_class_may_take_no_arguments(tmp_path: Path) -> None:
    bare = "class Adaptor:\n    async def install(self, ctx): ...\n    async def uninstall(self, ctx): ...\n"
    plugin = build_plugin(
        tmp_path,
        {
            "adapters/one.py": bare + "def get_adaptor(plugin_name, runtime):\n"
            "    it = Adaptor()\n    it.mark = plugin_name + runtime\n    return it\n",
            "adapters/two.py": bare,
        },
    )
    assert _mark(resolve("demo", "one", plugin)[0]) == "demoone"
    adaptor, source = resolve("demo", "two", plugin)
    assert (adaptor.plugin_name, adaptor.runtime, source) == ("demo", "two", "plugin")


@pytest.mark.parametrize(
    "source",
    [
        "raise RuntimeError('no')",
        "import sys; sys.exit(3)",
        "this is not python",
        "x = 1",
        "def get_adaptor(plugin_name, runtime): return 7",
        "class Adaptor:\n    def __init__(self, a, b): raise ValueError",
        "import nothing_of_this_name",
    ],
)
def test_an_adaptor_that_fails_is_one_warning_and_the_next_is_taken(
    tmp_path: Path, source: str, caplog: pytest.LogCaptureFixture
) -> None:
    plugin = build_plugin(tmp_path, {"adapters/claude_code.py": source})
    with caplog.at_level(logging.DEBUG, "molecule_plugin"):
        assert resolve("demo", "claude_code", plugin)[1] == AdaptorSource.RAW_DROP
    assert [record.levelname for record in caplog.records] == ["DEBUG", "WARNING"]
    assert caplog.records[0].exc_info


def test_loading_leaves_no_compiled_file_and_one_module(tmp_path: Path) -> None:
    plugin = build_plugin(tmp_path, {"adapters/claude_code.py": ADAPTOR.format(mark="1")})
    before = snapshot(plugin)
    resolve("alone", "claude_code", plugin)
    assert snapshot(plugin) == before
    (plugin / "adapters/claude_code.py").write_text(ADAPTOR.format(mark="2"))
    assert _mark(resolve("alone", "claude_code", plugin)[0]) == "2"
    assert len([name for name in sys.modules if ":alone:" in name]) == 1
    resolution.forget("alone")
    assert not [name for name in sys.modules if ":alone:" in name]
