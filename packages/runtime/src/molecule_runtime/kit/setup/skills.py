"""Skills of a workspace: folders with a `SKILL.md`, in the format of agentskills.io.

Tools of a skill run in this process, so they are loaded only from a plugin that the owner trusts. A worker
process for the others, a security scan and reloading while the agent runs come later.
"""

import logging
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import cast

from molecule_runtime.kit.tools.tool_set import ToolSpec, tool
from molecule_wire.registry import underscored

SKILL_FILE = "SKILL.md"
SKILLS_FOLDER = "skills"
TOOL_FOLDERS = ("scripts", "tools")
ANY_RUNTIME = "*"
MAX_SKILLS_IN_FULL = 8
MAX_BYTES_IN_FULL = 8 * 1024
_MAX_SKILL_BYTES = 1024 * 1024

log = logging.getLogger(__name__)


@dataclass
class SkillMetadata:
    """What the front matter of a `SKILL.md` says."""

    id: str
    name: str
    description: str = ""
    tags: list[str] = field(default_factory=list[str])
    examples: list[str] = field(default_factory=list[str])
    runtime: list[str] = field(default_factory=lambda: [ANY_RUNTIME])

    def supports(self, runtime: str | None) -> bool:
        """Whether the skill is for a runtime, however that is spelled."""
        named = {underscored(one) for one in self.runtime}
        return runtime is None or ANY_RUNTIME in named or underscored(runtime) in named


@dataclass
class LoadedSkill:
    """A skill with its instructions and tools; `allowed_tools`, if given, are the only ones it may use."""

    metadata: SkillMetadata
    instructions: str = ""
    tools: list[ToolSpec] = field(default_factory=list[ToolSpec])
    allowed_tools: list[str] | None = None


def parse_skill_frontmatter(path: str | Path) -> tuple[dict[str, object], str]:
    """Read a `SKILL.md`: its front matter and its body. It never raises; what is malformed is a warning."""
    from molecule_plugin.skills import parse_skill_md  # reads YAML
    from molecule_plugin.text_reader import UnreadableFile, read_text

    front, body, problems = parse_skill_md(path)
    for problem in problems:
        log.warning("%s: %s", path, problem)
    if problems and not body:
        try:
            text = read_text(Path(path), _MAX_SKILL_BYTES)
        except UnreadableFile:
            return {}, ""
        return {}, text
    return front, body


def load_skills(
    config_path: str | Path,
    names: Sequence[str],
    current_runtime: str | None = None,
    *,
    trusted: bool = False,
) -> list[LoadedSkill]:
    """Load the named skills of a folder that has `skills/`, or of a folder of skills; `["*"]` is every one.

    A skill that is missing, is for another runtime or lacks what it requires is skipped; a warning says why.
    """
    root = _skills_folder(Path(config_path))
    skill_names = _every_skill(root) if list(names) == ["*"] else list(dict.fromkeys(names))
    loaded = (_load_skill(root, name, current_runtime, trusted) for name in skill_names)
    return [skill for skill in loaded if skill is not None]


def are_shown_in_full(skills: Sequence[LoadedSkill]) -> bool:
    """Whether the prompt holds the bodies of the skills, for they are few or short; a tool reads others."""
    size = sum(len(skill.instructions.encode(errors="replace")) for skill in skills)
    return len(skills) <= MAX_SKILLS_IN_FULL or size <= MAX_BYTES_IN_FULL


def read_skill_tool(skills: Iterable[LoadedSkill]) -> ToolSpec:
    """The tool that gives the model the body of a skill when it needs it."""
    by_id = {skill.metadata.id: skill for skill in skills}

    @tool
    async def read_skill(id: str) -> str:
        """Read the instructions of one of your skills, by its id."""
        skill = by_id.get(id)
        return (
            f"Error: no skill '{id[:100]}'; known: {', '.join(by_id)}"
            if skill is None
            else skill.instructions
        )

    return read_skill


def _skills_folder(folder: Path) -> Path:
    inner = folder / SKILLS_FOLDER
    is_itself_a_skill = (inner / SKILL_FILE).is_file()
    return inner if inner.is_dir() and not is_itself_a_skill else folder


def _every_skill(root: Path) -> list[str]:
    if not root.is_dir():
        return []
    return sorted(path.name for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))


def _load_skill(root: Path, name: str, runtime: str | None, trusted: bool) -> LoadedSkill | None:
    folder = root / name
    if Path(name).name != name or not (folder / SKILL_FILE).is_file():
        log.warning("skill '%s' is skipped: %s has no %s", name, folder, SKILL_FILE)
        return None
    front, body = parse_skill_frontmatter(folder / SKILL_FILE)
    metadata = _metadata(name, front)
    if not metadata.supports(runtime):
        log.info("skill '%s' is skipped: it is for %s", name, ", ".join(metadata.runtime))
        return None
    if unmet := _unmet_requirement(front):
        log.warning("skill '%s' is skipped: it requires %s", name, unmet)
        return None
    allowed = front.get("allowed-tools")
    skill = LoadedSkill(metadata, body.strip(), [], allowed.split() if isinstance(allowed, str) else None)
    found = _load_tools(folder, name, trusted)
    skill.tools = [one for one in found if skill.allowed_tools is None or one.name in skill.allowed_tools]
    return skill


def _metadata(skill_id: str, front: dict[str, object]) -> SkillMetadata:
    name, description, runtime = front.get("name"), front.get("description"), front.get("runtime")
    runtimes = [runtime] if isinstance(runtime, str) else _texts(runtime)
    if runtime is not None and not runtimes:
        log.warning("skill '%s': `runtime` must be a text or a list of texts; it is taken as any", skill_id)
    return SkillMetadata(
        skill_id,
        name if isinstance(name, str) and name.strip() else skill_id,
        description if isinstance(description, str) else "",
        _texts(front.get("tags")) or [],
        _texts(front.get("examples")) or [],
        runtimes or [ANY_RUNTIME],
    )


def _unmet_requirement(front: dict[str, object]) -> str:
    """The first thing of `metadata.openclaw.requires` that is not there; empty when nothing is missing."""
    requires = _member(_member(_member(front, "metadata"), "openclaw"), "requires")
    for variable in _texts(_member(requires, "env")) or []:
        if not os.environ.get(variable):
            return f"the environment variable {variable}"
    for program in _texts(_member(requires, "bins")) or []:
        if shutil.which(program) is None:
            return f"the program {program}"
    choices = _texts(_member(requires, "anyBins")) or []
    if choices and all(shutil.which(program) is None for program in choices):
        return f"one of the programs {', '.join(choices)}"
    settings = _texts(_member(requires, "config")) or []
    return f"the setting {settings[0]}, which no workspace has" if settings else ""


def _load_tools(folder: Path, skill_id: str, trusted: bool) -> list[ToolSpec]:
    files = [
        path
        for place in TOOL_FOLDERS
        for path in sorted((folder / place).glob("*.py"))
        if not path.name.startswith("_") and path.resolve().is_relative_to(folder.resolve())
    ]
    if files and not trusted:
        named = ", ".join(path.name for path in files)
        log.warning(
            "tools of skill '%s' are not loaded, its plugin is not marked as trusted: %s", skill_id, named
        )
        return []
    tools: list[ToolSpec] = []
    for path in files:
        try:
            module = _run_module(f"molecule_skill_{skill_id}_{path.stem}", path)
        except (Exception, SystemExit):
            log.exception("tools of skill '%s' in %s cannot be loaded", skill_id, path.name)
            continue
        tools += [one for one in vars(module).values() if isinstance(one, ToolSpec) and one not in tools]
    return tools


def _run_module(name: str, path: Path) -> ModuleType:
    """Run a file as a module; nothing compiled is left in the folder, whose digest is pinned."""
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    try:
        exec(compile(path.read_bytes(), str(path), "exec"), vars(module))  # noqa: S102 - trusted by its owner
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _member(value: object, name: str) -> object:
    return cast("dict[object, object]", value).get(name) if isinstance(value, dict) else None


def _texts(value: object) -> list[str] | None:
    """The texts of a list; `None` when it is no list of texts. One text alone counts as a list of it."""
    if not isinstance(value, list):
        return [value] if isinstance(value, str) else None
    listed = cast("list[object]", value)
    texts = [item for item in listed if isinstance(item, str)]
    return texts if len(texts) == len(listed) else None
