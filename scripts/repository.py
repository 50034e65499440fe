"""Where the repository is and which files belong to it."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("wire", "sdk", "sdk-alias", "skills", "runtime", "platform")
DISTRIBUTIONS = {
    "molecule-ai-wire": ("molecule_wire", "molecule_a2a"),
    "molecule-ai-sdk": ("molecule_agent", "molecule_plugin"),
    "molecule-sdk": (),
    "molecule-ai-skills": ("molecule_skill",),
    "molecule-ai-workspace-runtime": ("molecule_runtime",),
    "molecule-ai-platform": ("molecule_platform",),
}


def files() -> list[Path]:
    """Every file of the repository, new ones included, ignored ones left out; relative to the root."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [Path(name) for name in sorted(set(listed.split("\0"))) if name and (ROOT / name).is_file()]
