"""Adapter discovery: from the id of a runtime to the class that runs it.

The environment comes first (`ADAPTER_MODULE`), then installed packages (entry points), then the engines that
come with the runtime. Listing looks at metadata alone: no engine is imported for it.
"""

import ast
import importlib
import importlib.util
import logging
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from molecule_runtime.kit.setup.adapter import BaseAdapter
from molecule_wire.registry import RUNTIMES, RUNTIMES_GROUP, hyphenated, underscored

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

DISTRIBUTION = "molecule-ai-workspace-runtime"
BUILT_IN = "molecule_runtime.runtimes"
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9._-]+)[^;]*;.*\bextra\s*==\s*['\"]([^'\"]+)['\"]")

log = logging.getLogger(__name__)


def get_adapter(runtime: str) -> type[BaseAdapter]:
    """The adapter class of a runtime; an error says what is missing."""
    if module_name := os.environ.get("ADAPTER_MODULE", "").strip():
        return _named_module(module_name)
    package = underscored(runtime)
    for point in _entry_points():
        if underscored(point.name) == package:
            return _of_entry_point(point)
    if package in _built_ins():
        return _built_in(package)
    raise KeyError(f"no adapter for runtime '{runtime}'; known: {', '.join(_known()) or 'none'}")


def discover_adapters() -> dict[str, type[BaseAdapter]]:
    """Runtime id → class, of all that can be imported; that of `ADAPTER_MODULE` by its own name."""
    offers: dict[str, Callable[[], type[BaseAdapter]]] = {
        hyphenated(name): partial(_built_in, name) for name in _built_ins()
    }
    offers |= {point.name: partial(_of_entry_point, point) for point in _entry_points()}
    if module_name := os.environ.get("ADAPTER_MODULE", "").strip():
        offers[""] = partial(_named_module, module_name)
    found: dict[str, type[BaseAdapter]] = {}
    for name, load in offers.items():
        try:
            adapter = load()
            found[name or adapter.name()] = adapter
        except Exception as problem:  # noqa: BLE001 - an engine may raise anything when it is imported
            log.debug("the adapter of %s cannot be imported: %r", name or module_name, problem)
    return found


def list_adapters() -> list[dict[str, Any]]:
    """A row for each adapter: `{name, display_name, description, source, available, missing}`.

    `missing` are the packages to install. Nothing is imported: a built-in adapter has the first line of its
    package, one of an installed package the description of that, one of `ADAPTER_MODULE` its module's name.
    """
    rows: dict[str, dict[str, Any]] = {}
    for name in _built_ins():
        row = _row(hyphenated(name), _summary(name), "built-in", _missing_of_extra(name))
        rows[hyphenated(name)] = row
    for point in _entry_points():
        summary = (point.dist.metadata.json.get("summary") or "") if point.dist is not None else ""
        name, missing = point.name, [] if _is_installed(point.module) else [point.module]
        rows[name] = _row(name, str(summary), "entry-point", missing)
    if module_name := os.environ.get("ADAPTER_MODULE", "").strip():
        missing = [] if _is_installed(module_name) else [module_name]
        rows[module_name] = _row(module_name, "", "ADAPTER_MODULE", missing)
    return [rows[name] for name in sorted(rows)]


def _named_module(module_name: str) -> type[BaseAdapter]:
    try:
        module = importlib.import_module(module_name)
    except ImportError as problem:
        raise ImportError(str(problem), name=problem.name, path=problem.path) from problem
    if not hasattr(module, "Adapter"):
        sentence = f"module '{module_name}' of ADAPTER_MODULE has no attribute 'Adapter'"
        raise AttributeError(sentence, name="Adapter", obj=module)
    return module.Adapter


def _of_entry_point(point: "EntryPoint") -> type[BaseAdapter]:
    offered = point.load()
    return getattr(offered, "Adapter", offered)


def _built_in(name: str) -> type[BaseAdapter]:
    runtime_id = hyphenated(name)
    try:
        return importlib.import_module(f"{BUILT_IN}.{name}").Adapter
    except ImportError as problem:
        if (problem.name or "").startswith("molecule_"):  # a fault of ours, not a missing package
            raise
        raise RuntimeError(
            f"runtime '{runtime_id}' needs: pip install {DISTRIBUTION}[{runtime_id}]"
        ) from problem


def _built_ins() -> list[str]:
    """The engines in the package of engines, by their folders and modules."""
    package = importlib.import_module(BUILT_IN)
    found = {path.stem for folder in package.__path__ for path in Path(folder).glob("*.py")}
    found |= {path.parent.name for folder in package.__path__ for path in Path(folder).glob("*/__init__.py")}
    return sorted(name for name in found if not name.startswith("_"))


def _entry_points() -> "list[EntryPoint]":
    from importlib.metadata import entry_points  # slow to import

    return sorted(entry_points(group=RUNTIMES_GROUP), key=lambda point: point.name)


def _known() -> list[str]:
    return sorted({*map(hyphenated, _built_ins()), *(point.name for point in _entry_points())})


def _summary(name: str) -> str:
    """The first line of the docstring of a built-in engine's package."""
    spec = importlib.util.find_spec(f"{BUILT_IN}.{name}")
    if spec is None or spec.origin is None:
        return ""
    docstring = ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))) or ""
    return docstring.partition("\n")[0]


def _missing_of_extra(runtime: str) -> list[str]:
    """The distributions of a built-in engine's extra, which has its name, that are not installed."""
    from importlib import metadata

    try:
        lines = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return []
    required = [found.groups() for line in lines if (found := _REQUIREMENT.match(line))]
    named = [name for name, extra in required if underscored(extra) == runtime]
    return [name for name in named if not _has_distribution(name)]


def _has_distribution(name: str) -> bool:
    from importlib import metadata

    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _is_installed(module_name: str) -> bool:
    """Whether the outermost package of a module is there; to look further would import it."""
    try:
        return importlib.util.find_spec(module_name.partition(".")[0]) is not None
    except (ImportError, ValueError):
        return False


def _row(name: str, description: str, source: str, missing: list[str]) -> dict[str, Any]:
    entry = RUNTIMES.get(underscored(name))
    return {
        "name": name,
        "display_name": entry.display_name if entry else name,
        "description": description,
        "source": source,
        "available": not missing,
        "missing": missing,
    }
