"""What each distribution declares, what it imports, and what the lock file holds."""

import importlib.metadata
import re
import sys
import tomllib
from itertools import chain
from typing import Any

import grimp
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from scripts import repository

IN_OTHER_ENVIRONMENTS = ("molecule_runtime.runtimes.hermes.plugin",)
"""Modules that are copied into an engine's own environment and use what that one has."""

FOLDERS = dict(zip(repository.DISTRIBUTIONS, repository.PACKAGES, strict=True))


def project(distribution: str) -> dict[str, Any]:
    path = repository.ROOT / "packages" / FOLDERS[distribution] / "pyproject.toml"
    return tomllib.loads(path.read_text())["project"]


def declared(distribution: str) -> list[Requirement]:
    table = project(distribution)
    extras: dict[str, list[str]] = table.get("optional-dependencies", {})
    return [Requirement(text) for text in chain(table["dependencies"], *extras.values())]


def locked() -> dict[str, Version]:
    pins = re.findall(
        r"^([\w.\-]+)==([^\s;\\]+)", (repository.ROOT / "requirements.lock").read_text(), re.MULTILINE
    )
    return {canonicalize_name(name): Version(version) for name, version in pins}


@pytest.fixture(scope="module")
def imports() -> grimp.ImportGraph:
    packages = [package for names in repository.DISTRIBUTIONS.values() for package in names]
    return grimp.build_graph(*packages, include_external_packages=True, cache_dir=None)


def imported_from_outside(imports: grimp.ImportGraph, package: str) -> set[str]:
    """Top-level names outside the standard library that any module of the package imports."""
    modules = {package} | imports.find_descendants(package)
    modules -= {module for module in modules if module.startswith(IN_OTHER_ENVIRONMENTS)}
    targets = {
        target for module in modules for target in imports.find_modules_directly_imported_by(module)
    } - modules
    return {target.split(".")[0] for target in targets} - {package, "__future__"} - sys.stdlib_module_names


def providers(package: str) -> set[str]:
    """The distributions that bring a top-level package."""
    installed = importlib.metadata.packages_distributions().get(package, [])
    ours = [name for name, packages in repository.DISTRIBUTIONS.items() if package in packages]
    return {canonicalize_name(name) for name in [*installed, *ours]}


def test_wire_depends_on_nothing_and_the_sdk_on_requests_and_pyyaml_beside_it() -> None:
    sdk = project("molecule-ai-sdk")
    assert project("molecule-ai-wire")["dependencies"] == []
    assert sdk["dependencies"] == ["molecule-ai-wire==0.1.0", "requests>=2.31", "pyyaml>=6"]
    assert [Requirement(text).name for text in sdk["optional-dependencies"]["crypto"]] == ["cryptography"]


def test_wire_imports_the_standard_library_alone(imports: grimp.ImportGraph) -> None:
    assert imported_from_outside(imports, "molecule_wire") == set()


@pytest.mark.parametrize("distribution", repository.DISTRIBUTIONS)
def test_a_distribution_declares_what_it_imports(distribution: str, imports: grimp.ImportGraph) -> None:
    own = repository.DISTRIBUTIONS[distribution]
    outside = set[str]().union(*(imported_from_outside(imports, package) for package in own)) - set(own)
    allowed = {canonicalize_name(requirement.name) for requirement in declared(distribution)}
    undeclared = {name for name in outside if not allowed & providers(name)}
    assert undeclared == set()


@pytest.mark.parametrize("distribution", repository.DISTRIBUTIONS)
def test_the_lock_file_holds_what_a_distribution_asks_for(distribution: str) -> None:
    pins = locked()
    outside = [
        requirement
        for requirement in declared(distribution)
        if requirement.name not in repository.DISTRIBUTIONS
    ]
    wanting = [
        str(requirement)
        for requirement in outside
        if not requirement.specifier.contains(pins.get(canonicalize_name(requirement.name), Version("0")))
    ]
    assert wanting == []


def test_all_distributions_share_one_version_and_licence() -> None:
    assert len({project(distribution)["version"] for distribution in FOLDERS}) == 1
    assert {project(distribution)["license"] for distribution in FOLDERS} == {"Apache-2.0"}
