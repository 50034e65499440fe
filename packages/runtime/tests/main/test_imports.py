"""What a workspace process loads: an engine that needs no framework does not pay for one."""

import subprocess
import sys

HEAVY = {"a2a", "aiohttp", "google", "langchain", "opentelemetry", "pydantic", "pydantic_ai", "sqlalchemy"}


def test_the_process_and_echo_load_no_framework() -> None:
    program = (
        "import sys, molecule_runtime.main.process, molecule_runtime.executor_kit\n"
        "import molecule_runtime.runtimes.echo\n"
        f"print(sorted({HEAVY!r} & {{name.partition('.')[0] for name in sys.modules}}))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_the_wedge_has_one_state_for_both_of_its_paths() -> None:
    from molecule_runtime import runtime_wedge
    from molecule_runtime.kit.state import engine_health

    assert runtime_wedge is engine_health
