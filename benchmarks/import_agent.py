"""What `import molecule_agent` costs against `import requests`, on which it stands.

Each import happens in a fresh interpreter with warm bytecode; the two take turns, so that a busy machine
slows both. The figure is a ratio of CPU times.
"""

import statistics
import subprocess
import sys

from benchmarks import figure
from scripts import live_platform

RUNS = 15
PROGRAM = """
import time
began = time.process_time()
import {module}
print(time.process_time() - began)
"""


def measure() -> figure.Figure:
    """The median of the ratios of `RUNS` turns; one turn before them warms the bytecode."""
    _turn()
    turns = [_turn() for _ in range(RUNS)]
    ratio = statistics.median(agent / requests for requests, agent in turns)
    requests = statistics.median(requests for requests, _ in turns)
    limits = f"median of {RUNS}, CPU, warm bytecode; requests {requests * 1000:.0f} ms"
    return figure.Figure("import molecule_agent / import requests", ratio, "x", figure.Ceiling(1.3), limits)


def _turn() -> tuple[float, float]:
    return _cost("requests"), _cost("molecule_agent")


def _cost(module: str) -> float:
    command = [sys.executable, "-I", "-c", PROGRAM.format(module=module)]
    environ = live_platform.clean_environment()
    done = subprocess.run(command, env=environ, check=True, capture_output=True, text=True)
    return float(done.stdout)


if __name__ == "__main__":
    print(figure.table([measure()]))
