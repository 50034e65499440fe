"""AGENTS.md: a generated description of the workspace for the tools that read such files.

The compatibility path `molecule_runtime.agents_md` is this module. Only the text between two markers is
ours; what people write around it stays.
"""

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from molecule_runtime.domain.config import WorkspaceConfig
from molecule_runtime.kit.files.atomic_files import write_private
from molecule_runtime.settings.config import load_config

BEGIN = "<!-- molecule:begin -->"
END = "<!-- molecule:end -->"

_OURS = re.compile(f"{re.escape(BEGIN)}(?:(?!{re.escape(BEGIN)}).)*?{re.escape(END)}\n?", re.DOTALL)
_MARKER = re.compile(f"(?:{re.escape(BEGIN)}|{re.escape(END)})\n?")
_HEADINGS = ("**Role:**", "## Description", "## A2A Endpoint", "## MCP Tools")
_DEFAULT_MODE = 0o644


def generate_agents_md(
    config_dir: str | Path, output_path: str | Path, env: Mapping[str, str] | None = None
) -> None:
    """Write the description of the workspace in `config_dir`, in one step.

    Raises what `load_config` raises, and OSError when the file cannot be written.
    """
    env = os.environ if env is None else env
    section = describe_workspace(load_config(config_dir, env), env.get("AGENT_URL", "").strip())
    target = _target(Path(output_path))
    mode = _DEFAULT_MODE
    text = ""
    if target.is_file() and not target.is_symlink():
        mode = stat.S_IMODE(target.stat().st_mode)
        text = target.read_bytes().decode("utf-8", "surrogateescape")
    target.parent.mkdir(parents=True, exist_ok=True)
    write_private(target, put_section(text, section).encode("utf-8", "surrogateescape"), mode)


def describe_workspace(config: WorkspaceConfig, agent_url: str = "") -> str:
    """The text between the markers."""
    tools = [f"- {_inline(name)}" for name in (*config.tools, *config.plugins)]
    parts = [
        f"# {_inline(config.name)}",
        f"**Role:** {_inline(config.role or config.description)}",
        "## Description",
        _safe(config.description).strip(),
        "## A2A Endpoint",
        _inline(agent_url) or f"http://localhost:{config.a2a.port}/a2a",
        "## MCP Tools",
        "\n".join(tools) or "None",
    ]
    return "\n\n".join(part for part in parts if part)


def put_section(text: str, section: str) -> str:
    """The text of a file with our section in place of the one that it has, or before everything else."""
    ours = f"{BEGIN}\n{section}\n{END}\n"
    found = _OURS.search(text)
    if found is not None:
        before, after = text[: found.start()], text[found.end() :]
        return _without_markers(before) + ours + _without_markers(after)
    if all(heading in text for heading in _HEADINGS) and text.startswith("# "):
        return ours  # a file that an earlier version generated, before there were markers
    rest = _without_markers(text)
    return f"{ours}\n{rest}" if rest.strip() else ours


def _target(path: Path) -> Path:
    """The file to write: behind a link only where the link stays in its folder."""
    if path.is_symlink():
        behind = path.resolve()
        if behind.parent == path.parent.resolve():
            return behind
    return path


def _without_markers(text: str) -> str:
    return _MARKER.sub("", text)


def _safe(text: str) -> str:
    """A text that cannot end our section."""
    return text.replace("<!--", "&lt;!--")


def _inline(text: str) -> str:
    return " ".join(_safe(text).split())
