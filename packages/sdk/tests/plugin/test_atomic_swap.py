"""One change: all or nothing, one at a time, and only inside its root."""

import threading
from pathlib import Path

import pytest

from molecule_plugin.atomic_swap import change, recover
from molecule_plugin.errors import PluginError
from molecule_plugin.file_lock import InstallInProgressError, one_at_a_time
from molecule_plugin.safe_paths import Root
from molecule_plugin.testing import snapshot


def _fill(staging: Path, text: str) -> None:
    (staging / "file").write_text(text)


def _install(root: Path, text: str) -> None:
    with change(root, root / "plugins") as swap:
        staging = swap.staging("demo")
        _fill(staging, text)
        swap.replace_tree(staging, root / "plugins" / "demo")
        swap.write(root / "ledger" / "demo.json", text.encode())


def test_a_change_that_ends_well_leaves_the_new_version_alone(tmp_path: Path) -> None:
    _install(tmp_path, "old")
    _install(tmp_path, "new")
    assert {path: data for path, (_, data) in snapshot(tmp_path).items() if data} == {
        "plugins/demo/file": b"new",
        "ledger/demo.json": b"new",
    }
    assert [path.name for path in (tmp_path / "plugins").iterdir()] == ["demo"]


def _fail_late(root: Path) -> None:
    with change(root, root / "plugins") as swap:
        swap.replace_tree(swap.staging("demo"), root / "plugins" / "demo")
        swap.write(root / "a" / "b" / "new", b"x")
        swap.remove(root / "ledger" / "demo.json")
        swap.keep(root / "shared")
        (root / "shared").write_text("changed by somebody's own code")
        raise RuntimeError


def test_an_error_undoes_everything(tmp_path: Path) -> None:
    _install(tmp_path, "old")
    (tmp_path / "shared").write_text("shared")
    before = snapshot(tmp_path)
    with pytest.raises(RuntimeError):
        _fail_late(tmp_path)
    assert snapshot(tmp_path) == before


def test_an_error_in_a_first_install_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        _fail_late(tmp_path)
    assert snapshot(tmp_path) == {}


def test_a_removed_tree_is_gone_when_the_change_is_final(tmp_path: Path) -> None:
    _install(tmp_path, "old")
    with change(tmp_path, tmp_path / "plugins") as swap:
        swap.remove_tree(tmp_path / "plugins" / "demo")
        swap.remove(tmp_path / "ledger" / "demo.json")
        swap.remove_directories([tmp_path / "ledger", tmp_path / "plugins"])
    assert snapshot(tmp_path) == {}


def test_left_over_staging_is_swept_by_the_next_change(tmp_path: Path) -> None:
    (tmp_path / "plugins" / ".staging-demo-0000").mkdir(parents=True)
    (tmp_path / "plugins" / ".previous-demo-0000").mkdir()
    assert not recover(tmp_path, tmp_path / "plugins")
    assert list((tmp_path / "plugins").iterdir()) == []


@pytest.mark.parametrize(
    "line",
    [
        b'{"op": "absent", "path": "../outside"}\n',
        b'{"op": "moved", "path": "plugins/demo", "aside": "/etc"}\n',
        b'{"op": "absent", "path": "link/outside"}\n',
        b"not json\n",
        b'{"unknown": 1}\n',
    ],
)
def test_an_undo_log_that_lies_is_refused_and_nothing_outside_is_touched(tmp_path: Path, line: bytes) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    undo = root / "plugins" / ".undo"
    undo.mkdir(parents=True)
    outside.write_text("precious")
    (root / "link").symlink_to(tmp_path)
    (undo / "log").write_bytes(line)
    with pytest.raises(PluginError):
        recover(root, root / "plugins")
    assert outside.read_text() == "precious"


@pytest.mark.parametrize("path", ["", ".", "..", "../x", "/x", "a/../../x", "a\x00b", "link/x"])
def test_a_path_that_leaves_the_root_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "link").symlink_to("/")
    with pytest.raises(PluginError):
        Root(tmp_path).path(path)


def test_only_one_holds_the_lock_and_it_leaves_no_file(tmp_path: Path) -> None:
    lock_file = tmp_path / "lock"
    with one_at_a_time(lock_file):
        with pytest.raises(InstallInProgressError), one_at_a_time(lock_file, wait=0.05):
            pass
        assert lock_file.exists()
    assert not lock_file.exists()


def test_many_threads_take_the_lock_one_after_the_other(tmp_path: Path) -> None:
    inside: list[int] = []
    most: list[int] = []

    def work() -> None:
        for _ in range(5):
            with one_at_a_time(tmp_path / "lock"):
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(most), max(most)) == (20, 1)
