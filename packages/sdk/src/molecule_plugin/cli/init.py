"""`init`: a new plugin."""

import argparse
import os
from pathlib import Path

from molecule_plugin.manifest_rules import known_runtimes
from molecule_plugin.names import check_name
from molecule_plugin.skills import SKILL_NAME_MAX, SKILL_NAME_RE
from molecule_plugin.template import template_files, write_template
from molecule_wire.registry import underscored


def init(args: argparse.Namespace) -> int:
    """Run `init`."""
    folder: Path = args.dir
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} is not empty; name a directory that is, or a new one")
    name = check_name(args.name or os.path.basename(os.path.abspath(folder)))
    files = template_files(name, _runtimes(args.runtimes), _skill(args.skill))
    write_template(folder, files)
    print(f"{folder}: plugin {name} with {len(files)} files")
    print(f"Next: edit it, then molecule-plugin validate {folder}")
    return 0


def _runtimes(text: str) -> list[str]:
    named = list(dict.fromkeys(underscored(name.strip()) for name in text.split(",") if name.strip()))
    unknown = [name for name in named if name not in known_runtimes()]
    if unknown or not named:
        problem = f"unknown runtime '{unknown[0]}'" if unknown else "no runtime named"
        raise ValueError(f"{problem} — supported: {sorted(known_runtimes())}")
    return named


def _skill(name: str) -> str:
    if not SKILL_NAME_RE.fullmatch(name) or len(name) > SKILL_NAME_MAX:
        raise ValueError(
            f"'{name[:80]}' cannot name a skill; write at most 64 of a-z and 0-9, with single hyphens"
        )
    return name
