"""Hermes' config.yaml as plain values: the one module of the engine that knows the YAML library."""

from pathlib import Path
from typing import Any, cast

import yaml

from molecule_runtime.kit.files.atomic_files import read_limited, write_private
from molecule_runtime.runtimes.hermes.errors import HermesError

MAX_BYTES = 1024 * 1024


def read_config(path: Path) -> dict[str, Any]:
    """The mapping of the file; empty when there is none. Raises `HermesError` for what is no mapping."""
    try:
        content: Any = yaml.safe_load(read_limited(path, MAX_BYTES))
    except FileNotFoundError:
        return {}
    except OSError as problem:
        raise HermesError(f"{path} cannot be read ({problem.strerror}): correct or remove it.") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as problem:
        # The text of the error would quote the file, which holds keys.
        mark = getattr(problem, "problem_mark", None)
        place = "" if mark is None else f" in line {mark.line + 1}"
        raise HermesError(f"{path} is no YAML{place}: correct or remove it.") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise HermesError(f"{path} is no mapping of settings: correct or remove it.")
    return cast("dict[str, Any]", content)


def write_config(path: Path, config: dict[str, Any]) -> None:
    """Replace the file atomically, for its owner alone."""
    text = yaml.safe_dump(config, sort_keys=False, allow_unicode=True, default_flow_style=False)
    write_private(path, text.encode())
