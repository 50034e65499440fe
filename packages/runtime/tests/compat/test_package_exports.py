"""The names that `molecule_runtime` itself exports."""

import importlib
import subprocess
import sys

import pytest

import molecule_runtime
from tests.rows import each_row


@each_row("name", [name for name in molecule_runtime.__all__ if name != "__version__"])
def test_an_export_is_the_object_of_its_public_module(name: str) -> None:
    paths = ("executor_kit", "adapters.base", "tools")
    modules = [importlib.import_module(f"molecule_runtime.{path}") for path in paths]
    objects = [getattr(module, name) for module in modules if hasattr(module, name)]
    assert objects
    assert all(getattr(molecule_runtime, name) is each for each in objects)
    assert name in dir(molecule_runtime)


def test_every_name_of_the_executor_kit_is_exported() -> None:
    from molecule_runtime import executor_kit

    assert set(executor_kit.__all__) <= set(molecule_runtime.__all__)


def test_names_can_be_imported_from_the_package() -> None:
    from molecule_runtime import BaseAdapter, Turn, TurnExecutor

    assert [each.__name__ for each in (BaseAdapter, Turn, TurnExecutor)] == [
        "BaseAdapter",
        "Turn",
        "TurnExecutor",
    ]


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = molecule_runtime.no_such_name


def test_importing_the_package_loads_none_of_its_modules() -> None:
    code = "import sys, molecule_runtime; print([n for n in sys.modules if n.startswith('molecule_')])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "['molecule_runtime']"
