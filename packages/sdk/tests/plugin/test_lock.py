"""`plugins.lock`: what is written is read back, and what it pins is what gets installed."""

import dataclasses
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_plugin.errors import LockMismatchError
from molecule_plugin.lock import LockEntry, check, describe, lock_content, parse_lock, read_lock, write_lock

ENTRY = LockEntry(
    version="1.0.0",
    source="github://acme/demo",
    resolved="github://acme/demo#" + "a" * 40,
    content_sha256="c" * 64,
    manifest_sha256="d" * 64,
    archive_sha256="e" * 64,
    signed_by=("21fe31dfa154a261",),
    installed_at="2026-01-01T00:00:00.000Z",
)


def test_a_lock_has_the_form_of_the_contract(tmp_path: Path) -> None:
    file = tmp_path / "plugins.lock"
    write_lock(file, {"zeta": ENTRY, "demo": ENTRY})
    text = file.read_text()
    assert text == json.dumps(json.loads(text), indent=2, sort_keys=True) + "\n"
    shape = json.loads(text)
    assert shape["lock_version"] == 1
    assert shape["plugins"]["demo"] == {
        "version": "1.0.0",
        "source": "github://acme/demo",
        "resolved": "github://acme/demo#" + "a" * 40,
        "content_sha256": "c" * 64,
        "manifest_sha256": "d" * 64,
        "archive_sha256": "e" * 64,
        "signed_by": ["21fe31dfa154a261"],
        "installed_at": "2026-01-01T00:00:00.000Z",
    }
    assert read_lock(file) == {"demo": ENTRY, "zeta": ENTRY}
    assert [path.name for path in tmp_path.iterdir()] == ["plugins.lock"]


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_a_new_lock_is_private_and_an_old_one_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "plugins.lock"
    write_lock(file, {})
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o644)
    write_lock(file, {"demo": ENTRY})
    assert file.stat().st_mode & 0o777 == 0o644


TEXTS = st.text(max_size=20)
ENTRIES = st.builds(
    LockEntry, TEXTS, TEXTS, TEXTS, TEXTS, TEXTS, TEXTS, st.lists(TEXTS, max_size=3).map(tuple), TEXTS
)


@given(st.dictionaries(st.from_regex(r"[a-z0-9][a-z0-9_-]{0,9}", fullmatch=True), ENTRIES, max_size=3))
def test_what_is_written_is_read_back(entries: dict[str, LockEntry]) -> None:
    assert parse_lock(lock_content(entries)) == entries


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"lock_version": 2, "plugins": {}}',
        '{"lock_version": 1, "plugins": []}',
        '{"lock_version": 1, "plugins": {"demo": []}}',
        '{"lock_version": 1, "plugins": {"../demo": {}}}',
        '{"lock_version": 1, "plugins": {"demo": {"version": 1}}}',
        '{"lock_version": 1, "plugins": {"demo": {"signed_by": "k"}}}',
        '{"lock_version": 1, "plugins": {"demo": {"signed_by": [1]}}}',
    ],
)
def test_a_damaged_lock_is_refused_and_none_is_empty(tmp_path: Path, text: str) -> None:
    assert read_lock(tmp_path / "plugins.lock") == {}
    (tmp_path / "plugins.lock").write_text(text)
    with pytest.raises(LockMismatchError, match=r"plugins\.lock"):
        read_lock(tmp_path / "plugins.lock")


CHANGED = [
    {"version": "1.0.1"},
    {"resolved": "github://acme/demo#" + "b" * 40},
    {"content_sha256": "f" * 64},
    {"manifest_sha256": "f" * 64},
]


@pytest.mark.parametrize("change", CHANGED, ids=lambda change: next(iter(change)))
def test_what_differs_from_its_entry_is_refused_unless_upgraded(change: dict[str, str]) -> None:
    found = dataclasses.replace(ENTRY, **change)
    [(member, value)] = change.items()
    with pytest.raises(LockMismatchError, match=f"pins {member}") as caught:
        check("demo", ENTRY, found)
    assert (caught.value.expected, caught.value.actual) == (getattr(ENTRY, member), value)
    assert check("demo", ENTRY, found, upgrade=True)
    for upgrade in (False, True):
        with pytest.raises(LockMismatchError):
            check("demo", ENTRY, found, upgrade=upgrade, frozen=True)


def test_times_signers_and_the_bytes_of_the_archive_take_no_part() -> None:
    found = dataclasses.replace(ENTRY, installed_at="later", signed_by=(), archive_sha256="f" * 64)
    assert check("demo", ENTRY, found)
    assert check("demo", found, ENTRY)
    assert not check("demo", ENTRY, found, frozen=True)


def test_an_entry_of_another_source_does_not_bind_unless_frozen() -> None:
    found = dataclasses.replace(ENTRY, source="local://demo", resolved="local://demo", version="2")
    assert check("demo", ENTRY, found)
    with pytest.raises(LockMismatchError, match="pins source"):
        check("demo", ENTRY, found, frozen=True)


def test_what_is_not_locked_is_written_unless_frozen() -> None:
    assert check("demo", None, ENTRY)
    with pytest.raises(LockMismatchError, match="only what is locked"):
        check("demo", None, ENTRY, frozen=True)


def test_an_entry_describes_a_plugin_on_disk_and_sees_a_changed_manifest(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"hello\n")
    (tmp_path / "plugin.yaml").write_bytes(b"name: demo\nversion: 1.0.0\n")
    before = describe(tmp_path, version="1.0.0", source="local://demo", resolved="local://demo")
    assert before.content_sha256 == "e869ce07cf8aad51109fad329f5f6a0c367d579b326f70442d260dadaa185641"
    assert before.manifest_sha256 == "e725ef49d4fed5bbaa11e1f7597eb15ea02c62db608b6956d22aabe752fd3a61"
    (tmp_path / "plugin.yaml").write_bytes(b"name: demo\nversion: 1.0.0\nhooks: [evil]\n")
    after = describe(tmp_path, version="1.0.0", source="local://demo", resolved="local://demo")
    assert after.content_sha256 == before.content_sha256
    with pytest.raises(LockMismatchError, match="pins manifest_sha256"):
        check("demo", before, after)
