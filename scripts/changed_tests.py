"""Run the tests that a change touches, nearest first, in under a minute.

    python -m scripts.changed_tests [--base REV] [--seconds N] [--list]

A test is near if it has the name of a changed file, or imports it over few others. What is further away
than the seconds allow is left to `make test`, and counted. Without `--base` the change is what is not
committed yet, or else the last commit.
"""

import argparse
import ast
import heapq
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from scripts import repository

SECONDS = 35
# A fixture is shared by many tests, so what only a conftest imports says little about one of them.
CONFTEST_STEPS = 3
CANVAS = "canvas/"
PAGES_TESTS = "tests/architecture/"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--base", help="the commit to compare with")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="when to stop (default %(default)s)")
    parser.add_argument("--list", action="store_true", help="print the files of tests and run nothing")
    asked = parser.parse_args()
    changed = changed_files(asked.base)
    near = nearest(changed, {path.as_posix(): (repository.ROOT / path) for path in repository.files()})
    print(f"changed: {', '.join(changed) or 'nothing'}")
    print(
        f"touched: {len(near)} files of tests, nearest first: {', '.join(near[:5])} …"
        if near
        else "touched: none"
    )
    if asked.list:
        print("\n".join(near))
        return 0
    return max(_run_canvas(changed), _run_python(near, asked.seconds))


def changed_files(base: str | None) -> list[str]:
    """The files that differ from the base and still exist; relative to the root."""
    found = _git("diff", "--name-only", base or "HEAD") + _git("ls-files", "--others", "--exclude-standard")
    if not found and base is None:
        found = _git("diff", "--name-only", "HEAD~1", "HEAD")
    return sorted(name for name in set(found) if (repository.ROOT / name).is_file())


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(
        ["git", *arguments], cwd=repository.ROOT, check=True, capture_output=True, text=True
    )
    return done.stdout.splitlines()


def _run_canvas(changed: Iterable[str]) -> int:
    sources = [name.removeprefix(CANVAS) for name in changed if name.startswith(CANVAS + "src/")]
    if not sources:
        return 0
    return subprocess.run(
        ["npx", "vitest", "related", "--run", *sources], cwd=repository.ROOT / CANVAS, check=False
    ).returncode


def _run_python(near: list[str], seconds: int) -> int:
    if not near:
        return 0
    options = ["-m", "not long", "-q", "-n", "2", "--dist", "load", "--maxschedchunk", "4"]
    plugin = ["-p", "scripts.deadline", "--stop-after", str(seconds)]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, *plugin, *near], cwd=repository.ROOT, check=False
    ).returncode


# Which tests are near


def nearest(changed: Iterable[str], files: Mapping[str, Path]) -> list[str]:
    """The files of tests that the changed files reach, nearest first."""
    users = _users(files)
    steps: dict[str, int] = {}
    waiting = [(0, name) for name in changed]
    waiting += [(0, test) for name in changed for test in _namesakes(name, files)]
    heapq.heapify(waiting)
    while waiting:
        so_far, name = heapq.heappop(waiting)
        if name in steps:
            continue
        steps[name] = so_far
        cost = CONFTEST_STEPS if name.endswith("conftest.py") else 1
        for user in users[name]:
            heapq.heappush(waiting, (so_far + cost, user))
    return sorted((name for name in steps if is_test(name)), key=lambda name: (steps[name], name))


def is_test(name: str) -> bool:
    """Whether pytest finds tests in the file."""
    return Path(name).name.startswith("test_") and name.endswith(".py")


def _namesakes(name: str, files: Mapping[str, Path]) -> Iterator[str]:
    """The tests that are called after a Python file, that name another file, or that are about all pages."""
    changed = Path(name)
    for test in filter(is_test, files):
        noun = Path(test).stem.removeprefix("test_")
        if changed.suffix == ".py":
            named = changed.stem in (noun, noun.removesuffix("s")) or changed.parent.name == noun
        elif changed.suffix == ".md":
            named = test.startswith(PAGES_TESTS)
        else:
            named = changed.name in files[test].read_text()
        if named:
            yield test


def _users(files: Mapping[str, Path]) -> dict[str, set[str]]:
    """Who imports a file: by the import graph, and each test the conftests above it."""
    modules = {_module(name): name for name in files if name.endswith(".py")}
    users: dict[str, set[str]] = defaultdict(set)
    for name in modules.values():
        for imported in _imports(ast.parse(files[name].read_text())):
            # `from a.b import c` means the module a.b.c, or a name in a.b.
            found = modules.get(imported) or modules.get(imported.rpartition(".")[0])
            if found:
                users[found].add(name)
        if is_test(name):
            for folder in Path(name).parents:
                above = (folder / "conftest.py").as_posix()
                if above in files:
                    users[above].add(name)
    return users


def _module(name: str) -> str:
    path = Path(name).with_suffix("")
    parts = path.parts[path.parts.index("src") + 1 :] if "src" in path.parts else path.parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(tree: ast.Module) -> Iterator[str]:
    """The modules and names that a file imports; what only types need does not run."""
    for node in tree.body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        for inner in ast.walk(node):
            if isinstance(inner, ast.Import):
                yield from (alias.name for alias in inner.names)
            elif isinstance(inner, ast.ImportFrom) and inner.module:
                yield from (f"{inner.module}.{alias.name}" for alias in inner.names)


if __name__ == "__main__":
    sys.exit(main())
