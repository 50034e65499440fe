"""An adapter is found by environment, entry point or package, and errors say what to do."""

import importlib
import sys
from pathlib import Path

import pytest

from molecule_runtime import runtimes
from molecule_runtime.registry.adapters import discover_adapters, get_adapter, list_adapters

SOURCE = """
from molecule_runtime.adapters.base import BaseAdapter

class Engine(BaseAdapter):
    @staticmethod
    def name(): return "{name}"
    @staticmethod
    def display_name(): return "x"
    @staticmethod
    def description(): return "x"
    async def setup(self, config): pass
    async def create_executor(self, config): return None

{last}
"""


@pytest.fixture(autouse=True)
def no_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ADAPTER_MODULE", raising=False)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the import path; what is imported from it is forgotten."""
    monkeypatch.syspath_prepend(tmp_path)  # pyright: ignore[reportUnknownMemberType]
    for name in ("my_adapter", "my_package", "no_adapter", "needs_more"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


@pytest.fixture
def engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A second folder of built-in engines."""
    folder = tmp_path / "engines"
    folder.mkdir()
    monkeypatch.setattr(runtimes, "__path__", [*runtimes.__path__, str(folder)])
    return folder


def write(path: Path, name: str = "mine", last: str = "Adapter = Engine") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(SOURCE.format(name=name, last=last))


def install(site: Path, runtime: str, target: str) -> None:
    """Announce an adapter as an installed package does."""
    info = site / "my_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\nSummary: An engine.\n"
    )
    (info / "entry_points.txt").write_text(f"[molecule_runtime.adapters]\n{runtime} = {target}\n")
    importlib.invalidate_caches()


def test_the_module_of_the_environment_comes_first(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(site / "my_adapter.py")
    monkeypatch.setenv("ADAPTER_MODULE", "my_adapter")
    assert get_adapter("anything").name() == "mine"
    assert discover_adapters()["mine"] is get_adapter("")


def test_a_module_that_cannot_be_imported_is_an_import_error_with_its_message(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (site / "needs_more.py").write_text("import a_library_that_is_not_there")
    monkeypatch.setenv("ADAPTER_MODULE", "needs_more")
    with pytest.raises(ImportError, match="No module named 'a_library_that_is_not_there'"):
        get_adapter("x")


def test_a_module_without_an_adapter_is_an_attribute_error(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (site / "no_adapter.py").write_text("")
    monkeypatch.setenv("ADAPTER_MODULE", "no_adapter")
    with pytest.raises(AttributeError, match="Adapter"):
        get_adapter("x")
    discover_adapters()


@pytest.mark.parametrize("target", ["my_package", "my_package:Engine"])
def test_an_entry_point_names_a_class_or_a_module(site: Path, target: str) -> None:
    write(site / "my_package.py")
    install(site, "my-engine", target)
    assert get_adapter("my_engine").name() == "mine"
    assert get_adapter("my-engine").name() == "mine"
    assert "my-engine" in discover_adapters()


def test_listing_imports_no_adapter(site: Path) -> None:
    (site / "my_package.py").write_text("raise RuntimeError('imported')")
    install(site, "my-engine", "my_package")
    [row] = [row for row in list_adapters() if row["name"] == "my-engine"]
    assert row == {
        "name": "my-engine",
        "display_name": "my-engine",
        "description": "An engine.",
        "source": "entry-point",
        "available": True,
        "missing": [],
    }
    assert "my_package" not in sys.modules


def test_an_entry_point_whose_module_is_gone_is_listed_as_not_available(site: Path) -> None:
    install(site, "my-engine", "my_package.adapter")
    [row] = [row for row in list_adapters() if row["name"] == "my-engine"]
    assert (row["available"], row["missing"]) == (False, ["my_package.adapter"])


def test_a_built_in_engine_is_found_in_its_package(engines: Path) -> None:
    write(engines / "my_built_in/__init__.py", "my-built-in")
    assert get_adapter("my-built-in").name() == "my-built-in"
    assert "my-built-in" in discover_adapters()
    [row] = [row for row in list_adapters() if row["name"] == "my-built-in"]
    assert (row["source"], row["available"]) == ("built-in", True)
    del sys.modules["molecule_runtime.runtimes.my_built_in"]


def test_a_built_in_engine_without_its_packages_names_the_extra(engines: Path) -> None:
    write(engines / "my_engine.py", last="import a_library_that_is_not_there")
    expected = r"runtime 'my-engine' needs: pip install molecule-ai-workspace-runtime\[my-engine\]"
    with pytest.raises(RuntimeError, match=expected):
        get_adapter("my_engine")
    assert "my-engine" not in discover_adapters()


def test_an_unknown_runtime_is_a_key_error_that_lists_the_known(engines: Path) -> None:
    write(engines / "known_one.py")
    with pytest.raises(KeyError) as caught:
        get_adapter("none-such")
    [sentence] = caught.value.args
    assert sentence.startswith("no adapter for runtime 'none-such'; known: ")
    assert "known-one" in sentence
