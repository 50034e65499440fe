"""Only named files of the work folder leave it, and no keys."""

import os
import re
from pathlib import Path
from typing import Any

import pytest

from molecule_runtime.domain.turns import Attachment
from molecule_runtime.kit.files.chat_uploads import MAX_FILE_BYTES, safe_name, work_dir
from molecule_runtime.kit.files.outbound_files import collect_outbound_files, stage_outbound_file
from tests.rows import each_row


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "report.pdf").write_bytes(b"%PDF")
    (tmp_path / "outside.txt").write_text("secret")
    return folder


def test_a_file_is_copied_and_told_as_a_part(work: Path) -> None:
    for path in ("report.pdf", work / "report.pdf", {"path": str(work / "report.pdf")}):
        part = stage_outbound_file(path, work=work)
        assert part is not None
        copy = Path(str(part["url"]).removeprefix("workspace:"))
        assert re.fullmatch(r"[0-9a-f]{16}-report\.pdf", copy.name)
        assert copy.parent == work / ".molecule" / "chat-uploads"
        assert copy.read_bytes() == b"%PDF"
        assert (part["filename"], part["mediaType"]) == ("report.pdf", "application/pdf")


def test_an_attachment_brings_its_own_type(work: Path) -> None:
    part = stage_outbound_file(Attachment("x", "text/x-own", work / "report.pdf"), work=work)
    assert part is not None
    assert part["mediaType"] == "text/x-own"


@each_row("path", ["../outside.txt", "/etc/passwd", "link.txt", "none.txt", ".", "pipe", "a\0b", "loop"])
def test_what_is_outside_or_no_file_stays(
    path: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    work = tmp_path / "work"
    if not work.exists():
        work.mkdir()
        (tmp_path / "outside.txt").write_text("secret")
        (work / "link.txt").symlink_to(tmp_path / "outside.txt")
        (work / "loop").symlink_to(work / "loop")
        os.mkfifo(work / "pipe")
    caplog.clear()
    assert stage_outbound_file(path, work=work) is None
    assert collect_outbound_files("", [path], work=work) == []
    assert "not attached" in caplog.text


@each_row(
    "name",
    [".env", ".env.local", ".ENV", "server.pem", "id_rsa", "id_ed25519.pub", ".auth_token", ".git/config"],
)
def test_keys_never_leave_not_even_under_another_name(name: str, work: Path) -> None:
    path = work / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("secret")
    link = work / "harmless.txt"
    link.unlink(missing_ok=True)
    link.symlink_to(path)
    assert stage_outbound_file(path, work=work) is None
    assert stage_outbound_file(link, work=work) is None


def test_a_file_of_more_than_25_mib_stays(work: Path) -> None:
    with (work / "big.bin").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    assert stage_outbound_file("big.bin", work=work) is None


def test_a_file_goes_once_and_at_most_ten_go(work: Path) -> None:
    for number in range(15):
        (work / f"{number}.txt").write_text("x")
    assert len(collect_outbound_files("", ["report.pdf", work / "report.pdf"], work=work)) == 1
    assert len(collect_outbound_files("", [f"{number}.txt" for number in range(15)], work=work)) == 10


def test_a_mentioned_path_is_exported_only_with_the_compatibility_flag(work: Path) -> None:
    text = (
        f"See /workspace/report.pdf, `{work}/report.pdf`, not /workspace/none.txt, /workspace/../outside.txt"
    )
    flag: dict[str, Any] = {"MOLECULE_AUTO_ATTACH": "1"}
    assert collect_outbound_files(text, work=work, environ={}) == []
    assert len(collect_outbound_files(text, work=work, environ=flag)) == 1


@each_row(
    ("name", "safe"),
    [
        ("report.pdf", "report.pdf"),
        ("../../etc/passwd", "passwd"),
        ("C:\\x\\y.txt", "y.txt"),
        ("Bericht März 2026.pdf", "Bericht_M_rz_2026.pdf"),
        (".hidden", "hidden"),
        ("a\n\0b", "a_b"),
        ("", "file"),
        ("...", "file"),
        ("é", "file"),
        ("x" * 300 + ".pdf", "x" * 96 + ".pdf"),
    ],
)
def test_a_name_is_made_safe(name: str, safe: str) -> None:
    assert safe_name(name) == safe


def test_the_work_folder_is_named_by_the_environment(tmp_path: Path) -> None:
    assert work_dir({"MOLECULE_WORKSPACE_DIR": str(tmp_path)}) == tmp_path
    fallback = work_dir({"WORKSPACE_CONFIG_PATH": str(tmp_path)})
    assert fallback in (Path("/workspace"), tmp_path / "workspace")
