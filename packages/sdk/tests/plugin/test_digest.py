"""The digest of a plugin's content, its older forms, and the reading of trees that change meanwhile."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from molecule_plugin import digest, file_tree
from molecule_plugin.errors import (
    PluginIntegrityError,
    PluginTooLargeError,
    SHA256MismatchError,
    UnsafeArchiveError,
)
from molecule_plugin.limits import Limits

EMPTY = "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"
HELLO = "e869ce07cf8aad51109fad329f5f6a0c367d579b326f70442d260dadaa185641"
LEGACY_HELLO = "aed49f7730ca0736fe1a021375d1ca9b509a4e72910b422578df8b4b1930aeca"
MANIFEST = "name: demo\nversion: 1.0.0\n"
MANIFEST_SHA256 = "e725ef49d4fed5bbaa11e1f7597eb15ea02c62db608b6956d22aabe752fd3a61"
KIND = {"rules/r.md": "- be kind", "skills/s/SKILL.md": "# s\n"}

needs_posix = pytest.mark.skipif(os.name != "posix", reason="links and pipes of POSIX")
needs_any_name = pytest.mark.skipif(sys.platform != "linux", reason="other systems hold only UTF-8 names")


def written(root: Path, files: Mapping[str, str]) -> Path:
    for path, content in files.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode())
    return root


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, EMPTY),
        ({"plugin.yaml": "name: x\n"}, EMPTY),
        ({"a.txt": "hello\n"}, HELLO),
        ({"a.txt": "hello\n", "plugin.yaml": "name: x\n", "plugin.sig": "{}"}, HELLO),
        (KIND, "32fbdc87611ffda10ffc3e44cd1e2d4aab351b5eb256ad3fc0f3e52d4b1a8fc6"),
        ({"\u00e9.txt": "x"}, "4222ec542a60bcb2cff61a8c72e0e11634f0eebdc3f1616c6b9c6f9802a21f4d"),
        ({"sub/plugin.yaml": "q"}, "d72cb6f81931e349a103b4c82cbc28d14dc8723349c0ae2199476d17f6ad31f6"),
        (
            {"B.txt": "1", "a.txt": "2", "a/z": "3"},
            "95286c026e23a99205be4363df6e028b8c86c64ae9464fc16fbd6b21d82fd563",
        ),
        (
            {"\U0001f600.txt": "x", "\uff5e.txt": "y"},
            "49c3db135417b7e997598cc0defa5e657438eb65ca6c6bad6a5eacb5ac0d5f55",
        ),
        ({"empty": ""}, "dc22d009724a09a53c6740efc264493f4577bb185b67eb2d1ac7b5a2d1a8e4df"),
    ],
)
def test_every_vector_of_the_contract_matches(tmp_path: Path, files: dict[str, str], expected: str) -> None:
    assert digest.compute_plugin_sha256(written(tmp_path, files)) == expected
    assert digest.compute_plugin_sha256(str(tmp_path)) == expected


def test_hidden_files_count_but_modes_times_and_empty_directories_do_not(tmp_path: Path) -> None:
    file = written(tmp_path, {"a.txt": "hello\n"}) / "a.txt"
    file.chmod(0o755)
    os.utime(file, (1, 1))
    (tmp_path / "assets").mkdir()
    assert digest.compute_plugin_sha256(tmp_path) == HELLO
    (tmp_path / ".hidden").write_text("")
    assert digest.compute_plugin_sha256(tmp_path) != HELLO


def test_a_digest_is_verified_and_upper_case_is_another_one(tmp_path: Path) -> None:
    written(tmp_path, {"a.txt": "hello\n"})
    assert digest.verify_plugin_sha256(tmp_path, HELLO)
    assert not digest.verify_plugin_sha256(tmp_path, EMPTY)
    assert not digest.verify_plugin_sha256(tmp_path, HELLO.upper())


@pytest.mark.parametrize("expected", ["", "abc", HELLO + "0", "g" * 64, f"{HELLO}\n", None])
def test_what_cannot_be_a_digest_is_a_mistake_of_the_caller(tmp_path: Path, expected: str) -> None:
    with pytest.raises(ValueError, match="sha256 must be a 64-character lowercase hex string"):
        digest.verify_plugin_sha256(tmp_path, expected)


@needs_posix
@pytest.mark.parametrize("kind", ["file link", "directory link", "dangling link", "pipe", "root link"])
def test_a_link_or_special_file_is_refused_by_name_and_never_followed(tmp_path: Path, kind: str) -> None:
    secret = written(tmp_path / "elsewhere", {"secret": "s"})
    root = written(tmp_path / "plugin", {"a.txt": "hello\n"})
    if kind == "pipe":
        os.mkfifo(root / "odd")
    elif kind == "root link":
        root = tmp_path / "odd"
        root.symlink_to(tmp_path / "plugin")
    else:
        targets = {"file link": secret / "secret", "directory link": secret, "dangling link": tmp_path / "no"}
        (root / "odd").symlink_to(targets[kind])
    with pytest.raises(UnsafeArchiveError, match="odd"):
        digest.compute_plugin_sha256(root)


@needs_any_name
def test_a_path_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    with open(os.fsencode(tmp_path) + b"/\xff.txt", "wb"):
        pass
    with pytest.raises(UnsafeArchiveError, match="not UTF-8"):
        digest.compute_plugin_sha256(tmp_path)


@needs_posix
def test_a_link_that_appears_after_the_listing_leads_nowhere(tmp_path: Path) -> None:
    outside = written(tmp_path / "outside", {"a.txt": "secret"})
    root = written(tmp_path / "plugin", {"sub/a.txt": "x"})
    with file_tree.Tree(root) as tree:
        (root / "sub").rename(tmp_path / "gone")
        (root / "sub").symlink_to(outside)
        with pytest.raises(UnsafeArchiveError, match="without following a link"):
            tree.open("sub/a.txt")
        (root / "b.txt").symlink_to(outside / "a.txt")
        with pytest.raises(UnsafeArchiveError, match="without following a link"):
            tree.open("b.txt")
        os.mkfifo(root / "pipe")
        with pytest.raises(UnsafeArchiveError, match="not a regular file"):
            tree.open("pipe")


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        (Limits(entries=2), "more than 2 entries"),
        (Limits(depth=1), "deeper than 1 levels"),
        (Limits(path_bytes=6), "longer than 6 bytes"),
    ],
)
def test_a_tree_beyond_a_limit_is_refused(tmp_path: Path, limits: Limits, says: str) -> None:
    written(tmp_path, {"a.txt": "hello\n", "sub/b.txt": "x"})
    assert [file.path for file in file_tree.check_tree(tmp_path)] == ["a.txt", "sub/b.txt"]
    with pytest.raises(UnsafeArchiveError, match=says):
        file_tree.check_tree(tmp_path, limits)


@pytest.mark.parametrize("limits", [Limits(file_bytes=5), Limits(tree_bytes=5)])
def test_a_tree_with_too_many_bytes_says_how_many_it_may_have(tmp_path: Path, limits: Limits) -> None:
    with pytest.raises(PluginTooLargeError) as caught:
        file_tree.check_tree(written(tmp_path, {"a.txt": "hello\n"}), limits)
    assert caught.value.limit_bytes == 5


def test_the_older_forms_match_their_vectors(tmp_path: Path) -> None:
    one = written(tmp_path / "one", {"a.txt": "hello\n", "manifest.json": "{}"})
    assert digest.legacy_tree_sha256(one) == LEGACY_HELLO
    two = written(tmp_path / "two", KIND)
    assert (
        digest.legacy_tree_sha256(two) == "96b26c299e232b05faf84591f44642024de6dadccb6f91fd5cc8cb6cea660e55"
    )
    assert digest.manifest_sha256(written(tmp_path / "three", {"plugin.yaml": MANIFEST})) == MANIFEST_SHA256
    assert digest.manifest_sha256(two) == ""


def test_a_caller_may_give_any_of_four_digests_and_is_told_which(tmp_path: Path) -> None:
    written(tmp_path, {"a.txt": "hello\n", "plugin.yaml": MANIFEST})
    archive = "1" * 64
    tree = digest.legacy_tree_sha256(tmp_path)
    digests = [HELLO, archive, tree, tree.upper(), MANIFEST_SHA256, MANIFEST_SHA256.upper(), EMPTY]
    assert [digest.matched_form(tmp_path, archive, one) for one in digests] == [
        "content",
        "archive",
        "legacy-tree",
        "legacy-tree",
        "legacy-manifest",
        None,
        None,
    ]
    with pytest.raises(ValueError, match="64-character"):
        digest.matched_form(tmp_path, archive, "short")


@pytest.mark.parametrize("text", ["{}", '{"name": "x"}', "[]", "not json", '{"sha256": null}'])
def test_a_manifest_json_that_declares_no_digest_is_ignored(tmp_path: Path, text: str) -> None:
    digest.check_legacy_manifest(tmp_path)
    digest.check_legacy_manifest(written(tmp_path, {"a.txt": "hello\n", "manifest.json": text}))


def test_a_manifest_json_is_held_to_the_digest_it_declares(tmp_path: Path) -> None:
    for declared in (LEGACY_HELLO, LEGACY_HELLO.upper()):
        files = {"a.txt": "hello\n", "manifest.json": json.dumps({"sha256": declared})}
        digest.check_legacy_manifest(written(tmp_path, files))
    written(tmp_path, {"manifest.json": '{"sha256": 5}'})
    with pytest.raises(PluginIntegrityError, match="sha256 field must be a string"):
        digest.check_legacy_manifest(tmp_path)
    written(tmp_path, {"manifest.json": json.dumps({"sha256": EMPTY})})
    with pytest.raises(SHA256MismatchError) as caught:
        digest.check_legacy_manifest(tmp_path)
    assert (caught.value.expected, caught.value.actual) == (EMPTY, LEGACY_HELLO)


def test_a_signature_does_not_change_the_digest_of_older_days(tmp_path: Path) -> None:
    """It is made last, over a content that holds `manifest.json`, and no archive holds it."""
    files = {"a.txt": "hello\n", "manifest.json": json.dumps({"sha256": LEGACY_HELLO}), "plugin.sig": "{}"}
    digest.check_legacy_manifest(written(tmp_path, files))


def test_the_names_of_the_first_generation_walk_and_hash(tmp_path: Path) -> None:
    written(tmp_path, {"b/c": "1", "a": "2"})
    assert digest.walk_files(tmp_path) == ["a", "b/c"]
    assert digest.sha256_file(tmp_path / "b" / "c").startswith("6b86b273ff34fce1")
