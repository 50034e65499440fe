"""A Python environment that looks like the one of an installed hermes, without hermes in it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

VERSION = "0.19.0"

_PROGRAM = """#!{python}
import os, sys
home = os.environ["HERMES_HOME"]
if sys.argv[1:3] == ["config", "show"]:
    print("\\x1b[36m  Config:       " + open(home + "/config-path").read() + "\\x1b[0m")
elif sys.argv[1:3] == ["plugins", "list"]:
    print(open(home + "/rows.json").read())
else:
    sys.exit(1)
"""


class HermesEnvironmentFolder:
    """`bin/hermes` tells what its home says it tells."""

    def __init__(self, folder: Path) -> None:
        self.prefix = folder / "environment"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(self.prefix)], check=True)
        self.executable = self.prefix / "bin/hermes"
        self.executable.write_text(_PROGRAM.format(python=self.prefix / "bin/python"))
        self.executable.chmod(0o755)
        self.add_distribution("hermes-agent", VERSION)

    def add_distribution(self, name: str, version: str, entry_points: str = "") -> Path:
        """Install a distribution that has nothing but its metadata."""
        packages = next((self.prefix / "lib").glob("python*/site-packages"))
        folder = packages / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (folder / "RECORD").write_text(f"{folder.name}/METADATA,,\n")
        (folder / "entry_points.txt").write_text(entry_points)
        return folder

    @staticmethod
    def tells(home: Path, rows: list[dict[str, Any]], config: Path | None = None) -> None:
        """Say what hermes lists in a home, and which file it reads."""
        (home / "rows.json").write_text(json.dumps(rows))
        (home / "config-path").write_text(str(config or home / "config.yaml"))
