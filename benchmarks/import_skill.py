"""What the skill SDK costs on top of pydantic, on which it stands.

Each import happens in a fresh interpreter with warm bytecode; the two take turns, so that a busy machine
slows both. `import molecule_skill` loads nothing by itself, so the figure counts what every skill file uses:
the agent class, the decorator and both contexts, after pydantic's own models and validators were loaded.
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
from pydantic import BaseModel, Field, TypeAdapter, ValidationError
class Model(BaseModel):
    field: int = Field(default=1, ge=0)
loaded = time.process_time()
import molecule_skill
molecule_skill.A2AAgent, molecule_skill.skill, molecule_skill.RunContext, molecule_skill.LocalRunContext
print(loaded - began, time.process_time() - loaded)
"""


def measure(runs: int = RUNS) -> figure.Figure:
    """The median of the ratios of `runs` turns; one turn before them warms the bytecode."""
    _turn()
    turns = [_turn() for _ in range(runs)]
    ratio = statistics.median(skill / pydantic for pydantic, skill in turns)
    pydantic = statistics.median(pydantic for pydantic, _ in turns)
    limits = f"median of {runs}, CPU, warm bytecode; pydantic {pydantic * 1000:.0f} ms"
    return figure.Figure(
        "molecule_skill on top of pydantic / pydantic", ratio, "x", figure.Ceiling(0.3), limits
    )


def _turn() -> tuple[float, float]:
    command = [sys.executable, "-I", "-c", PROGRAM]
    environ = live_platform.clean_environment()
    done = subprocess.run(command, env=environ, check=True, capture_output=True, text=True)
    pydantic, skill = map(float, done.stdout.split())
    return pydantic, skill


if __name__ == "__main__":
    print(figure.table([measure()]))
