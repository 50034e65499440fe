"""A workspace with the engine `echo`, as its real process."""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from scripts import live_platform

CONFIG = "name: Echo\nruntime: echo\na2a: {port: 0}\nruntime_config: {max_concurrent_turns: 64}\n"
STOP_SECONDS = 10.0


@contextmanager
def running(
    folder: Path, platform_url: str, workspace_id: str, token: str, **variables: str
) -> Generator[subprocess.Popen[bytes]]:
    """`molecule-runtime`, begun; what it logs is in the folder. It is stopped in the end."""
    folder.mkdir()
    (folder / "config.yaml").write_text(CONFIG)
    environment = live_platform.clean_environment() | {
        "WORKSPACE_ID": workspace_id,
        "PLATFORM_URL": platform_url,
        "WORKSPACE_CONFIG_PATH": str(folder),
        "MOLECULE_WORKSPACE_TOKEN": token,
        **variables,
    }
    command = [str(Path(sys.executable).with_name("molecule-runtime"))]
    with (folder / ".log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        yield process
        assert process.poll() is None, (folder / ".log").read_text()[-2000:]
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
