"""The public surface and the price of importing it."""

import subprocess
import sys

import molecule_wire

MODULES = (
    "molecule_wire, molecule_wire.errors, molecule_wire.ids, molecule_wire.times, molecule_wire.a2a.text"
)


def test_exported_names_are_what_the_package_holds() -> None:
    assert set(molecule_wire.__all__) == {"JSON", "JSONObject", "__version__"}
    assert all(hasattr(molecule_wire, name) for name in molecule_wire.__all__)
    assert molecule_wire.__version__ == "0.1.0"


def test_importing_the_shapes_loads_nothing_heavy() -> None:
    program = f"import sys, {MODULES}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"asyncio", "dataclasses", "http", "json", "requests", "uuid", "yaml"} & set(
        done.stdout.split()
    )


def test_the_json_types_work_at_run_time_too() -> None:
    assert molecule_wire.JSON | bytes
