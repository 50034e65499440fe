"""What `make test-changed` runs: tests named like a changed file, then those that import it."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from scripts import changed_tests, repository
from tests.rows import each_row

FILES = {
    "packages/p/src/pkg/__init__.py": "",
    "packages/p/src/pkg/leaf.py": "",
    "packages/p/src/pkg/middle.py": "from pkg import leaf",
    "packages/p/src/pkg/top.py": "from pkg.middle import something",
    "packages/p/src/pkg/typed.py": "if TYPE_CHECKING:\n    from pkg import leaf",
    "packages/p/tests/conftest.py": "from pkg import leaf",
    "packages/p/tests/test_leaf.py": "",
    "packages/p/tests/test_direct.py": "import pkg.leaf",
    "packages/p/tests/test_far.py": "from pkg import top",
    "packages/p/tests/test_fixtures.py": "",
    "other/test_typed.py": "import pkg.typed",
    "other/test_words.py": "read('contracts/words.json')",
    "contracts/words.json": "{}",
    "docs/page.md": "",
    "tests/architecture/test_links.py": "",
}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    return {name: tmp_path / name for name in FILES}


@each_row(
    ("changed", "near"),
    [
        ("packages/p/src/pkg/leaf.py", ["leaf", "direct", "far", "fixtures"]),
        ("packages/p/src/pkg/top.py", ["far"]),
        ("packages/p/src/pkg/typed.py", ["typed"]),
        ("packages/p/tests/test_far.py", ["far"]),
        ("contracts/words.json", ["words"]),
        ("docs/page.md", ["links"]),
    ],
)
def test_the_nearest_tests_come_first_and_the_rest_is_left_alone(
    files: dict[str, Path], changed: str, near: list[str]
) -> None:
    found = changed_tests.nearest([changed], files)
    assert [Path(name).stem.removeprefix("test_") for name in found] == near


def test_a_table_is_one_test_that_runs_every_row_and_names_each_that_fails() -> None:
    seen: list[int] = []

    @each_row(("number", "name"), [(1, "one"), (2, "two"), (3, "three")])
    def check(number: int, name: str) -> None:
        seen.append(number)
        assert name == "two"

    with pytest.raises(pytest.fail.Exception, match="2 of 3 rows fail:") as failed:
        cast("Callable[[], None]", check)()
    assert seen == [1, 2, 3]
    assert "name=one" in str(failed.value)
    assert "name=three" in str(failed.value)
    assert "name=two" not in str(failed.value)


@pytest.mark.parametrize(
    ("seconds", "passed", "left"), [("60", "2 passed", ""), ("0", "", "2 tests further away")]
)
def test_after_the_deadline_no_test_begins_and_those_left_are_counted(
    tmp_path: Path, seconds: str, passed: str, left: str
) -> None:
    (tmp_path / "test_two.py").write_text("def test_a(): pass\ndef test_b(): pass\n")
    command = [sys.executable, "-m", "pytest", "-p", "scripts.deadline", "--stop-after", seconds, "-q"]
    command += ["-c", "/dev/null", "--rootdir", str(tmp_path), str(tmp_path)]
    done = subprocess.run(command, cwd=repository.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert passed in done.stdout
    assert left in done.stdout
