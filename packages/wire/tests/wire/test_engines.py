"""The table of engines, the folder that they are in, and the reading of `engine.json`."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from molecule_wire import engines, registry
from tests.rows import each_row

SAID: dict[str, Any] = {
    "engine": "hermes",
    "version": "0.19.0",
    "executable": "/somewhere/bin/hermes",
    "installed_at": "2026-01-31T10:15:30.123Z",
}


def test_every_engine_is_pinned_and_belongs_to_a_runtime() -> None:
    for name, engine in engines.ENGINES.items():
        assert name == engine.name
        assert name in registry.RUNTIMES
        assert engine.version.replace(".", "").isdigit()
        assert engine.python[0] < engine.python[1]
    assert engines.ENGINES["hermes"].requirement == "hermes-agent[mcp,messaging]==0.19.0"


def test_an_engine_without_extras_has_no_brackets() -> None:
    assert engines.Engine("a", "a-dist", (), "1.0", "a", ((3, 11), (3, 14))).requirement == "a-dist==1.0"


@each_row(
    ("env", "folder"),
    [
        ({"HOME": "/h"}, "/h/.molecule/engines"),
        ({"HOME": "/h", "MOLECULE_ENGINES_DIR": " "}, "/h/.molecule/engines"),
        ({"HOME": "/h", "MOLECULE_ENGINES_DIR": "~/here"}, "/h/here"),
        ({"HOME": "/h", "MOLECULE_ENGINES_DIR": "/big/../disk/"}, "/disk"),
        ({"MOLECULE_ENGINES_DIR": "relative"}, f"{os.getcwd()}/relative"),
        ({}, os.path.expanduser("~/.molecule/engines")),
    ],
)
def test_the_folder_of_engines_is_absolute(env: dict[str, str], folder: str) -> None:
    assert str(engines.engines_dir(env)) == folder


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "hermes").mkdir()
    return {"MOLECULE_ENGINES_DIR": str(tmp_path)}


def test_what_is_written_is_read(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "hermes" / "engine.json").write_text(json.dumps(SAID | {"later": 1}))
    found = engines.installed("hermes", env)
    assert found is not None
    assert found.executable == Path("/somewhere/bin/hermes")
    assert found.as_json() == SAID


@each_row(
    "text",
    [
        None,
        "",
        "{",
        "[]",
        "null",
        "{}",
        "\ud800".encode("utf-8", "surrogatepass"),
        json.dumps(SAID | {"engine": "another"}),
        json.dumps(SAID | {"version": 19}),
        json.dumps(SAID | {"executable": "bin/hermes"}),
    ],
)
def test_a_file_that_is_missing_or_says_something_else_is_no_engine(
    env: dict[str, str], tmp_path: Path, text: str | bytes | None
) -> None:
    if text is not None:
        content = text if isinstance(text, bytes) else text.encode()
        (tmp_path / "hermes" / "engine.json").write_bytes(content)
    assert engines.installed("hermes", env) is None
