"""`molecule-skill init NAME`: a project that answers, with a test that passes."""

import argparse
import re
from pathlib import Path

from molecule_skill.cli import templates
from molecule_skill.cli.output import CommandFailed, Output

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")


def run(options: argparse.Namespace, output: Output) -> int:
    """Write the files of a template into a new folder."""
    name: str = options.name
    if not _NAME.fullmatch(Path(name).name):
        sentence = f"{name!r} cannot be an agent's name: use lower-case letters, digits, '.', '_' and '-'"
        raise CommandFailed(sentence, exit_code=2)
    folder = Path(name)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CommandFailed(f"{folder} is there already and not empty: choose another name")
    files = templates.files(folder.name, options.template)
    for path, text in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    output.line(f"{folder}/ has an agent in agent.py and a test in tests/test_agent.py.")
    output.line()
    output.verbatim(f"  cd {folder}\n  molecule-skill test\n  molecule-skill dev")
    output.value({"ok": True, "folder": str(folder), "files": sorted(files)})
    return 0
