"""The plugin that `molecule-plugin init` writes: small, complete, and free of faults."""

from collections.abc import Sequence
from pathlib import Path

_MANIFEST = """\
# The manifest of the plugin. Check the whole with: molecule-plugin validate .
name: {name}
version: "0.1.0"
description: Says in one line what agents can do with this plugin.
author: ""
license: Apache-2.0
tags: []
skills:
  - {skill}
runtimes:
{runtimes}
# What the plugin needs beyond its files; people see it before they install.
permissions:
  network: false
  env: []
  setup: false
"""
_SKILL = """\
---
name: {skill}
description: Greets somebody by name. Use it when the user asks for a greeting.
license: Apache-2.0
---
# {title}

1. Find out whom to greet.
2. Run `python scripts/greet.py <name>` and pass on what it prints.

More about tone is in `references/tone.md`.
"""
_SCRIPT = '''\
"""Prints a greeting.  usage: python greet.py <name>"""

import sys

print("Hello, " + (" ".join(sys.argv[1:]) or "world") + "!")
'''
_REFERENCE = """\
# Tone

Be short and warm. An agent reads this file only when the skill sends it here.
"""
_ADAPTER = "from molecule_plugin import AgentskillsAdaptor as Adaptor  # noqa: F401\n"
_ASSET = "Files that the skill hands out, such as templates and pictures, go here.\n"


def template_files(name: str, runtimes: Sequence[str], skill: str) -> dict[str, str]:
    """Path → content of every file of a new plugin."""
    folder = f"skills/{skill}"
    title = skill.replace("-", " ").capitalize()
    listed = "\n".join(f"  - {runtime}" for runtime in runtimes)
    return {
        "plugin.yaml": _MANIFEST.format(name=name, skill=skill, runtimes=listed),
        f"{folder}/SKILL.md": _SKILL.format(skill=skill, title=title),
        f"{folder}/scripts/greet.py": _SCRIPT,
        f"{folder}/references/tone.md": _REFERENCE,
        f"{folder}/assets/about.txt": _ASSET,
        **{f"adapters/{runtime}.py": _ADAPTER for runtime in runtimes},
    }


def write_template(folder: Path, files: dict[str, str]) -> None:
    """Write the files of a new plugin."""
    for path, content in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content, encoding="utf-8", newline="\n")
