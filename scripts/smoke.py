"""Builds the wheels and uses each one alone in a clean environment.  usage: python -m scripts.smoke UV"""

import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from scripts import live_platform, repository

BRINGS = {
    "molecule-ai-wire": {"molecule-ai-wire"},
    "molecule-ai-sdk": {
        "molecule-ai-sdk", "molecule-ai-wire", "requests", "pyyaml", "certifi", "charset-normalizer", "idna",
        "urllib3",
    },
    "molecule-ai-skills": {
        "molecule-ai-skills", "molecule-ai-wire", "annotated-types", "pydantic", "pydantic-core", "pyyaml",
        "typing-extensions", "typing-inspection",
    },
}  # fmt: skip
CALLS: dict[str, tuple[tuple[str, ...], ...]] = {
    "molecule-ai-wire": (),
    "molecule-ai-sdk": (
        ("python", "-m", "molecule_agent", "--help"),
        ("python", "-m", "molecule_plugin", "--help"),
    ),
    "molecule-sdk": (("python", "-m", "molecule_agent", "--help"),),
    "molecule-ai-skills": (("molecule-skill", "--help"),),
    "molecule-ai-workspace-runtime": (("molecule-runtime", "--help"), ("molecule-runtime", "runtimes")),
    "molecule-ai-platform": (("molecule", "version"),),
}

IMPORT_ALL = """
import importlib, importlib.metadata, pkgutil, sys
distribution, *packages = sys.argv[1:]
for name in packages:
    package = importlib.import_module(name)
    assert package.__version__ == importlib.metadata.version(distribution), name
    for module in pkgutil.walk_packages(package.__path__, name + "."):
        # Migrations are read by their tool; the plugin of hermes lives in hermes' environment.
        elsewhere = ".migrations" in module.name or ".hermes.plugin." in module.name + "."
        if not module.name.endswith(".__main__") and not elsewhere:
            importlib.import_module(module.name)
"""


class Extra(NamedTuple):
    """An extra, the import packages that need it, and modules of these that do without it."""

    name: str
    packages: tuple[str, ...]
    core: tuple[str, ...] = ()


EXTRAS = {
    "molecule-ai-wire": Extra("server", ("molecule_a2a",)),
    "molecule-ai-skills": Extra(
        "serve",
        ("molecule_skill",),
        (
            "molecule_skill",
            "molecule_skill.a2a_client",
            "molecule_skill.agent",
            "molecule_skill.context",
            "molecule_skill.discovery",
            "molecule_skill.hosted",
            "molecule_skill.sandbox",
            "molecule_skill.store",
            "molecule_skill.testing",
            "molecule_skill.workspace",
        ),
    ),
}


class SmokeFailed(Exception):
    """A wheel does not hold or bring what it should."""


def main(uv: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheels = build_wheels(folder / "dist")
        check_platform_wheel(wheels["molecule-ai-platform"])
        constraints = write_constraints(folder)
        for distribution, wheel in wheels.items():
            environment = install(uv, str(wheel), folder / distribution, constraints)
            check_brought(uv, distribution, environment)
            extra = EXTRAS.get(distribution)
            if extra is not None:
                check_import(distribution, environment, without=extra.packages)
                run(
                    [
                        str(environment / "bin" / "python"),
                        "-I",
                        "-c",
                        "".join(f"import {name}\n" for name in extra.core),
                    ]
                )
                environment = install(
                    uv, f"{wheel}[{extra.name}]", folder / f"{distribution}-all", constraints
                )
            check_import(distribution, environment)
            for call in CALLS[distribution]:
                run([str(environment / "bin" / call[0]), *call[1:]])
            print(f"{distribution}: installs alone, imports, runs")


def build_wheels(dist: Path) -> dict[str, Path]:
    """Distribution name → its wheel, built without the network by the locked build backend."""
    for package in repository.PACKAGES:
        source = repository.ROOT / "packages" / package
        run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(dist), str(source)])
    wheels = {path.name.split("-")[0].replace("_", "-"): path for path in dist.glob("*.whl")}
    if wheels.keys() != repository.DISTRIBUTIONS.keys():
        raise SmokeFailed(f"Built {sorted(wheels)} instead of {sorted(repository.DISTRIBUTIONS)}.")
    return {name: wheels[name] for name in repository.DISTRIBUTIONS}


def check_platform_wheel(wheel: Path) -> None:
    """The canvas is in the wheel, so that an installed platform has its page."""
    with zipfile.ZipFile(wheel) as archive:
        if "molecule_platform/static/index.html" not in archive.namelist():
            raise SmokeFailed(f"{wheel.name} lacks the canvas: build it, and list static/ as an artifact.")


def write_constraints(folder: Path) -> Path:
    """The versions of the lock file without hashes: our own wheels have none to compare."""
    pins = re.findall(r"^\S+==[^\\\n]+", (repository.ROOT / "requirements.lock").read_text(), re.MULTILINE)
    path = folder / "constraints.txt"
    path.write_text("\n".join(pin.strip() for pin in pins) + "\n")
    return path


def install(uv: Path, wheel: str, environment: Path, constraints: Path) -> Path:
    run([str(uv), "venv", "--quiet", "--python", sys.executable, str(environment)])
    target = ["--python", str(environment / "bin" / "python")]
    source = ["--find-links", str(Path(wheel).parent), "--constraint", str(constraints)]
    run([str(uv), "pip", "install", "--quiet", *target, *source, wheel])
    return environment


def check_import(distribution: str, environment: Path, without: tuple[str, ...] = ()) -> None:
    """Every module imports with nothing but what the wheel brings, and the packages know their version."""
    packages = [name for name in repository.DISTRIBUTIONS[distribution] if name not in without]
    run([str(environment / "bin" / "python"), "-I", "-c", IMPORT_ALL, distribution, *packages])


def check_brought(uv: Path, distribution: str, environment: Path) -> None:
    """Wire brings nothing, the SDK requests, pyyaml and what they bring; nobody brings the test tools."""
    listed = run(
        [str(uv), "pip", "list", "--format", "freeze", "--python", str(environment / "bin" / "python")]
    )
    brought = {line.split("==")[0].lower() for line in listed.splitlines()}
    if brought != BRINGS.get(distribution, brought):
        wanted = sorted(BRINGS[distribution])
        raise SmokeFailed(f"{distribution} brings {sorted(brought)} instead of {wanted}.")
    if "pytest" in brought:
        raise SmokeFailed(f"{distribution} brings pytest.")


def run(command: Sequence[str]) -> str:
    """What the command printed; a failure is told with its output."""
    done = subprocess.run(
        command,
        env=live_platform.clean_environment(),
        capture_output=True,
        text=True,
        cwd=tempfile.gettempdir(),
    )
    if done.returncode:
        raise SmokeFailed(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]).absolute())
    except SmokeFailed as failure:
        sys.exit(f"smoke: {failure}")
