"""The preflight check of the runtime: whether its adapter is there, and is what config.yaml names."""

import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from molecule_runtime.domain.config import DEFAULT_RUNTIME
from molecule_runtime.settings.preflight_issues import PreflightIssue, failure, warning

AdapterLookup: TypeAlias = Callable[[str], Any]
"""The adapter class of a runtime id. Raises KeyError, ImportError, AttributeError or RuntimeError."""

AdapterRows: TypeAlias = Callable[[], Sequence[Any]]
"""The known adapters, as rows `{name, display_name, description, source, available, missing}`."""

TITLE = "Runtime"
_REGISTRY = "molecule_runtime.registry.adapters"


def get_adapter(runtime: str) -> Any:
    """The lookup of the registry. It is a neighbour of this room, so it is found by name and when needed."""
    return importlib.import_module(_REGISTRY).get_adapter(runtime)


def list_adapters() -> Sequence[Any]:
    """The adapters of the registry."""
    return importlib.import_module(_REGISTRY).list_adapters()


def check_runtime(
    runtime: str, adapter_module: str, find: AdapterLookup, rows: AdapterRows
) -> Iterator[PreflightIssue]:
    """Look the adapter up, and ask it for its name."""
    named = f"Adapter module '{adapter_module}'" if adapter_module else "Adapter module"
    try:
        adapter = find(runtime)
    except ImportError as problem:
        fix = "Install the adapter's package, or correct ADAPTER_MODULE."
        yield failure(TITLE, f"{named} cannot be imported: {_one_line(problem)}", fix)
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - an imported module may raise anything
        if isinstance(problem, AttributeError) and (not adapter_module or problem.name == "Adapter"):
            fix = "Add `Adapter = <your adapter class>` at the end of the module."
            yield failure(TITLE, f"{named} has no class `Adapter`: {_one_line(problem)}", fix)
        # With ADAPTER_MODULE nothing else is looked for: whatever is raised comes from that module.
        elif isinstance(problem, KeyError) and not adapter_module:
            yield _no_adapter(runtime, str(problem.args[0]) if problem.args else "", rows)
        elif isinstance(problem, RuntimeError) and not adapter_module:
            fix = "Install what is named, or choose another runtime in config.yaml."
            yield failure(TITLE, str(problem), fix)
        else:
            raised = f"raised {type(problem).__name__} when it was imported: {_one_line(problem)}"
            yield failure(TITLE, f"{named} {raised}", "Correct the module.")
    else:
        yield from _check_name(runtime, adapter)


def _one_line(problem: BaseException) -> str:
    return " ".join(str(problem).split())


def _no_adapter(runtime: str, sentence: str, rows: AdapterRows) -> PreflightIssue:
    """A runtime that nobody provides. Names those that there are, also when the lookup did not."""
    try:
        known = ", ".join(str(row["name"]) for row in rows() if row["available"])
    except Exception:  # noqa: BLE001 - the list only helps the reader; the finding stands without it
        known = ""
    detail = sentence or f"no adapter for runtime '{runtime}'"
    if runtime == DEFAULT_RUNTIME:
        detail += f" ('{DEFAULT_RUNTIME}' is the default when config.yaml names no runtime)"
    choices = f"one of {known}" if known else "an installed runtime"
    return failure(TITLE, detail, f"Set `runtime` in config.yaml to {choices}, or set ADAPTER_MODULE.")


def _check_name(runtime: str, adapter: Any) -> Iterator[PreflightIssue]:
    try:
        name: object = adapter.name()
    except Exception as problem:  # noqa: BLE001 - an adapter of somebody else may raise anything
        yield failure(
            TITLE,
            f"Adapter name() raised {type(problem).__name__}: {_one_line(problem)}",
            "Let name() be a static method that returns the runtime id.",
        )
        return
    if not isinstance(name, str) or not name.strip():
        description = "an empty string" if isinstance(name, str) else type(name).__name__
        yield failure(
            TITLE,
            f"Adapter name() must return a non-empty string, not {description}",
            "Return the runtime id.",
        )
    elif name != runtime:
        yield warning(
            TITLE,
            f"config.yaml names runtime '{runtime}', the adapter reports '{name}'; the adapter wins",
            f"Set `runtime: {name}` in config.yaml.",
        )
