"""What may not be in any file of the repository, and which names no file may have."""

import re
from pathlib import Path

from scripts import repository

VAGUE_NAMES = frozenset({"utils", "util", "helpers", "helper", "common", "misc"})
REGISTRY = re.compile(
    r"\b(?:pypi|pythonhosted|npmjs|yarnpkg)\.(?:org|com)\b|//[\w.-]*(?:artifactory|nexus)\b"
)
MACHINE_PATH = re.compile(r"(?<![\w.\-}])/(?:work|root|home|Users)/[\w.]")
RESOLVED = re.compile(r'"resolved": "https?:')
LOCKED_ADDRESS = re.compile(r"https?://|^--(?:extra-)?index-url", re.MULTILINE)
LOCKS = {"requirements.lock": LOCKED_ADDRESS, "package-lock.json": RESOLVED}


def texts() -> list[tuple[Path, str]]:
    found: list[tuple[Path, str]] = []
    for path in repository.files():
        content = (repository.ROOT / path).read_bytes()
        if b"\0" not in content:
            found.append((path, content.decode()))
    return found


def places(pattern: re.Pattern[str], path: Path, text: str) -> list[str]:
    return [f"{path}:{text.count(chr(10), 0, hit.start()) + 1} {hit[0]}" for hit in pattern.finditer(text)]


def test_no_file_names_a_package_registry() -> None:
    assert [place for path, text in texts() for place in places(REGISTRY, path, text)] == []


def test_the_lock_files_hold_no_addresses() -> None:
    locks = {path.name: (path, text) for path, text in texts() if path.name in LOCKS}
    assert sorted(locks) == sorted(LOCKS)
    assert [place for name, pattern in LOCKS.items() for place in places(pattern, *locks[name])] == []


def test_no_file_names_a_path_of_somebodys_machine() -> None:
    assert [place for path, text in texts() for place in places(MACHINE_PATH, path, text)] == []


def test_no_room_is_called_by_a_vague_name() -> None:
    assert [
        path for path in repository.files() if {part.split(".")[0] for part in path.parts} & VAGUE_NAMES
    ] == []


def test_no_link_of_the_repository_leads_out_of_it() -> None:
    links = [path for path in repository.files() if (repository.ROOT / path).is_symlink()]
    assert [link for link in links if repository.ROOT not in (repository.ROOT / link).resolve().parents] == []
