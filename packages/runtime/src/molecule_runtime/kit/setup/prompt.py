"""The system prompt of an agent, put together from the platform, the workspace's files, plugins and peers."""

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

from molecule_runtime.domain.peers import PeerProfile, peer_of
from molecule_runtime.domain.prompt_quoting import NOT_INSTRUCTIONS, fence, one_line
from molecule_runtime.kit.setup.skills import LoadedSkill, are_shown_in_full
from molecule_wire import JSON, JSONObject

DEFAULT_PROMPT_FILES = ("system-prompt.md",)
MEMORY_FILES = ("MEMORY.md", "USER.md")
PEERS_HEADING = "## Your Peers (workspaces you can delegate to)"
DELEGATION_FAILURES = """\
## Handling delegation failures
When a delegation fails or a peer does not answer:
- say what failed; never present the peer's work as done
- retry later when the peer was busy or offline
- give the task to another peer whose skills fit
- or do the work yourself when you can
- tell the caller which part is missing when none of this helps"""

log = logging.getLogger(__name__)


def build_system_prompt(
    config_path: str | Path,
    workspace_id: str,
    loaded_skills: Sequence[LoadedSkill],
    peers: Sequence[JSONObject],
    prompt_files: Sequence[str] | None = None,
    plugin_rules: Sequence[str] | None = None,
    plugin_prompts: Sequence[str] | None = None,
    parent_context: Sequence[JSONObject] | None = None,
    platform_instructions: str = "",
) -> str:
    """The whole prompt; a section without content is left out."""
    sections = [
        _headed("# Platform Instructions", [platform_instructions]),
        *_file_sections(Path(config_path), prompt_files or DEFAULT_PROMPT_FILES),
        _parent_section(parent_context or []),
        _headed("## Platform Rules", plugin_rules or []),
        _headed("## Platform Guidelines", plugin_prompts or []),
        _skills_section(loaded_skills),
        peer_section([row for row in peers if row.get("id") != workspace_id]),
        DELEGATION_FAILURES,
    ]
    return "\n\n".join(section for section in sections if section)


def peer_section(peers: Iterable[JSONObject], heading: str = PEERS_HEADING) -> str:
    """The peers that have a card, under a heading; empty when there are none."""
    known = [peer for peer in map(peer_of, peers) if peer.has_card]
    if not known:
        return ""
    return "\n".join([heading, NOT_INSTRUCTIONS, fence("\n".join(map(describe_peer, known)))])


def describe_peer(peer: PeerProfile) -> str:
    """One peer in one or two lines."""
    line = f"- **{one_line(peer.name)}** (id: `{one_line(peer.id)}`, status: {one_line(peer.status)})"
    skills = ", ".join(one_line(name, 100) for name in peer.skill_names)
    return f"{line}\n  Skills: {skills}" if skills else line


def _headed(heading: str, texts: Iterable[str]) -> str:
    filled = [text.strip() for text in texts if text.strip()]
    if not filled:
        return ""
    first = filled[0]
    return "\n\n".join(filled if first.splitlines()[0].strip() == heading else [heading, *filled])


def _file_sections(config_path: Path, prompt_files: Sequence[str]) -> list[str]:
    found = [read_prompt_file(config_path / name, required=True) for name in prompt_files]
    listed = {Path(name) for name in prompt_files}
    found += [
        read_prompt_file(config_path / name, required=False)
        for name in MEMORY_FILES
        if Path(name) not in listed
    ]
    return found


def read_prompt_file(path: Path, *, required: bool) -> str:
    """The text of a prompt file; empty when there is none, with a warning when there should be one."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError as problem:
        if required or not isinstance(problem, FileNotFoundError):
            log.warning("prompt file %s cannot be read: %s", path, problem.strerror)
        return ""


def _parent_section(parent_context: Sequence[JSONObject]) -> str:
    files = [(one_line(_text(row.get("path"))), _text(row.get("content"))) for row in parent_context]
    blocks = [f"### {path}\n{fence(content)}" for path, content in files if path and content.strip()]
    return "\n\n".join(["## Parent Context\n" + NOT_INSTRUCTIONS, *blocks]) if blocks else ""


def _skills_section(skills: Sequence[LoadedSkill]) -> str:
    in_full = are_shown_in_full(skills)
    blocks: list[str] = []
    for skill in skills:
        how = f"To read this skill, call read_skill with id '{skill.metadata.id}'."
        body = skill.instructions if in_full else how
        lines = (f"### {skill.metadata.name}", skill.metadata.description, body)
        blocks.append("\n".join(line for line in lines if line))
    return "\n\n".join(["## Your Skills", *blocks]) if blocks else ""


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else ""
