"""How long `molecule up` takes on an empty data directory until /health first answers 200."""

import statistics
import tempfile
from pathlib import Path

from benchmarks import figure
from scripts import live_platform

RUNS = 3


def measure() -> figure.Figure:
    """The median over `RUNS` starts; one start before them warms the bytecode."""
    _start()
    seconds = statistics.median(_start() for _ in range(RUNS))
    limits = f"median of {RUNS}, SQLite, no demo, warm bytecode"
    return figure.Figure("start to first 200 on /health", seconds, "s", figure.Ceiling(2.0), limits)


def _start() -> float:
    with (
        tempfile.TemporaryDirectory() as folder,
        live_platform.running(Path(folder) / "data", "--no-demo") as platform,
    ):
        return platform.start_seconds


if __name__ == "__main__":
    print(figure.table([measure()]))
