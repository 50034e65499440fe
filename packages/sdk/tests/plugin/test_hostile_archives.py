"""Hostile archives: each is refused in words, nothing of it is left, and the old version stays."""

import gzip
import io
import os
import random
import struct
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from molecule_plugin.archive import safe_extract
from molecule_plugin.errors import UnsafeArchiveError
from molecule_plugin.limits import LIMITS, Limits

Make: TypeAlias = Callable[[], bytes]


def header(name: str | bytes, kind: bytes = tarfile.REGTYPE, size: int = 0, **fields: int | str) -> bytes:
    """One block of a tar, whatever it says."""
    found = tarfile.TarInfo("x")
    found.type, found.size = kind, max(size, 0)
    for field, value in fields.items():
        setattr(found, field, value)
    raw = bytearray(found.tobuf(tarfile.GNU_FORMAT))
    encoded = (name.encode() if isinstance(name, str) else name)[:100]
    raw[0:100] = encoded.ljust(100, b"\0")
    if size < 0:
        raw[124:136] = b"\xff" * 4 + struct.pack(">q", size)
    raw[148:156] = b" " * 8
    raw[148:156] = f"{sum(raw):06o}\0 ".encode()
    return bytes(raw)


def file(
    name: str | bytes, content: bytes = b"x", kind: bytes = tarfile.REGTYPE, **fields: int | str
) -> bytes:
    return header(name, kind, len(content), **fields) + content + b"\0" * (-len(content) % 512)


def packed(*blocks: bytes, end: bytes = b"\0" * 1024) -> bytes:
    return gzip.compress(b"".join(blocks) + end, 1)


def pax(records: Iterable[bytes], kind: bytes = tarfile.XHDTYPE) -> bytes:
    return file("pax", b"".join(_record(record) for record in records), kind)


def _record(record: bytes) -> bytes:
    length = len(record) + 2
    while len(str(length)) + len(record) + 2 != length:
        length = len(str(length)) + len(record) + 2
    return f"{length} ".encode() + record + b"\n"


def hostile(what: str, make: Make, says: str) -> object:
    return pytest.param(make, says, id=what)


ESCAPES = "refusing tar entry escaping dest"
NAME = "backslash or control character, or is not UTF-8"
KIND = "neither a file nor a directory"
GOOD = file("good.txt")
LONG_NAME = tarfile.GNUTYPE_LONGNAME
TOO_LARGE = f"larger than {LIMITS.file_bytes} bytes"
AFTER_END = "something follows after its end"

CORPUS = [
    hostile("parent", lambda: packed(GOOD, file("../evil")), ESCAPES),
    hostile("parent in the middle", lambda: packed(GOOD, file("a/../../evil")), ESCAPES),
    hostile("parent and back in", lambda: packed(GOOD, file("../plugin/evil")), ESCAPES),
    hostile("absolute", lambda: packed(GOOD, file("/evil")), ESCAPES),
    hostile("absolute inside", lambda: packed(GOOD, file("//plugin/evil")), ESCAPES),
    hostile("directory outside", lambda: packed(GOOD, header("../evil", tarfile.DIRTYPE)), ESCAPES),
    hostile("link outside", lambda: packed(GOOD, header("../l", tarfile.SYMTYPE, linkname="x")), ESCAPES),
    hostile("long name of GNU", lambda: packed(file("L", b"../evil\0", LONG_NAME), GOOD), ESCAPES),
    hostile("path of pax", lambda: packed(pax([b"path=../evil"]), GOOD), ESCAPES),
    hostile("path of pax for all", lambda: packed(pax([b"path=../evil"], tarfile.XGLTYPE), GOOD), ESCAPES),
    hostile("drive", lambda: packed(GOOD, file("C:/evil")), "reserved on Windows"),
    hostile("drive further in", lambda: packed(GOOD, file("a/c:evil")), "reserved on Windows"),
    hostile("device name", lambda: packed(GOOD, file("docs/NUL.txt")), "reserved on Windows"),
    hostile("device name, odd digit", lambda: packed(GOOD, file("com\u00b9")), "reserved on Windows"),
    hostile("backslash", lambda: packed(GOOD, file("..\\evil")), NAME),
    hostile("newline", lambda: packed(GOOD, file("a\nb")), NAME),
    hostile("escape", lambda: packed(GOOD, file("a\x1b[2Jb")), NAME),
    hostile("C1 control", lambda: packed(GOOD, file("a\u0085b")), NAME),
    hostile("NUL", lambda: packed(pax([b"path=a\0b"]), GOOD), NAME),
    hostile("not UTF-8", lambda: packed(GOOD, file(b"a\xff\xfe")), NAME),
    hostile("overlong UTF-8", lambda: packed(GOOD, file(b"\xc0\xae\xc0\xae/evil")), NAME),
    hostile("surrogate", lambda: packed(GOOD, file(b"\xed\xa0\x80")), NAME),
    hostile("character device", lambda: packed(GOOD, header("d", tarfile.CHRTYPE)), KIND),
    hostile("block device", lambda: packed(GOOD, header("d", tarfile.BLKTYPE)), KIND),
    hostile("pipe", lambda: packed(GOOD, header("d", tarfile.FIFOTYPE)), KIND),
    hostile("contiguous file", lambda: packed(GOOD, header("d", tarfile.CONTTYPE)), KIND),
    hostile("unknown type", lambda: packed(GOOD, header("d", b"s")), KIND),
    hostile("sparse file of GNU", lambda: packed(GOOD, header("d", tarfile.GNUTYPE_SPARSE)), KIND),
    hostile(
        "sparse file of pax",
        lambda: packed(pax([b"GNU.sparse.map=0,1", b"GNU.sparse.size=1"]), file("d"), GOOD),
        KIND,
    ),
    hostile(
        "sparse file whose map is the archive",
        lambda: packed(
            pax([b"GNU.sparse.major=1", b"GNU.sparse.minor=0"]), file("d", b"999999999\n" + b"1\n" * 400_000)
        ),
        KIND,
    ),
    hostile("dots and spaces", lambda: packed(GOOD, file(".. /evil")), "reserved on Windows"),
    hostile("file as the root", lambda: packed(GOOD, file(".")), "take the place of the plugin"),
    hostile("the same twice", lambda: packed(GOOD, GOOD), "twice"),
    hostile("the same on two ways", lambda: packed(GOOD, file("a/../good.txt")), "twice"),
    hostile("directory twice", lambda: packed(*[header("d", tarfile.DIRTYPE)] * 2), "twice"),
    hostile("directory over file", lambda: packed(GOOD, header("good.txt", tarfile.DIRTYPE)), "twice"),
    hostile("file below a file", lambda: packed(GOOD, file("good.txt/x")), "needs a directory"),
    hostile("file over directory", lambda: packed(file("d/x"), file("d")), "both a file and a directory"),
    hostile("too deep", lambda: packed(GOOD, file("d/" * 32 + "x")), "deeper than 32 levels"),
    hostile("path too long", lambda: packed(pax([b"path=" + b"n" * 513]), GOOD), "longer than 512 bytes"),
    hostile("10,001 entries", lambda: packed(*(file(f"{n}", b"") for n in range(10_001))), "10000 entries"),
    hostile(
        "10,001 links",
        lambda: packed(*[header("l", tarfile.SYMTYPE, linkname="x")] * 10_001),
        "10000 entries",
    ),
    hostile("one file too large", lambda: packed(header("big", size=LIMITS.file_bytes + 1)), TOO_LARGE),
    hostile(
        "size of pax", lambda: packed(pax([b"size=99999999999"]), header("big"), GOOD), TOO_LARGE
    ),
    hostile("bomb", lambda: packed(file("big", b"\0" * 3_000_000)), "more than 200 times its size"),
    hostile("bomb behind the end", lambda: packed(GOOD, end=b"\0" * 3_000_000), "more than 200 times"),
    hostile("bomb of bombs", lambda: gzip.compress(packed(GOOD)), "damaged or no gzip tar"),
    hostile("huge header", lambda: packed(file("p", b"1" * 200_000, tarfile.XHDTYPE)), "a header is larger"),
    hostile("huge name", lambda: packed(file("L", b"n" * 200_000, LONG_NAME)), "a header is larger"),
    hostile("headers without end", lambda: packed(pax([b"comment=x"]) * 3000, GOOD), "headers never end"),
    hostile("negative size", lambda: packed(header("n", size=-512), GOOD), "negative"),
    hostile("negative size of pax", lambda: packed(pax([b"size=-1024"]), GOOD), "negative"),
    hostile("hidden after the end", lambda: packed(GOOD, end=b"\0" * 1024 + GOOD), AFTER_END),
    hostile("garbage in the middle", lambda: packed(GOOD, b"\1" * 512, GOOD), AFTER_END),
    hostile("cut within a file", lambda: packed(header("n", size=4096), b"x" * 100, end=b""), "damaged"),
    hostile("cut gzip", lambda: packed(GOOD, random.Random(1).randbytes(4096))[:-900], "damaged"),
    hostile("wrong checksum", lambda: packed(GOOD)[:-8] + b"\0" * 8, "damaged"),
    hostile("trailing garbage", lambda: packed(GOOD) + b"garbage", "damaged"),
    hostile("plain tar", lambda: gzip.decompress(packed(GOOD)), "damaged or no gzip tar"),
    hostile("no archive", lambda: b"<html>not found</html>", "damaged or no gzip tar"),
    hostile("nothing", lambda: b"", "damaged or no gzip tar"),
]  # fmt: skip


def everything_in(root: Path) -> dict[str, bytes | None]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes() if path.is_file() else None
        for path in sorted(root.rglob("*"))
    }


@pytest.mark.parametrize(("make", "says"), CORPUS)
def test_a_hostile_archive_is_refused_in_words_and_changes_nothing(
    tmp_path: Path, make: Make, says: str
) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "old.txt").write_text("the version before")
    before = everything_in(tmp_path)
    content = make()
    for target in (tmp_path / "plugin", tmp_path / "old"):
        with pytest.raises(UnsafeArchiveError, match=says):
            safe_extract(io.BytesIO(content), target)
        assert everything_in(tmp_path) == before


def test_ten_thousand_entries_are_a_plugin(tmp_path: Path) -> None:
    safe_extract(io.BytesIO(packed(*(file(f"d{n % 100}/{n}", b"") for n in range(10_000)))), tmp_path)
    assert sum(len(files) for _, _, files in os.walk(tmp_path)) == 10_000


def test_setuid_is_taken_away_and_odd_but_honest_names_stay(tmp_path: Path) -> None:
    names = [
        "\u00e9",
        "e\u0301",
        "\U0001f600",
        "\u202egpj",
        "a b",
        "...",
        "..a",
        "constant",
        "a'b\"c$(x)",
        "-rf",
    ]
    safe_extract(io.BytesIO(packed(*(file(name, mode=0o7777) for name in names))), tmp_path)
    assert sorted(os.listdir(tmp_path)) == sorted(names)
    assert {os.stat(tmp_path / name).st_mode & 0o7777 for name in names} == {0o755}


NAMES = st.text(st.sampled_from("ab./\\C:\0\n\u00e9\u202e"), max_size=8) | st.sampled_from(
    ["..", "../x", "/x", "a/../../x", "plugin/../../old/old.txt", "NUL", "a/b/c", "./", ""]
)
KINDS = st.sampled_from([bytes([kind]) for kind in range(256)]) | st.sampled_from(
    [tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE]
)
TARGETS = st.sampled_from(["..", "/", "../old", "a", "../old/old.txt"])
MEMBERS = st.lists(
    st.tuples(NAMES, KINDS, TARGETS, st.integers(0, 0o7777), st.binary(max_size=20)), max_size=6
)
SMALL = Limits(entries=5, file_bytes=15, tree_bytes=40, depth=3, path_bytes=6)


def check_unpacking(content: bytes, root: Path) -> None:
    """Unpack beside a version that must stay; whatever happens, nothing may be outside of the target."""
    (root / "old").mkdir(parents=True)
    (root / "old" / "old.txt").write_text("the version before")
    target = root / "plugin"
    try:
        safe_extract(io.BytesIO(content), target, SMALL)
    except UnsafeArchiveError:
        assert not os.path.lexists(target)
    else:
        check_unpacked(target)
    assert {path.name for path in root.iterdir()} <= {"old", "plugin"}
    assert everything_in(root / "old") == {"old.txt": b"the version before"}


def check_unpacked(target: Path) -> None:
    for folder, folders, files in os.walk(target):
        for name in (*folders, *files):
            found = os.lstat(os.path.join(folder, name))
            assert not os.path.islink(os.path.join(folder, name))
            assert found.st_mode & 0o7000 == 0
    sizes = [path.stat().st_size for path in target.rglob("*") if path.is_file()]
    assert len(sizes) <= SMALL.entries
    assert sum(sizes) <= SMALL.tree_bytes


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(members=MEMBERS)
def test_whatever_the_members_nothing_leaves_the_target(
    members: list[tuple[str, bytes, str, int, bytes]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    blocks = (
        file(name, content, kind, linkname=target, mode=mode) for name, kind, target, mode, content in members
    )
    check_unpacking(packed(*blocks), tmp_path_factory.mktemp("any"))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_archive_never_escapes_hangs_or_raises_anything_else(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    whole = bytearray(
        pax([b"path=a/b", b"size=3"])
        + file("x", b"abc")
        + header("d", tarfile.DIRTYPE)
        + file("d/e")
        + bytes(1024)
    )
    for place, value in data.draw(
        st.lists(st.tuples(st.integers(0, len(whole) - 1), st.integers(0, 255)), min_size=1, max_size=4)
    ):
        whole[place] = value
    for start in range(0, len(whole), 512):
        if data.draw(st.booleans()):
            block = whole[start : start + 512]
            block[148:156] = b" " * 8
            whole[start + 148 : start + 156] = f"{sum(block):06o}\0 ".encode()
    check_unpacking(gzip.compress(bytes(whole), 1), tmp_path_factory.mktemp("any"))
