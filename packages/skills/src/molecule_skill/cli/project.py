"""The project of an author: `config.yaml`, the agent class that it names, and the secrets beside it.

The only module of this package that reads YAML.
"""

import importlib
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import yaml

from molecule_skill.cli.output import CommandFailed
from molecule_skill.cli.traces import author_lines

CONFIG = "config.yaml"
ENV_FILE = ".env.local"


@dataclass
class Project:
    """A folder with an agent in it."""

    root: Path
    config: Mapping[str, Any]
    entrypoint: str
    agent_config: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def load(self) -> Any:
        """Import the agent class anew, with every module of the project. Raises CommandFailed."""
        module_name, _, class_name = self.entrypoint.partition(":")
        self._forget_modules()
        root = str(self.root)
        if sys.path[:1] != [root]:
            sys.path.insert(0, root)
        importlib.invalidate_caches()
        # A file saved twice within a second would else be taken from the cache of the first.
        sys.dont_write_bytecode = True
        try:
            module = importlib.import_module(module_name)
        except Exception as problem:
            sentence = f"{self.entrypoint} cannot be imported:\n{author_lines(problem, self.root)}"
            raise CommandFailed(sentence) from problem
        found = getattr(module, class_name, None)
        from molecule_skill.agent import A2AAgent

        if not isinstance(found, type) or not issubclass(found, A2AAgent):
            raise CommandFailed(f"{self.entrypoint} names no A2AAgent class: correct it in {CONFIG}")
        return cast("Any", found)

    def instance(self) -> Any:
        """The agent with its configuration. Raises CommandFailed."""
        made = self.load()
        try:
            return made(dict(self.agent_config) or None)
        except ValueError as problem:
            raise CommandFailed(f"runtime_config.config does not fit the agent: {problem}") from problem

    def _forget_modules(self) -> None:
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if not file or name == "__main__" or not Path(file).resolve().is_relative_to(self.root):
                continue
            if ".venv" not in Path(file).resolve().relative_to(self.root).parts:
                del sys.modules[name]


def find(folder: Path) -> Project:
    """The project in a folder. Raises CommandFailed that says what is missing."""
    root = folder.resolve()
    path = root / CONFIG
    try:
        config: Any = yaml.safe_load(path.read_text())
    except FileNotFoundError as problem:
        raise CommandFailed(
            f"there is no {CONFIG} in {root}: start with 'molecule-skill init NAME'"
        ) from problem
    except (yaml.YAMLError, UnicodeError) as problem:
        raise CommandFailed(f"{path} is no YAML: {problem}") from problem
    settings = _mapping(config)
    if settings.get("runtime") != "python":
        raise CommandFailed(f"{path} must say 'runtime: python'")
    runtime = _mapping(settings.get("runtime_config"))
    entrypoint = runtime.get("entrypoint")
    if not isinstance(entrypoint, str) or entrypoint.count(":") != 1:
        raise CommandFailed(f'{path} must say runtime_config.entrypoint, such as "agent:MyAgent"')
    if not isinstance(runtime.get("config", {}), dict):
        raise CommandFailed(f"{path}: runtime_config.config must be a mapping")
    return Project(root, settings, entrypoint, _mapping(runtime.get("config")))


def secrets(project: Project, env_file: Path | None, names: tuple[str, ...]) -> dict[str, str]:
    """The secrets that an agent declares: of the file first, then of the environment."""
    path = env_file or project.root / ENV_FILE
    if env_file is not None and not path.is_file():
        raise CommandFailed(f"there is no file {path}: correct --env-file")
    kept = _env_file(path) if path.is_file() else {}
    return {name: value for name in names if (value := kept.get(name, os.environ.get(name))) is not None}


def drift(project: Project, agent: Any) -> list[str]:
    """Where config.yaml says something else than the class."""
    return [
        f"{CONFIG} says {name} {project.config[name]!r}, the class says {getattr(agent, name)!r}"
        for name in ("name", "description", "version")
        if name in project.config and str(project.config[name]).strip() != str(getattr(agent, name)).strip()
    ]


def _mapping(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _env_file(path: Path) -> dict[str, str]:
    kept: dict[str, str] = {}
    for line in path.read_text().splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if equals and not name.startswith("#"):
            value = value.strip()
            if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
                value = value[1:-1]
            kept[name.strip()] = value
    return kept
